//! The names of Go's types in the errors of its decoder.

use crate::{Field, Message, Ty};

use crate::path::Path;

/// Returns `json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32`.
pub(super) fn type_error(path: Option<&Path<'_>>, value: &str, ty: &str) -> String {
    let fields = Path::fields(path);
    // A type with a decoder of its own returns an error to the decoder around it, which puts its own struct into it.
    let returned = fields.iter().find(|(_, field)| has_own_decoder(&field.ty));
    let Some((holder, _)) = returned.or(fields.last()) else {
        return format!("json: cannot unmarshal {value} into Go value of type {ty}");
    };
    let mut names = Vec::with_capacity(fields.len());
    for (message, field) in &fields {
        names.extend(embedded(message, field));
        names.push(field.name.as_str());
    }
    let holder = short_name(holder);
    format!("json: cannot unmarshal {value} into Go struct field {holder}.{} of type {ty}", names.join("."))
}

fn has_own_decoder(ty: &Ty) -> bool {
    match ty {
        Ty::SchemaOrBool(_) | Ty::SchemaOrArray(_) | Ty::SchemaOrStrings(_) => true,
        ty => ty.element().or(ty.map_value()).is_some_and(has_own_decoder),
    }
}

/// Returns the Go type of a value of this schema type at a path: strings, lists and maps may have named types.
pub(super) fn type_at(path: Option<&Path<'_>>, ty: &Ty) -> String {
    let Some((message, field, depth)) = Path::holder(path) else { return type_name(ty) };
    let value = declared(message, field).and_then(|declared| (0..depth).try_fold(declared, |ty, _| element(ty)));
    value.map_or_else(|| type_name(ty), str::to_owned)
}

/// Returns the Go type of a field, if its [`Ty`] does not determine it.
pub(super) fn declared(message: &Message, field: &Field) -> Option<&'static str> {
    message.go_types.iter().find(|(name, _)| *name == field.name).map(|(_, declared)| *declared)
}

/// Returns the type of a list's elements or a map's values; `None` if a named type hides it.
pub(super) fn element(ty: &str) -> Option<&str> {
    let element = ty.strip_prefix("[]").or_else(|| ty.strip_prefix("map[")?.split_once(']').map(|(_, value)| value))?;
    // The decoder dereferences pointers.
    Some(element.strip_prefix('*').unwrap_or(element))
}

/// Returns the Go type of a schema type, ignoring named types.
pub(super) fn type_name(ty: &Ty) -> String {
    if let Some(element) = ty.element() {
        return format!("[]{}", type_name(element));
    }
    match ty {
        Ty::Map(_) | Ty::StaticMap(_) => match ty.map_value() {
            // Maps of quantities are always a ResourceList.
            Some(Ty::Quantity) => "v1.ResourceList".to_owned(),
            value => format!("map[string]{}", value.map(type_name).unwrap_or_default()),
        },
        Ty::Message(message) => qualified_name(message),
        _ => scalar_name(ty).to_owned(),
    }
}

fn scalar_name(ty: &Ty) -> &'static str {
    match ty {
        Ty::Bool => "bool",
        Ty::Int32 => "int32",
        Ty::Int64 => "int64",
        Ty::Uint32 => "uint32",
        Ty::Double => "float64",
        Ty::Bytes => "[]uint8",
        Ty::Time => "v1.Time",
        Ty::MicroTime => "v1.MicroTime",
        Ty::Duration => "v1.Duration",
        Ty::Quantity => "resource.Quantity",
        Ty::IntOrString => "intstr.IntOrString",
        Ty::RawExtension => "runtime.RawExtension",
        Ty::Json => "v1.JSON",
        Ty::FieldsV1 => "v1.FieldsV1",
        Ty::SchemaOrBool(_) => "v1.JSONSchemaPropsOrBool",
        Ty::SchemaOrArray(_) => "v1.JSONSchemaPropsOrArray",
        Ty::SchemaOrStrings(_) => "v1.JSONSchemaPropsOrStringArray",
        _ => "string",
    }
}

/// Returns `PodSpec` for `io.k8s.api.core.v1.PodSpec`.
fn short_name(message: &Message) -> &str {
    message.name.rsplit('.').next().unwrap_or_default()
}

/// Returns `v1.PodSpec` for `io.k8s.api.core.v1.PodSpec`: Go displays the last element of the package.
pub(super) fn qualified_name(message: &Message) -> String {
    let mut parts = message.name.rsplit('.');
    let name = parts.next().unwrap_or_default();
    match parts.next() {
        Some(package) => format!("{package}.{name}"),
        None => name.to_owned(),
    }
}

