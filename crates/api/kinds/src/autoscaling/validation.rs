//! Validation of a HorizontalPodAutoscaler.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Quantity};
use binnacle_schema::Value;
use binnacle_validation::{names, numbers, resource_names};

use crate::Features;
use crate::checks::{invalid_each, items, member, one_of, present, required_path_segment, spec_path};

const PERIOD_MAX: i64 = 1800;
const WINDOW_MAX: i64 = 3600;

/// The values that are allowed as the `apiVersion` of a reference.
#[derive(Clone, Copy)]
struct ApiVersions {
    any: bool,
    core: bool,
}

/// Validates `spec`; an update may keep invalid values of `old`.
pub(super) fn spec(features: &Features, autoscaler: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(autoscaler, "spec"), spec_path());
    let old_spec = old.map(|old| member(old, "spec"));
    let to_zero = features.enabled("HPAScaleToZero");
    let lowest = if to_zero || old_spec.is_some_and(|old| old.int_at(&["minReplicas"]) == Some(0)) { 0 } else { 1 };
    let min = spec.int_at(&["minReplicas"]);
    if let Some(min) = min.filter(|min| *min < lowest) {
        let detail = format!("must be greater than or equal to {lowest}");
        errors.push(FieldError::invalid(&path.child("minReplicas"), min, detail));
    }
    let (max, at) = (spec.int_at(&["maxReplicas"]).unwrap_or(0), path.child("maxReplicas"));
    if max == 0 {
        errors.push(FieldError::required(&at, "must be set and greater than 0"));
    } else if max < 0 {
        errors.push(FieldError::invalid(&at, max, "must be greater than or equal to 1"));
    }
    if min.is_some_and(|min| max < min) {
        errors.push(FieldError::invalid(&at, max, "must be greater than or equal to `minReplicas`"));
    }
    let target = member(spec, "scaleTargetRef");
    let same =
        |field: &str| old_spec.is_some_and(|old| old.str_at(&["scaleTargetRef", field]) == target.str_at(&[field]));
    let any = same("apiVersion") && same("kind");
    let core = !any && target.str_at(&["kind"]) == "ReplicationController";
    reference(target, ApiVersions { any, core }, &path.child("scaleTargetRef"), &mut errors);
    metrics(spec, min, object_versions(old_spec), &path, &mut errors);
    if let Some(behavior) = present(spec, "behavior") {
        for direction in ["scaleUp", "scaleDown"] {
            if let Some(rules) = present(behavior, direction) {
                scaling_rules(rules, &path.child("behavior").child(direction), &mut errors);
            }
        }
    }
    errors
}

/// Returns the versions allowed for objects with metrics: the core group's too, and invalid ones if the old object has
/// them.
fn object_versions(old_spec: Option<&Value>) -> ApiVersions {
    let versions = ApiVersions { any: false, core: true };
    let old_metrics = old_spec.map(|old| old.list_at(&["metrics"])).unwrap_or_default();
    let any = old_metrics.iter().filter(|metric| metric.str_at(&["type"]) == "Object").any(|metric| {
        let object = metric.at(&["object", "describedObject"]);
        object.is_some_and(|object| api_version_problem(object.str_at(&["apiVersion"]), versions).is_some())
    });
    ApiVersions { any, ..versions }
}

fn reference(reference: &Value, versions: ApiVersions, path: &FieldPath, errors: &mut FieldErrors) {
    required_path_segment(&path.child("kind"), reference.str_at(&["kind"]), errors);
    required_path_segment(&path.child("name"), reference.str_at(&["name"]), errors);
    let version = reference.str_at(&["apiVersion"]);
    if let Some(problem) = api_version_problem(version, versions) {
        errors.push(FieldError::invalid(&path.child("apiVersion"), version, problem));
    }
}

fn api_version_problem(api_version: &str, versions: ApiVersions) -> Option<String> {
    if versions.any {
        return None;
    }
    let group = match api_version.matches('/').count() {
        0 => "",
        1 => api_version.split_once('/').map_or("", |(group, _)| group),
        _ => return Some(format!("unexpected GroupVersion string: {api_version}")),
    };
    (group.is_empty() && !versions.core).then(|| "apiVersion must specify API group".to_owned())
}

// === Metrics ===

const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Metric types and their fields, in the order in which kube-apiserver validates these.
const SOURCES: [(&str, &str); 5] = [
    ("Object", "object"),
    ("External", "external"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
];

fn metrics(spec: &Value, min: Option<i64>, versions: ApiVersions, path: &FieldPath, errors: &mut FieldErrors) {
    for (at, metric) in errors.while_room(items(spec, "metrics", path)) {
        validate_metric(metric, versions, &at, errors);
    }
    let from_outside = |metric: &Value| matches!(metric.str_at(&["type"]), "Object" | "External");
    if min == Some(0) && !spec.list_at(&["metrics"]).iter().any(from_outside) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden(&path.child("metrics"), detail));
    }
}

