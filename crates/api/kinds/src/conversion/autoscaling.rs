//! HorizontalPodAutoscaler in `autoscaling/v1`, which only has fields for CPU utilization. Annotations hold all other
//! fields of `v2` as JSON of structs that v1 once had ([`super::autoscaling_v1`]).

use std::sync::LazyLock;

use binnacle_meta::Quantity;
use binnacle_schema::{Message, Object, Value, canonical, json, value};

use super::autoscaling_v1::{BEHAVIOR, CONDITIONS, CURRENT_METRICS, ITEMS, METRICS};
use super::{finish, go_json, rename};

const METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS_ANNOTATION: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// All annotations that hold fields. They are never stored.
const ROUND_TRIP_ANNOTATIONS: [&str; 6] = [
    METRICS_ANNOTATION,
    BEHAVIOR_ANNOTATION,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
    CURRENT_METRICS_ANNOTATION,
    CONDITIONS_ANNOTATION,
];

/// The default target of CPU utilization, in percent.
const DEFAULT_UTILIZATION: i64 = 80;

/// Removes the annotations that hold fields, in versions that have those fields.
pub(crate) fn drop_round_trip_annotations(autoscaler: &mut Value) {
    let Some(metadata) = autoscaler.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    if !ROUND_TRIP_ANNOTATIONS.iter().any(|name| annotations.contains(name)) {
        return;
    }
    ROUND_TRIP_ANNOTATIONS.iter().for_each(|name| drop(annotations.remove(name)));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Returns CPU utilization as a metric.
pub(crate) fn processor_utilization(percent: i64) -> Value {
    value!({
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}
    })
}

/// Returns the default metric.
pub(crate) fn default_metric() -> Value {
    processor_utilization(DEFAULT_UTILIZATION)
}