/// Returns the embedded structs between a struct and its field, outermost first: Go's errors contain them, JSON does
/// not.
fn embedded(message: &Message, field: &Field) -> &'static [&'static str] {
    if field.embedded_in.is_empty() {
        let inline = field.tag == 0 && matches!(field.name.as_str(), "apiVersion" | "kind");
        return if inline { &["TypeMeta"] } else { &[] };
    }
    let names: &[&str] = match short_name(message) {
        "Volume" => &["VolumeSource"],
        "PersistentVolumeSpec" => &["PersistentVolumeSource"],
        "Probe" | "LifecycleHandler" => &["ProbeHandler"],
        "EphemeralContainer" => &["EphemeralContainerCommon"],
        "IngressRule" => &["IngressRuleValue"],
        "RuleWithOperations" => &["Rule"],
        "NamedRuleWithOperations" => &["RuleWithOperations", "Rule"],
        "DeviceClaimConfiguration" | "DeviceClassConfiguration" | "DeviceAllocationConfiguration" => {
            &["DeviceConfiguration"]
        }
        _ => &["LocalObjectReference"],
    };
    &names[..field.embedded_in.len().min(names.len())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageRef, Presence};

    #[test]
    fn returns_declared_go_types() {
        static FIELDS: [Field; 0] = [];
        let message = Message::of_table("io.k8s.api.core.v1.PodSpec", &FIELDS, false, &[]).with_go_types(&[
            ("restartPolicy", "v1.RestartPolicy"),
            ("modes", "[]v1.Mode"),
            ("extra", "map[string]v1.ExtraValue"),
            ("requests", "v1.ResourceList"),
        ]);
        let field = |name: &'static str, ty: Ty| Field::new(name, ty);
        let list = |ty: Ty| Ty::List(Box::new(ty));
        let quantities = || Ty::Map(Box::new(Ty::Quantity));
        for (field, depth, ty, want) in [
            (field("restartPolicy", Ty::String), 0, Ty::String, "v1.RestartPolicy"),
            (field("nodeName", Ty::String), 0, Ty::String, "string"),
            (field("modes", list(Ty::String)), 0, list(Ty::String), "[]v1.Mode"),
            (field("modes", list(Ty::String)), 1, Ty::String, "v1.Mode"),
            (field("extra", Ty::Map(Box::new(list(Ty::String)))), 1, list(Ty::String), "v1.ExtraValue"),
            // The named type hides its elements' type.
            (field("extra", Ty::Map(Box::new(list(Ty::String)))), 2, Ty::String, "string"),
            (field("requests", quantities()), 1, Ty::Quantity, "resource.Quantity"),
        ] {
            let at = Path::field(None, &message, &field);
            let (first, second) = (Path::key(Some(&at), "k"), Path::index(Some(&at), 0));
            let deeper = Path::index(Some(&first), 0);
            let path = [&at, &second, &deeper][depth];
            assert_eq!(type_at(Some(path), &ty), want, "{} at {depth}", field.name);
        }
    }

    #[test]
    fn returns_go_type_names() {
        let list = |ty: Ty| Ty::List(Box::new(ty));
        let map = |ty: Ty| Ty::Map(Box::new(ty));
        let container = || Ty::Message(MessageRef::Shared(Message::new("io.k8s.api.core.v1.Container", vec![]).into()));
        for (ty, want) in [
            (Ty::String, "string"),
            (map(Ty::String), "map[string]string"),
            (map(Ty::Bytes), "map[string][]uint8"),
            (list(container()), "[]v1.Container"),
            (container(), "v1.Container"),
            (map(Ty::Quantity), "v1.ResourceList"),
            (list(map(list(Ty::Int64))), "[]map[string][]int64"),
        ] {
            assert_eq!(type_name(&ty), want);
        }
    }

    #[test]
    fn paths_contain_embedded_structs() {
        let field = Field { tag: 1, embedded_in: &[2], ..Field::new("hostPath", Ty::String) };
        let volume = Message::new("io.k8s.api.core.v1.Volume", vec![field.clone()]);
        let kind = Field { presence: Presence::OmitZero, ..Field::new("kind", Ty::String) };
        let pod = Message::new("io.k8s.api.core.v1.Pod", vec![kind.clone()]);
        let volumes = Field { tag: 1, ..Field::new("volumes", Ty::String) };
        let path = Path::field(None, &pod, &volumes);
        let path = Path::index(Some(&path), 0);
        for (path, want) in [
            (
                Path::field(Some(&path), &volume, &field),
                "json: cannot unmarshal number into Go struct field Volume.volumes.VolumeSource.hostPath of type x",
            ),
            (
                Path::field(None, &pod, &kind),
                "json: cannot unmarshal number into Go struct field Pod.TypeMeta.kind of type x",
            ),
        ] {
            assert_eq!(type_error(Some(&path), "number", "x"), want);
        }
        assert_eq!(type_error(None, "array", "v1.Pod"), "json: cannot unmarshal array into Go value of type v1.Pod");
    }
}