fn validate_metric(metric: &Value, versions: ApiVersions, path: &FieldPath, errors: &mut FieldErrors) {
    let (kind, at) = (metric.str_at(&["type"]), path.child("type"));
    if kind.is_empty() {
        errors.push(FieldError::required(&at, "must specify a metric source type"));
    }
    one_of(&at, kind, &TYPES, errors);
    let sources: Vec<&str> = SOURCES.iter().map(|(_, field)| *field).filter(|f| present(metric, f).is_some()).collect();
    if let Some(field) = sources.first() {
        validate_source(field, member(metric, field), versions, &path.child(field), errors);
    }
    let expected = SOURCES.iter().find(|(name, _)| *name == kind).map(|(_, field)| *field);
    match expected {
        Some(field) if !sources.contains(&field) => {
            let detail = "must populate information for the given metric source";
            errors.push(FieldError::required(&path.child(field), detail));
        }
        Some(_) => {}
        None => one_of(&at, kind, &TYPES, errors),
    }
    if sources.len() != 1 {
        for field in sources.iter().filter(|field| Some(**field) != expected) {
            errors.push(FieldError::forbidden(&path.child(field), "must populate the given metric source only"));
        }
    }
}

fn validate_source(field: &str, source: &Value, versions: ApiVersions, path: &FieldPath, errors: &mut FieldErrors) {
    match field {
        "object" => {
            reference(member(source, "describedObject"), versions, &path.child("describedObject"), errors);
            identifier(source, path, errors);
        }
        "resource" | "containerResource" => {
            let name = source.str_at(&["name"]);
            if name.is_empty() {
                errors.push(FieldError::required(&path.child("name"), "must specify a resource name"));
            } else if field == "containerResource" {
                resource_names::of_containers(&path.child("name"), name, errors);
            }
            let (container, at) = (source.str_at(&["container"]), path.child("container"));
            if field == "containerResource" && container.is_empty() {
                errors.push(FieldError::required(&at, "must specify a container"));
            } else if field == "containerResource" {
                invalid_each(&at, container, &names::dns1123_label(container), errors);
            }
        }
        _ => identifier(source, path, errors),
    }
    let (target, at) = (member(source, "target"), path.child("target"));
    validate_target(target, &at, errors);
    let [value, average, utilization] =
        ["value", "averageValue", "averageUtilization"].map(|name| present(target, name).is_some());
    let mut required = |name, detail| errors.push(FieldError::required(&at.child(name), detail));
    match field {
        "object" if !value && !average => {
            required("averageValue", "must set either a target value or averageValue");
        }
        "external" if !value && !average => {
            required("averageValue", "must set either a target value for metric or a per-pod target");
        }
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(&at.child("value"), detail));
        }
        "pods" if !average => required("averageValue", "must specify a positive target averageValue"),
        "resource" | "containerResource" if !utilization && !average => {
            required("averageUtilization", "must set either a target raw value or a target utilization");
        }
        "resource" | "containerResource" if utilization && average => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(FieldError::forbidden(&at.child("averageValue"), detail));
        }
        _ => {}
    }
}

fn validate_target(target: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (kind, at) = (target.str_at(&["type"]), path.child("type"));
    if kind.is_empty() {
        errors.push(FieldError::required(&at, "must specify a metric target type"));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        errors.push(FieldError::invalid(&at, kind, "must be either Utilization, Value, or AverageValue"));
    }
    for name in ["value", "averageValue"] {
        let Some(text) = present(target, name).and_then(Value::as_str) else { continue };
        if Quantity::parse(text).is_ok_and(|quantity| quantity.sign() != 1) {
            errors.push(FieldError::invalid(&path.child(name), text, "must be positive"));
        }
    }
    if let Some(percent) = target.int_at(&["averageUtilization"]).filter(|percent| *percent < 1) {
        errors.push(FieldError::invalid(&path.child("averageUtilization"), percent, "must be greater than 0"));
    }
}

fn identifier(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (name, at) = (source.str_at(&["metric", "name"]), path.child("metric").child("name"));
    if name.is_empty() {
        errors.push(FieldError::required(&at, "must specify a metric name"));
    } else {
        invalid_each(&at, name, &names::path_segment(name, false), errors);
    }
}

// === Behavior ===

fn scaling_rules(rules: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(window) = rules.int_at(&["stabilizationWindowSeconds"]) {
        let at = path.child("stabilizationWindowSeconds");
        if window < 0 {
            errors.push(FieldError::invalid(&at, window, "must be greater than or equal to zero"));
        }
        if window > WINDOW_MAX {
            errors.push(FieldError::invalid(&at, window, format!("must be less than or equal to {WINDOW_MAX}")));
        }
    }
    if let Some(policy) = present(rules, "selectPolicy").and_then(Value::as_str) {
        one_of(&path.child("selectPolicy"), policy, &["Disabled", "Max", "Min"], errors);
    }
    if rules.list_at(&["policies"]).is_empty() {
        errors.push(FieldError::required(&path.child("policies"), "must specify at least one Policy"));
    }
    for (at, policy) in errors.while_room(items(rules, "policies", path)) {
        scaling_policy(policy, &at, errors);
    }
    if let Some(tolerance) = present(rules, "tolerance").and_then(Value::as_str) {
        numbers::non_negative_quantity(&path.child("tolerance"), tolerance, errors);
    }
}

fn scaling_policy(policy: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    one_of(&path.child("type"), policy.str_at(&["type"]), &["Percent", "Pods"], errors);
    let [value, period] = ["value", "periodSeconds"].map(|name| policy.int_at(&[name]).unwrap_or(0));
    if value <= 0 {
        errors.push(FieldError::invalid(&path.child("value"), value, "must be greater than zero"));
    }
    let at = path.child("periodSeconds");
    if period <= 0 {
        errors.push(FieldError::invalid(&at, period, "must be greater than zero"));
    }
    if period > PERIOD_MAX {
        errors.push(FieldError::invalid(&at, period, format!("must be less than or equal to {PERIOD_MAX}")));
    }
}