pub(super) fn to_v2(autoscaler: &mut Value) {
    let items = |annotation| list_annotation(autoscaler, annotation);
    let other_metrics = items((METRICS_ANNOTATION, &METRICS));
    let current_metrics = items((CURRENT_METRICS_ANNOTATION, &CURRENT_METRICS));
    let conditions = items((CONDITIONS_ANNOTATION, &CONDITIONS));
    let behavior = behavior_annotation(autoscaler);
    drop_round_trip_annotations(autoscaler);

    let spec = autoscaler.make_at(&["spec"]);
    let percent = spec.remove("targetCPUUtilizationPercentage").and_then(|v| v.as_i64());
    let mut metrics: Vec<Value> = other_metrics.unwrap_or_default().into_iter().map(metric_to_v2).collect();
    metrics.extend(percent.map(processor_utilization));
    // The default of v1 depends on the annotations, so it is set here.
    if metrics.is_empty() {
        metrics.push(default_metric());
    }
    spec.insert("metrics", metrics);
    if let Some(behavior) = behavior {
        spec.insert("behavior", behavior);
    }

    let status = autoscaler.make_at(&["status"]);
    let percent = status.remove("currentCPUUtilizationPercentage").and_then(|v| v.as_i64());
    if let Some(current) = current_metrics {
        status.insert("currentMetrics", current.into_iter().map(status_to_v2).collect::<Vec<_>>());
    } else if let Some(percent) = percent {
        let current =
            value!({"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}});
        status.insert("currentMetrics", vec![current]);
    }
    if let Some(conditions) = conditions {
        status.insert("conditions", conditions);
    }
    finish(autoscaler, "autoscaling", "v2", "HorizontalPodAutoscaler");
}

pub(super) fn from_v2(autoscaler: &mut Value) {
    drop_round_trip_annotations(autoscaler);

    let spec = autoscaler.make_at(&["spec"]);
    let metrics = taken_list(spec, "metrics");
    let behavior = spec.remove("behavior").filter(|v| !v.is_null());
    let utilization = ["resource", "target", "averageUtilization"];
    if let Some(percent) = metrics.iter().filter(|m| is_processor(m)).find_map(|m| m.int_at(&utilization)) {
        spec.insert("targetCPUUtilizationPercentage", percent);
    }
    let others: Vec<Value> = metrics
        .into_iter()
        .filter(|m| !(is_processor(m) && m.int_at(&utilization).is_some()))
        .map(metric_to_v1)
        .collect();

    let status = autoscaler.make_at(&["status"]);
    let current = taken_list(status, "currentMetrics");
    let conditions = taken_list(status, "conditions");
    let percent = current
        .iter()
        .filter(|m| is_processor(m))
        .filter_map(|m| m.int_at(&["resource", "current", "averageUtilization"]))
        .next_back();
    if let Some(percent) = percent {
        status.insert("currentCPUUtilizationPercentage", percent);
    }
    // All statuses are kept, even if the percentage has the same information, as the raw value would be lost.
    let current: Vec<Value> = current.into_iter().map(status_to_v1).collect();

    annotate_list(autoscaler, METRICS_ANNOTATION, &METRICS, others);
    annotate_list(autoscaler, CURRENT_METRICS_ANNOTATION, &CURRENT_METRICS, current);
    if let Some(mut behavior) = behavior {
        rename_behavior(&mut behavior, |(inner, v2)| (v2, inner));
        canonical::canonicalize(&mut behavior, &BEHAVIOR);
        annotate(autoscaler, BEHAVIOR_ANNOTATION, &behavior);
    }
    annotate_list(autoscaler, CONDITIONS_ANNOTATION, &CONDITIONS, conditions);
    finish(autoscaler, "autoscaling", "v1", "HorizontalPodAutoscaler");
}

fn is_processor(metric: &Value) -> bool {
    metric.str_at(&["type"]) == "Resource" && metric.str_at(&["resource", "name"]) == "cpu"
}

// === Metrics ===

fn metric_to_v2(mut metric: Value) -> Value {
    change(&mut metric, "object", |source| {
        rename_in(source, "target", "describedObject");
        identify(source, "selector");
        let average = source.remove("averageValue");
        // In v1 the value is not optional; zero beside an average means that there is no value.
        let value = source.remove("targetValue").filter(|v| average.is_none() || !is_zero_quantity(v));
        let kind = if average.is_none() { "Value" } else { "AverageValue" };
        source.insert("target", target(kind, [("value", value), ("averageValue", average)]));
    });
    change(&mut metric, "pods", |source| {
        identify(source, "selector");
        let average = source.remove("targetAverageValue");
        source.insert("target", target("AverageValue", [("averageValue", average)]));
    });
    for name in ["resource", "containerResource"] {
        change(&mut metric, name, |source| {
            let utilization = source.remove("targetAverageUtilization");
            let average = source.remove("targetAverageValue");
            let kind = if utilization.is_none() { "AverageValue" } else { "Utilization" };
            source.insert("target", target(kind, [("averageValue", average), ("averageUtilization", utilization)]));
        });
    }
    change(&mut metric, "external", |source| {
        identify(source, "metricSelector");
        let (value, average) = (source.remove("targetValue"), source.remove("targetAverageValue"));
        let kind = if value.is_none() { "AverageValue" } else { "Value" };
        source.insert("target", target(kind, [("value", value), ("averageValue", average)]));
    });
    metric
}

fn metric_to_v1(mut metric: Value) -> Value {
    change(&mut metric, "object", |source| {
        let mut target = taken_object(source, "target");
        rename_in(source, "describedObject", "target");
        unidentify(source, "selector");
        move_as(&mut target, "value", source, "targetValue");
        move_as(&mut target, "averageValue", source, "averageValue");
    });
    change(&mut metric, "pods", |source| {
        let mut target = taken_object(source, "target");
        unidentify(source, "selector");
        move_as(&mut target, "averageValue", source, "targetAverageValue");
    });
    for name in ["resource", "containerResource"] {
        change(&mut metric, name, |source| {
            let mut target = taken_object(source, "target");
            move_as(&mut target, "averageUtilization", source, "targetAverageUtilization");
            move_as(&mut target, "averageValue", source, "targetAverageValue");
        });
    }
    change(&mut metric, "external", |source| {
        let mut target = taken_object(source, "target");
        unidentify(source, "metricSelector");
        move_as(&mut target, "value", source, "targetValue");
        move_as(&mut target, "averageValue", source, "targetAverageValue");
    });
    metric
}

fn status_to_v2(mut metric: Value) -> Value {
    change(&mut metric, "object", |source| {
        rename_in(source, "target", "describedObject");
        identify(source, "selector");
        let (value, average) = (source.remove("currentValue"), source.remove("averageValue"));
        source.insert("current", members([("value", value), ("averageValue", average)]));
    });
    change(&mut metric, "pods", |source| {
        identify(source, "selector");
        let average = source.remove("currentAverageValue");
        source.insert("current", members([("averageValue", average)]));
    });
    for name in ["resource", "containerResource"] {
        change(&mut metric, name, |source| {
            let utilization = source.remove("currentAverageUtilization");
            let average = source.remove("currentAverageValue");
            source.insert("current", members([("averageValue", average), ("averageUtilization", utilization)]));
        });
    }
    change(&mut metric, "external", |source| {
        identify(source, "metricSelector");
        let (value, average) = (source.remove("currentValue"), source.remove("currentAverageValue"));
        source.insert("current", members([("value", value), ("averageValue", average)]));
    });
    metric
}

fn status_to_v1(mut metric: Value) -> Value {
    change(&mut metric, "object", |source| {
        let mut current = taken_object(source, "current");
        rename_in(source, "describedObject", "target");
        unidentify(source, "selector");
        move_as(&mut current, "value", source, "currentValue");
        move_as(&mut current, "averageValue", source, "averageValue");
    });
    change(&mut metric, "pods", |source| {
        let mut current = taken_object(source, "current");
        unidentify(source, "selector");
        move_as(&mut current, "averageValue", source, "currentAverageValue");
    });
    for name in ["resource", "containerResource"] {
        change(&mut metric, name, |source| {
            let mut current = taken_object(source, "current");
            move_as(&mut current, "averageUtilization", source, "currentAverageUtilization");
            move_as(&mut current, "averageValue", source, "currentAverageValue");
        });
    }
    change(&mut metric, "external", |source| {
        let mut current = taken_object(source, "current");
        unidentify(source, "metricSelector");
        move_as(&mut current, "value", source, "currentValue");
        move_as(&mut current, "averageValue", source, "currentAverageValue");
    });
    metric
}

/// Runs `change` on the source under `name`, if the metric has it.
fn change(metric: &mut Value, name: &str, change: impl FnOnce(&mut Object)) {
    if let Some(source) = metric.get_mut(name).and_then(Value::as_object_mut) {
        change(source);
    }
}

/// Moves the name and selector of a metric into `metric`.
fn identify(source: &mut Object, selector: &str) {
    let (name, selector) = (source.remove("metricName"), source.remove(selector));
    source.insert("metric", members([("name", name), ("selector", selector)]));
}

/// The reverse of [`identify`].
fn unidentify(source: &mut Object, selector: &'static str) {
    let mut metric = taken_object(source, "metric");
    move_as(&mut metric, "name", source, "metricName");
    move_as(&mut metric, "selector", source, selector);
}

fn target<const N: usize>(kind: &'static str, values: [(&'static str, Option<Value>); N]) -> Object {
    let mut target = members(values);
    target.insert("type", kind);
    target
}

