//! Structs as kube-apiserver shows them in messages: JSON of its internal types, with Go's field names, all fields
//! present, and nil as `null`. Types without an internal form, such as selectors, are shown as in the API.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::PodSpec;
use binnacle_meta::{ErrorValue, Text};
use binnacle_schema::{Field, Message, Object, Presence, Ty, Value, canonical, json};

use crate::tables;

/// Returns a structure as a message shows it; an absent one shows as `null`.
pub(crate) fn shown<M: binnacle_fields::Message>(field: FieldRef<M>) -> ErrorValue {
    shown_as(M::DEFINITION, field.get())
}

/// Returns a struct of a definition (`io.k8s.api.core.v1.Toleration`) as a message shows it; `None` shows as `null`.
pub(crate) fn shown_as(definition: &str, value: Option<&Value>) -> ErrorValue {
    ErrorValue::raw(json::to_string(&internal(definition, value)))
}

/// Returns the internal form of a struct.
pub(crate) fn internal(definition: &str, value: Option<&Value>) -> Value {
    match (tables::message(definition), value) {
        (Some(message), Some(Value::Object(object))) => internal_struct(object, message).into(),
        (_, value) => value.cloned().unwrap_or_default(),
    }
}

/// Returns the internal form of a member of a definition's structs.
pub(crate) fn member(definition: &str, name: &str, value: &Value) -> Value {
    let field = tables::message(definition).and_then(|message| message.fields.iter().find(|field| field.name == name));
    field.map_or_else(|| value.clone(), |field| internal_member(Some(value), field))
}

/// Returns true for definitions whose Go types have JSON tags, so that they are shown as in the API.
fn is_api_type(message: &Message) -> bool {
    message.name.starts_with("io.k8s.apimachinery")
}

fn internal_struct(object: &Object, message: &Message) -> Object {
    if is_api_type(message) {
        let mut object = Value::Object(object.clone());
        canonical::canonicalize(&mut object, message);
        return object.into_object().unwrap_or_default();
    }
    let short = message.name.rsplit('.').next().unwrap_or("");
    let mut shown = Object::new();
    let fields = message.fields.iter().filter(|field| field.tag != 0 || !field.embedded_in.is_empty());
    for field in fields.filter(|field| !is_moved(short, &field.name)) {
        let value = object.get(&field.name);
        // Metadata is embedded: its members are inlined in the struct, in their API form.
        if let Some(inner) = field.ty.message().filter(|inner| inner.name.ends_with(".meta.v1.ObjectMeta")) {
            if let Some(metadata) = value.and_then(Value::as_object) {
                let metadata = internal_struct(metadata, inner);
                metadata.into_iter().for_each(|(name, value)| drop(shown.insert(name, value)));
            }
            continue;
        }
        let is_absent_value = value.is_none_or(Value::is_null) && VALUES.contains(&(short, &field.name));
        let member = if is_absent_value { zero(&field.ty) } else { internal_member(value, field) };
        shown.insert(go_name(short, &field.name), member);
    }
    if short == "PodSpec" {
        move_host_fields(object, message, &mut shown);
    }
    if let Some((_, order)) = ORDERS.iter().find(|(name, _)| *name == short) {
        shown.sort_by_key(|name| order.iter().position(|ordered| name == ordered).unwrap_or(usize::MAX));
    }
    shown
}

/// Returns true for fields of a pod's spec that the internal type has in the security context, or not at all.
fn is_moved(short: &str, field: &str) -> bool {
    short == "PodSpec" && (field == PodSpec::SERVICE_ACCOUNT.name() || HOST_FIELDS.contains(&field))
}

fn move_host_fields(spec: &Object, message: &Message, shown: &mut Object) {
    let Some(context) = shown.get_mut("SecurityContext") else { return };
    let mut merged = Object::new();
    for field in HOST_FIELDS.iter().filter_map(|name| message.get(name)) {
        merged.insert(go_name("PodSpec", &field.name), internal_member(spec.get(&field.name), field));
    }
    for (name, value) in context.as_object().into_iter().flat_map(|context| context.iter()) {
        merged.insert(name.clone(), value.clone());
    }
    *context = merged.into();
}

