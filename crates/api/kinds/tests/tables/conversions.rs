//! kube-apiserver's filled objects are converted to the stored version of their kind and back without a change.

use binnacle_kinds::{conversion, tables};
use binnacle_schema::{Limits, Value, canonical, decode, json};
use binnacle_test_requirements::shared;

use crate::support::documents;

/// Kinds that Go changes as well: subjects of unknown kinds get a group and lose the version, slices get a host name if
/// they name a node, daemon sets a generation, and claims of stateful sets their type.
const LOSSY: [&str; 6] = [
    "apps.v1beta1.StatefulSet",
    "apps.v1beta2.DaemonSet",
    "apps.v1beta2.StatefulSet",
    "discovery.k8s.io.v1beta1.EndpointSlice",
    "rbac.authorization.k8s.io.v1alpha1.ClusterRoleBinding",
    "rbac.authorization.k8s.io.v1alpha1.RoleBinding",
];

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn filled_objects_survive_conversion_to_storage_version() {
    let folder = shared("reference/roundtrip");
    let (mut seen, mut problems) = (0, Vec::new());
    for (name, document) in documents(&folder) {
        let Some((api_version, kind)) = name.rsplit_once('.') else { continue };
        let Some((group, version)) = api_version.rsplit_once('.') else { continue };
        let group = if group == "core" { "" } else { group };
        let Some((to, from)) = conversion(group, version, kind) else { continue };
        let Some(message) = tables::kind(group, version, kind) else { continue };
        seen += 1;
        let text = document.to_string();
        let mut given = decode::json(text.as_bytes(), message, &Limits::default()).unwrap().value;
        canonical::canonicalize(&mut given, message);
        let mut object = given.clone();
        to(&mut object);
        assert_ne!(object.str_at(&["apiVersion"]), given.str_at(&["apiVersion"]), "{name}");
        from(&mut object);
        drop_added_metrics(&given, &mut object);
        canonical::canonicalize(&mut object, message);
        if object != given && !LOSSY.contains(&name.as_str()) {
            problems.push(format!("{name}:\n  {}\n  {}", json::to_string(&given), json::to_string(&object)));
        }
    }
    assert!(seen > 5, "only {seen} filled objects of versions that are converted");
    assert!(problems.is_empty(), "{} of {seen}:\n{}", problems.len(), problems.join("\n"));
}

/// Removes the annotation with current metrics if the given object lacks it: autoscaling/v1 adds it for any metrics,
/// even for CPU utilization, which has its own field.
fn drop_added_metrics(given: &Value, object: &mut Value) {
    const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
    if given.at(&["metadata", "annotations", CURRENT_METRICS]).is_none()
        && let Some(annotations) = object.at_mut(&["metadata", "annotations"]).and_then(Value::as_object_mut)
    {
        annotations.remove(CURRENT_METRICS);
    }
}
