//! Defaults of workloads in `extensions/v1beta1` and `apps/v1beta1` that differ from those of `apps/v1`. The other
//! defaults are those of `apps/v1`, which are set after the conversion.

use binnacle_schema::{Object, Value, value};

/// Sets the defaults of a Deployment of `extensions/v1beta1`.
pub(super) fn deployment_of_extensions(deployment: &mut Value) {
    labels_and_selector(deployment);
    let spec = deployment.make_at(&["spec"]);
    for limit in ["progressDeadlineSeconds", "revisionHistoryLimit"] {
        default(spec, limit, || value!(i64::from(i32::MAX)));
    }
    default(spec, "strategy", || Value::Object(Object::new()));
    let strategy = deployment.make_at(&["spec", "strategy"]);
    default(strategy, "type", || value!("RollingUpdate"));
    let rolling = strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate");
    if rolling || is_set(strategy, "rollingUpdate") {
        let update = deployment.make_at(&["spec", "strategy", "rollingUpdate"]);
        for bound in ["maxSurge", "maxUnavailable"] {
            default(update, bound, || value!(1));
        }
    }
}

/// Sets the defaults of a Deployment of `apps/v1beta1`.
pub(super) fn deployment(deployment: &mut Value) {
    labels_and_selector(deployment);
    default(deployment.make_at(&["spec"]), "revisionHistoryLimit", || value!(2));
}

/// Sets the defaults of a DaemonSet of `extensions/v1beta1` or a StatefulSet of `apps/v1beta1`.
pub(super) fn updated_on_delete(set: &mut Value) {
    labels_and_selector(set);
    default(set.make_at(&["spec", "updateStrategy"]), "type", || value!("OnDelete"));
}

/// Copies the labels of the template to the selector and the labels of a workload that has none.
pub(super) fn labels_and_selector(workload: &mut Value) {
    let labels = workload.at(&["spec", "template", "metadata", "labels"]);
    let Some(labels) = labels.filter(|labels| labels.as_object().is_some()).cloned() else { return };
    default(workload.make_at(&["spec"]), "selector", || value!({"matchLabels": (labels.clone())}));
    let metadata = workload.make_at(&["metadata"]);
    if metadata.get("labels").and_then(Value::as_object).is_none_or(Object::is_empty) {
        metadata.insert("labels", labels);
    }
}

fn is_set(object: &Object, name: &str) -> bool {
    object.get(name).is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
}

fn default(object: &mut Object, name: &'static str, make: impl FnOnce() -> Value) {
    if !is_set(object, name) {
        object.insert(name, make());
    }
}
