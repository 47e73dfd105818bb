//! Spot checks of well-known facts, and the lookups.

use binnacle_kinds::tables::{self, kind, kinds, message, messages};
use binnacle_schema::{Field, ListType, Message, Presence, Ty};

fn core(name: &str) -> &'static Message {
    message(&format!("io.k8s.api.core.v1.{name}")).unwrap()
}

fn field(message: &'static Message, name: &str) -> &'static Field {
    message.get(name).unwrap_or_else(|| panic!("{} has no {name}", message.name))
}

#[test]
fn fields_have_expected_numbers_and_presence() {
    use Presence::*;
    let meta = |name: &str| message(&format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")).unwrap();
    let cases: &[(&'static Message, &str, &[u32], u32, Presence)] = &[
        (core("Container"), "name", &[], 1, Always),
        (core("Container"), "image", &[], 2, OmitZero),
        (core("Container"), "resources", &[], 8, Always),
        (core("Container"), "securityContext", &[], 15, Optional),
        (core("Container"), "stdin", &[], 16, OmitZero),
        (core("Pod"), "kind", &[], 0, OmitZero),
        (core("Pod"), "metadata", &[], 1, Always),
        (core("Pod"), "status", &[], 3, Always),
        (core("PodSpec"), "containers", &[], 2, AlwaysNull),
        (core("PodStatus"), "startTime", &[], 7, Optional),
        (core("Volume"), "hostPath", &[2], 1, Optional),
        (core("Probe"), "exec", &[1], 1, Optional),
        (core("Probe"), "periodSeconds", &[], 4, OmitZero),
        (core("EphemeralContainer"), "stdin", &[1], 16, OmitZero),
        (core("EphemeralContainer"), "targetContainerName", &[], 2, OmitZero),
        (core("PersistentVolumeSpec"), "nfs", &[2], 5, Optional),
        (core("ConfigMapKeySelector"), "name", &[1], 1, OmitZero),
        (core("DaemonEndpoint"), "Port", &[], 1, Always),
        (meta("ObjectMeta"), "creationTimestamp", &[], 8, OmitZero),
        (meta("WatchEvent"), "object", &[], 2, Always),
        (message("io.k8s.api.apps.v1.DeploymentSpec").unwrap(), "replicas", &[], 1, Optional),
        (message("io.k8s.api.apps.v1.DeploymentSpec").unwrap(), "selector", &[], 2, AlwaysNull),
        (kind("rbac.authorization.k8s.io", "v1", "ClusterRole").unwrap(), "rules", &[], 2, AlwaysNull),
        (
            message("io.k8s.api.admissionregistration.v1.NamedRuleWithOperations").unwrap(),
            "apiGroups",
            &[2, 2],
            1,
            OmitZero,
        ),
    ];
    for (message, name, embedded_in, tag, presence) in cases {
        let field = field(message, name);
        let found = (field.embedded_in, field.tag, field.presence);
        assert_eq!(found, (*embedded_in, *tag, *presence), "{}.{name}", message.name);
    }
}

#[test]
fn fields_have_the_order_of_go_structs() {
    let names =
        |message: &Message, n: usize| message.fields.iter().take(n).map(|f| f.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(core("Pod"), 9), ["kind", "apiVersion", "metadata", "spec", "status"]);
    assert_eq!(names(core("Container"), 5), ["name", "image", "command", "args", "workingDir"]);
    assert_eq!(names(core("PodStatus"), 3), ["observedGeneration", "phase", "conditions"]);
    assert_eq!(names(core("Volume"), 3), ["name", "hostPath", "emptyDir"]);
}

#[test]
fn fields_have_expected_types_and_merge_rules() {
    let ports = field(core("Container"), "ports");
    assert!(matches!(&ports.list_type, ListType::Map(keys) if keys.iter().eq(["containerPort", "protocol"])));
    assert!(ports.patch.merge && ports.patch.merge_key == "containerPort");
    assert!(matches!(ports.ty, Ty::StaticList(Ty::Message(_))));
    assert_eq!(field(core("ContainerPort"), "protocol").default.as_deref(), Some("\"TCP\""));
    let policy = field(core("Container"), "imagePullPolicy");
    assert!(policy.values.iter().eq(["Always", "IfNotPresent", "Never"]));
    assert!(field(core("Service"), "spec").zero_default);
    assert!(core("ConfigMapKeySelector").atomic);
    assert!(field(core("PodAffinityTerm"), "labelSelector").is_atomic());
    assert!(matches!(field(core("Secret"), "data").ty, Ty::StaticMap(Ty::Bytes)));
    let extra = field(message("io.k8s.api.authentication.v1.UserInfo").unwrap(), "extra");
    assert!(matches!(extra.ty, Ty::StaticMap(Ty::StaticWrappedList(Ty::String))));
    let props = message("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps").unwrap();
    let Ty::SchemaOrArray(items) = &field(props, "items").ty else { panic!("items is no schema") };
    assert!(std::ptr::eq(&**items, props));
    assert!(field(core("PodSpec"), "containers").required && !field(core("PodSpec"), "volumes").required);
}

#[test]
fn finds_kinds_and_messages() {
    assert!(std::ptr::eq(kind("", "v1", "Pod").unwrap(), core("Pod")));
    assert!(kind("", "v1", "PodList").is_some());
    assert!(kind("apps", "v1", "Pod").is_none());
    assert!(message("io.k8s.api.core.v1.Nothing").is_none());
    // The same options in every group version, but not in groups that register none.
    let options = kind("", "v1", "ListOptions").unwrap();
    assert!(std::ptr::eq(kind("apps", "v1", "ListOptions").unwrap(), options));
    assert!(kind("", "v1", "Status").is_some() && kind("apps", "v1", "Status").is_none());
    let both = ["v1", "v1beta1"].map(|version| kind("meta.k8s.io", version, "PartialObjectMetadata").unwrap());
    assert!(std::ptr::eq(both[0], both[1]));
    assert!(messages().all(|m| std::ptr::eq(message(&m.name).unwrap(), m)));
    assert!(kinds().all(|k| std::ptr::eq(kind(k.group, k.version, k.kind).unwrap(), k.message)));
    let pod = kinds().find(|k| k.kind == "Pod").unwrap();
    assert_eq!(format!("{pod:?}"), "/v1, Kind=Pod (io.k8s.api.core.v1.Pod)");
    assert_eq!(tables::kinds().filter(|k| k.kind == "Pod").count(), 1);
}