const HOST_FIELDS: [&str; 5] = [
    PodSpec::HOST_NETWORK.name(),
    PodSpec::HOST_PID.name(),
    PodSpec::HOST_IPC.name(),
    PodSpec::SHARE_PROCESS_NAMESPACE.name(),
    PodSpec::HOST_USERS.name(),
];

/// Fields that are pointers in the API and values in the internal structs.
const VALUES: [(&str, &str); 5] = [
    ("RollingUpdateDaemonSet", "maxSurge"),
    ("RollingUpdateDaemonSet", "maxUnavailable"),
    ("RollingUpdateDeployment", "maxSurge"),
    ("RollingUpdateDeployment", "maxUnavailable"),
    ("RollingUpdateStatefulSetStrategy", "partition"),
];

#[rustfmt::skip]
/// The fields of internal structs whose order is different in the API.
const ORDERS: [(&str, &[&str]); 5] = [
    (
        "PodSpec",
        &[
            "Volumes", "InitContainers", "Containers", "EphemeralContainers", "RestartPolicy",
            "TerminationGracePeriodSeconds", "ActiveDeadlineSeconds", "DNSPolicy", "NodeSelector",
            "ServiceAccountName", "AutomountServiceAccountToken", "NodeName", "SecurityContext", "ImagePullSecrets",
            "Hostname", "Subdomain", "SetHostnameAsFQDN", "Affinity", "SchedulerName", "Tolerations", "HostAliases",
            "PriorityClassName", "Priority", "PreemptionPolicy", "DNSConfig", "ReadinessGates", "RuntimeClassName",
            "Overhead", "EnableServiceLinks", "TopologySpreadConstraints", "OS", "SchedulingGates", "ResourceClaims",
            "Resources", "HostnameOverride", "SchedulingGroup",
        ],
    ),
    (
        "PodSecurityContext",
        &[
            "SELinuxOptions", "WindowsOptions", "RunAsUser", "RunAsGroup", "RunAsNonRoot", "SupplementalGroups",
            "SupplementalGroupsPolicy", "FSGroup", "FSGroupChangePolicy", "Sysctls", "SeccompProfile",
            "AppArmorProfile", "SELinuxChangePolicy",
        ],
    ),
    (
        "Volume",
        &[
            "Name", "HostPath", "EmptyDir", "GCEPersistentDisk", "AWSElasticBlockStore", "GitRepo", "Secret", "NFS",
            "ISCSI", "Glusterfs", "PersistentVolumeClaim", "RBD", "Quobyte", "FlexVolume", "Cinder", "CephFS",
            "Flocker", "DownwardAPI", "FC", "AzureFile", "ConfigMap", "VsphereVolume", "AzureDisk",
            "PhotonPersistentDisk", "Projected", "PortworxVolume", "ScaleIO", "StorageOS", "CSI", "Ephemeral", "Image",
        ],
    ),
    (
        "PersistentVolumeSpec",
        &[
            "Capacity", "GCEPersistentDisk", "AWSElasticBlockStore", "HostPath", "Glusterfs", "NFS", "RBD", "Quobyte",
            "ISCSI", "FlexVolume", "Cinder", "CephFS", "FC", "Flocker", "AzureFile", "VsphereVolume", "AzureDisk",
            "PhotonPersistentDisk", "PortworxVolume", "ScaleIO", "Local", "StorageOS", "CSI", "AccessModes",
            "ClaimRef", "PersistentVolumeReclaimPolicy", "StorageClassName", "MountOptions", "VolumeMode",
            "NodeAffinity", "VolumeAttributesClassName",
        ],
    ),
    (
        "JSONSchemaProps",
        &[
            "ID", "Schema", "Ref", "Description", "Type", "Nullable", "Format", "Title", "Default", "Maximum",
            "ExclusiveMaximum", "Minimum", "ExclusiveMinimum", "MaxLength", "MinLength", "Pattern", "MaxItems",
            "MinItems", "UniqueItems", "MultipleOf", "Enum", "MaxProperties", "MinProperties", "Required", "Items",
            "AllOf", "OneOf", "AnyOf", "Not", "Properties", "AdditionalProperties", "PatternProperties",
            "Dependencies", "AdditionalItems", "Definitions", "ExternalDocs", "Example", "XPreserveUnknownFields",
            "XEmbeddedResource", "XIntOrString", "XListMapKeys", "XListType", "XMapType", "XValidations",
        ],
    ),
];