fn members<const N: usize>(values: [(&'static str, Option<Value>); N]) -> Object {
    let mut object = Object::new();
    for (name, value) in values {
        if let Some(value) = value {
            object.insert(name, value);
        }
    }
    object
}

fn move_as(from: &mut Object, name: &str, to: &mut Object, new_name: &'static str) {
    if let Some(value) = from.remove(name).filter(|v| !v.is_null()) {
        to.insert(new_name, value);
    }
}

fn rename_in(object: &mut Object, name: &str, new_name: &'static str) {
    if let Some(value) = object.remove(name) {
        object.insert(new_name, value);
    }
}

fn is_zero_quantity(value: &Value) -> bool {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(|quantity| quantity.is_zero())
}

fn taken_object(object: &mut Object, name: &str) -> Object {
    object.remove(name).and_then(Value::into_object).unwrap_or_default()
}

fn taken_list(object: &mut Object, name: &str) -> Vec<Value> {
    match object.remove(name) {
        Some(Value::List(items)) => items,
        _ => Vec::new(),
    }
}

// === Annotations ===

/// Returns the items of the list in an annotation; `None` if the annotation is absent or invalid.
fn list_annotation(autoscaler: &Value, (name, message): (&'static str, &LazyLock<Message>)) -> Option<Vec<Value>> {
    let text = autoscaler.at(&["metadata", "annotations", name])?.as_str()?;
    let list = go_json::unmarshal(text, message, Some(ITEMS))?;
    Some(list.list_at(&[ITEMS]).to_vec())
}

/// Returns the behavior in the annotation, in the form of v2; `None` if it is absent, invalid or empty.
fn behavior_annotation(autoscaler: &Value) -> Option<Value> {
    let text = autoscaler.at(&["metadata", "annotations", BEHAVIOR_ANNOTATION])?.as_str()?;
    let mut behavior = go_json::unmarshal(text, &BEHAVIOR, None)?;
    drop_nulls(&mut behavior);
    rename_behavior(&mut behavior, |names| names);
    behavior.as_object().is_some_and(|members| !members.is_empty()).then_some(behavior)
}

fn annotate_list(autoscaler: &mut Value, name: &'static str, message: &LazyLock<Message>, items: Vec<Value>) {
    if items.is_empty() {
        return;
    }
    let mut list = value!({"items": items});
    canonical::canonicalize(&mut list, message);
    if let Some(items) = list.get(ITEMS) {
        annotate(autoscaler, name, items);
    }
}

fn annotate(autoscaler: &mut Value, name: &'static str, what: &Value) {
    let annotations = autoscaler.make_at(&["metadata", "annotations"]);
    annotations.insert(name, json::to_string(what));
}

/// Members in the internal struct and in v2.
const BEHAVIOR_NAMES: [(&str, &str); 2] = [("ScaleUp", "scaleUp"), ("ScaleDown", "scaleDown")];
const RULES_NAMES: [(&str, &str); 4] = [
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds"),
    ("SelectPolicy", "selectPolicy"),
    ("Policies", "policies"),
    ("Tolerance", "tolerance"),
];
const POLICY_NAMES: [(&str, &str); 3] = [("Type", "type"), ("Value", "value"), ("PeriodSeconds", "periodSeconds")];

/// Renames all members of a behavior; `direction` turns a pair of names into the old and the new one.
fn rename_behavior(behavior: &mut Value, direction: fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    let rename_all = |value: &mut Value, names: &[(&'static str, &'static str)]| {
        for pair in names {
            let (old, new) = direction(*pair);
            rename(value, old, new);
        }
    };
    rename_all(behavior, &BEHAVIOR_NAMES);
    for (_, rules) in behavior.make_object().iter_mut() {
        rename_all(rules, &RULES_NAMES);
        let (_, policies) = direction(RULES_NAMES[2]);
        for policy in rules.get_mut(policies).and_then(Value::as_list_mut).into_iter().flatten() {
            rename_all(policy, &POLICY_NAMES);
        }
    }
}

fn drop_nulls(value: &mut Value) {
    if let Some(members) = value.as_object_mut() {
        members.retain(|_, value| !value.is_null());
        members.iter_mut().for_each(|(_, value)| drop_nulls(value));
    }
}
