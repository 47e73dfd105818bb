//! Rules for all kinds that make pods from a template.

pub(crate) mod validation;

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::names;

use crate::equality::equal_as;
use crate::gated_names::Gated;
use crate::pod_spec::{drop_disabled_spec_fields, warnings};
use crate::tree_names::keep;
use crate::{Features, Strategy, StrategyContext, spec_generation};

/// Prepares the usual create: no status, the first generation, a template without disabled fields.
pub(crate) fn prepare_create(features: &Features, object: &mut Value, template: &[&str]) {
    object.make_object().remove("status");
    spec_generation(object, None, |_, _| true);
    drop_disabled_template_fields(features, object, None, template);
}

/// Prepares the usual update: keeps the status, and increases the generation if the spec changed.
pub(crate) fn prepare_update(
    features: &Features,
    object: &mut Value,
    old: &Value,
    template: &[&str],
    spec_definition: &str,
) {
    keep(object, old, "status");
    drop_disabled_template_fields(features, object, Some(old), template);
    spec_generation(object, Some(old), |object, old| !equal_as(spec_definition, object.get("spec"), old.get("spec")));
}

/// Prepares an update through a subresource of a workload: `scale` changes only the replicas, `status` keeps the spec.
/// Returns true for `scale`, which needs no further preparation.
pub(crate) fn prepare_subresource(
    workload: &dyn Strategy,
    subresource: &str,
    situation: &StrategyContext<'_>,
    object: &mut Value,
    old: &Value,
) -> bool {
    if subresource != "scale" {
        keep(object, old, "spec");
        return false;
    }
    let replicas = object.at(&["spec", "replicas"]).cloned();
    keep(object, old, "spec");
    keep(object, old, "status");
    if let Some(replicas) = replicas {
        object.make_at(&["spec"]).insert("replicas", replicas);
    }
    workload.prepare_for_update(situation, object, old);
    true
}

/// Validates an update through a subresource of a workload: as any update for `scale`, by the rules of the status
/// otherwise.
pub(crate) fn validate_subresource(
    workload: &dyn Strategy,
    subresource: &str,
    situation: &StrategyContext<'_>,
    (object, old): (&Value, &Value),
    status: impl FnOnce(&Value, &Value) -> FieldErrors,
) -> FieldErrors {
    match subresource {
        "scale" => workload.validate_update(situation, object, old),
        _ => status(object, old),
    }
}

/// The gated counts in the status of deployments and replica sets.
pub(crate) const REPLICAS_GATED: &[Gated] =
    &[Gated { feature: "DeploymentReplicaSetTerminatingReplicas", fields: &[&["status", "terminatingReplicas"]] }];

/// Drops disabled fields from the template at a path.
pub(crate) fn drop_disabled_template_fields(
    features: &Features,
    object: &mut Value,
    old: Option<&Value>,
    template: &[&str],
) {
    let path = [template, &["spec"]].concat();
    if let Some(spec) = object.at_mut(&path).filter(|spec| !spec.is_null()) {
        drop_disabled_spec_fields(features, spec, old.and_then(|old| old.at(&path)));
    }
}

/// Returns warnings about the pod template at a path, for writes that increase the generation of the object.
pub(crate) fn template_warnings(object: &Value, old: Option<&Value>, path: &[&str]) -> Vec<String> {
    let generation = |object: &Value| object.int_at(&["metadata", "generation"]);
    if old.is_some_and(|old| generation(old) == generation(object)) {
        return Vec::new();
    }
    let Some(template) = object.at(path).filter(|template| !template.is_null()) else { return Vec::new() };
    let at = path.iter().fold(FieldPath::root(), |path, name| path.child(name));
    warnings::of_template(template, &at)
}

/// Returns the same warnings for the spec of a job, and one for jobs with more indexes than can be tracked.
pub(crate) fn job_warnings(object: &Value, old: Option<&Value>, path: &[&str]) -> Vec<String> {
    const COMPLETIONS: i64 = 100_000;
    const PARALLELISM: i64 = 10_000;
    let generation = |object: &Value| object.int_at(&["metadata", "generation"]);
    if old.is_some_and(|old| generation(old) == generation(object)) {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let spec = object.at(path).unwrap_or(&Value::Null);
    let above = |name: &str, limit: i64| spec.int_at(&[name]).unwrap_or(0) > limit;
    let wide = above("completions", COMPLETIONS) && above("parallelism", PARALLELISM);
    if spec.str_at(&["completionMode"]) == "Indexed" && wide {
        warnings.push(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            path.join(".")
        ));
    }
    warnings.extend(template_warnings(object, old, &[path, &["template"]].concat()));
    warnings
}

/// Warns about a name that is not a host name, as pods are named after it.
pub(crate) fn dns_label_recommended(object: &Value) -> Vec<String> {
    let problems = names::dns1123_label(object.str_at(&["metadata", "name"]));
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
        problems.join(" ")
    )]
}