/// Fields with another name in Go: struct (empty for any), JSON name, Go name.
const RENAMED: [(&str, &str, &str); 38] = [
    ("", "$ref", "Ref"),
    ("", "$schema", "Schema"),
    ("", "x-kubernetes-embedded-resource", "XEmbeddedResource"),
    ("", "x-kubernetes-int-or-string", "XIntOrString"),
    ("", "x-kubernetes-list-map-keys", "XListMapKeys"),
    ("", "x-kubernetes-list-type", "XListType"),
    ("", "x-kubernetes-map-type", "XMapType"),
    ("", "x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("", "x-kubernetes-validations", "XValidations"),
    ("", "awsElasticBlockStore", "AWSElasticBlockStore"),
    ("", "cephfs", "CephFS"),
    ("", "chapAuthDiscovery", "DiscoveryCHAPAuth"),
    ("", "chapAuthSession", "SessionCHAPAuth"),
    ("", "diskURI", "DataDiskURI"),
    ("", "externalID", "DoNotUseExternalID"),
    ("", "gcePersistentDisk", "GCEPersistentDisk"),
    ("", "iqn", "IQN"),
    ("", "jsonPath", "JSONPath"),
    ("", "lastState", "LastTerminationState"),
    ("", "pdName", "PDName"),
    ("", "qosClass", "QOSClass"),
    ("", "reportingComponent", "ReportingController"),
    ("", "sslEnabled", "SSLEnabled"),
    ("", "storageos", "StorageOS"),
    ("", "ttlSecondsAfterFinished", "TTLSecondsAfterFinished"),
    ("", "wwids", "WWIDs"),
    ("GlusterfsPersistentVolumeSource", "endpoints", "EndpointsName"),
    ("GlusterfsVolumeSource", "endpoints", "EndpointsName"),
    ("RBDPersistentVolumeSource", "image", "RBDImage"),
    ("RBDPersistentVolumeSource", "monitors", "CephMonitors"),
    ("RBDPersistentVolumeSource", "pool", "RBDPool"),
    ("RBDPersistentVolumeSource", "user", "RadosUser"),
    ("RBDVolumeSource", "image", "RBDImage"),
    ("RBDVolumeSource", "monitors", "CephMonitors"),
    ("RBDVolumeSource", "pool", "RBDPool"),
    ("RBDVolumeSource", "user", "RadosUser"),
    ("", "gmsaCredentialSpec", "GMSACredentialSpec"),
    ("", "gmsaCredentialSpecName", "GMSACredentialSpecName"),
];

fn internal_member(value: Option<&Value>, field: &Field) -> Value {
    match value.filter(|value| !value.is_null()) {
        Some(value) => internal_value(value, &field.ty),
        None if field.ty.element().is_some() || field.ty.map_value().is_some() => Value::Null,
        None if matches!(field.presence, Presence::Optional | Presence::AlwaysNull) => Value::Null,
        None => zero(&field.ty),
    }
}

fn internal_value(value: &Value, ty: &Ty) -> Value {
    let either = |first: &'static str, a: Value, second: &'static str, b: Value| {
        Value::Object([(first, a), (second, b)].into_iter().collect())
    };
    let of = |value: &Value, message: &Message| internal_value_of(value, message);
    match (value, ty) {
        (Value::Bool(_), Ty::SchemaOrBool(_)) => return either("Allows", value.clone(), "Schema", Value::Null),
        (value, Ty::SchemaOrBool(message)) => return either("Allows", true.into(), "Schema", of(value, message)),
        (Value::List(items), Ty::SchemaOrArray(message)) => {
            let items = items.iter().map(|item| of(item, message)).collect();
            return either("Schema", Value::Null, "JSONSchemas", Value::List(items));
        }
        (value, Ty::SchemaOrArray(message)) => return either("Schema", of(value, message), "JSONSchemas", Value::Null),
        (Value::List(_), Ty::SchemaOrStrings(_)) => return either("Schema", Value::Null, "Property", value.clone()),
        (value, Ty::SchemaOrStrings(message)) => return either("Schema", of(value, message), "Property", Value::Null),
        (value, Ty::Json) => {
            let mut value = value.clone();
            json::unpack(&mut value);
            binnacle_schema::sort_free_form(&mut value);
            return value;
        }
        _ => {}
    }
    match (value, ty.message(), ty.element()) {
        (Value::Object(object), Some(message), _) => internal_struct(object, message).into(),
        (Value::List(items), _, Some(element)) => {
            Value::List(items.iter().map(|item| internal_value(item, element)).collect())
        }
        (Value::Object(object), _, _) => match ty.map_value() {
            Some(element) => {
                let mut map: Object = object.iter().map(|(k, v)| (k.clone(), internal_value(v, element))).collect();
                map.sort_by_name();
                map.into()
            }
            None => value.clone(),
        },
        _ => value.clone(),
    }
}

fn internal_value_of(value: &Value, message: &Message) -> Value {
    match value {
        Value::Object(object) => internal_struct(object, message).into(),
        other => other.clone(),
    }
}

fn zero(ty: &Ty) -> Value {
    match ty {
        Ty::Bool => false.into(),
        Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double | Ty::IntOrString => Value::Int(0),
        Ty::Quantity => "0".into(),
        Ty::Time | Ty::MicroTime | Ty::RawExtension => Value::Null,
        Ty::Message(message) => internal_struct(&Object::new(), message).into(),
        _ => "".into(),
    }
}

/// Returns Go's name of a field: a different name, or one with initials in capitals.
fn go_name(short: &str, name: &str) -> Text {
    const INITIALS: [(&str, &str); 22] = [
        ("api", "API"),
        ("cel", "CEL"),
        ("cidr", "CIDR"),
        ("cidrs", "CIDRs"),
        ("csi", "CSI"),
        ("dns", "DNS"),
        ("fc", "FC"),
        ("fs", "FS"),
        ("gid", "GID"),
        ("grpc", "GRPC"),
        ("http", "HTTP"),
        ("iscsi", "ISCSI"),
        ("id", "ID"),
        ("ip", "IP"),
        ("nfs", "NFS"),
        ("os", "OS"),
        ("rbd", "RBD"),
        ("se", "SE"),
        ("tcp", "TCP"),
        ("tty", "TTY"),
        ("uid", "UID"),
        ("url", "URL"),
    ];
    if short == "DeviceAttribute" {
        let (kind, list) = name.strip_suffix('s').map_or((name, ""), |kind| (kind, "s"));
        return format!("{}Value{list}", go_name("", kind)).into();
    }
    let renamed = RENAMED.iter().find(|(of, json, _)| *json == name && (of.is_empty() || *of == short));
    if let Some((_, _, go)) = renamed {
        return Text::new_static(go);
    }
    let word = name.find(|c: char| c.is_ascii_uppercase()).unwrap_or(name.len());
    let (first, rest) = name.split_at(word);
    if let Some((_, capitals)) = INITIALS.iter().find(|(initials, _)| *initials == first) {
        return format!("{capitals}{rest}").into();
    }
    let mut letters = name.chars();
    match letters.next() {
        Some(letter) => format!("{}{}", letter.to_ascii_uppercase(), letters.as_str()).into(),
        None => Text::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn formats_values_as_internal_types() {
        for (definition, given, want) in [
            (
                "io.k8s.api.core.v1.ServicePort",
                value!({"port": 80i64, "protocol": "TCP"}),
                r#"{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
            ),
            (
                "io.k8s.api.core.v1.Taint",
                value!({"key": "a", "effect": "NoSchedule"}),
                r#"{"Key":"a","Value":"","Effect":"NoSchedule","TimeAdded":null}"#,
            ),
            (
                "io.k8s.api.rbac.v1.RoleRef",
                value!({"apiGroup": "g", "kind": "K", "name": "n"}),
                r#"{"APIGroup":"g","Kind":"K","Name":"n"}"#,
            ),
            (
                "io.k8s.api.resource.v1.ResourceClaimTemplateSpec",
                value!({"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": null}}}),
                r#"{"labels":{"a":"b"},"Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}"#,
            ),
            (
                "io.k8s.api.resource.v1.DeviceAttribute",
                value!({"int": 1i64}),
                r#"{"IntValue":1,"BoolValue":null,"StringValue":null,"VersionValue":null,"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}"#,
            ),
        ] {
            assert_eq!(json::to_string(&internal(definition, Some(&given))), want);
        }
    }
}
