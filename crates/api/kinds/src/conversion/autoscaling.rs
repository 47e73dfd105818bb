//! HorizontalPodAutoscaler in `autoscaling/v1`, which only has fields for CPU utilization. Annotations hold all other
//! fields of `v2` as JSON of structs that v1 once had ([`super::autoscaling_v1`]).

use std::sync::LazyLock;

use binnacle_fields::autoscaling::v1;
use binnacle_fields::autoscaling::v2::{
    self, ContainerResourceMetricSource, ContainerResourceMetricStatus, ExternalMetricSource, ExternalMetricStatus,
    HPAScalingPolicy, HPAScalingRules, HorizontalPodAutoscalerBehavior as Behavior, MetricIdentifier, MetricSpec,
    MetricStatus, MetricTarget, MetricValueStatus, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource,
    PodsMetricStatus, ResourceMetricSource, ResourceMetricStatus,
};
use binnacle_fields::meta::v1::{LabelSelector, ObjectMeta, PartialObjectMetadata};
use binnacle_fields::types::{List, Quantity};
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_schema::{Message, Value, canonical, json, value};

use super::autoscaling_v1::{BEHAVIOR, CONDITIONS, CURRENT_METRICS, ITEMS, METRICS, MetricV1};
use super::{Names, finish, go_json, rename_member, set_some};

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
    let mut object = FieldMut::root(autoscaler);
    let Some(mut metadata) = object.structure(PartialObjectMetadata::METADATA) else { return };
    let Some(annotations) = metadata.map(ObjectMeta::ANNOTATIONS) else { return };
    if !ROUND_TRIP_ANNOTATIONS.iter().any(|name| annotations.contains(name)) {
        return;
    }
    ROUND_TRIP_ANNOTATIONS.iter().for_each(|name| drop(annotations.remove(name)));
    if annotations.is_empty() {
        metadata.remove(ObjectMeta::ANNOTATIONS);
    }
}

/// Returns CPU utilization as a metric.
pub(crate) fn processor_utilization(percent: i64) -> Value {
    FieldMut::build(|mut metric| {
        metric.set(MetricSpec::TYPE, "Resource");
        let mut source = metric.entry(MetricSpec::RESOURCE);
        source.set(ResourceMetricSource::NAME, "cpu");
        let mut target = source.entry(ResourceMetricSource::TARGET);
        target.set(MetricTarget::TYPE, "Utilization");
        target.set(MetricTarget::AVERAGE_UTILIZATION, percent);
    })
}

/// Returns the default metric.
pub(crate) fn default_metric() -> Value {
    processor_utilization(DEFAULT_UTILIZATION)
}

fn current_processor_utilization(percent: i64) -> Value {
    FieldMut::build(|mut metric| {
        metric.set(MetricStatus::TYPE, "Resource");
        let mut source = metric.entry(MetricStatus::RESOURCE);
        source.set(ResourceMetricStatus::NAME, "cpu");
        source.entry(ResourceMetricStatus::CURRENT).set(MetricValueStatus::AVERAGE_UTILIZATION, percent);
    })
}

pub(super) fn to_v2(object: &mut Value) {
    let items = |annotation| list_annotation(FieldRef::root(object), annotation);
    let other_metrics = items((METRICS_ANNOTATION, &METRICS));
    let current_metrics = items((CURRENT_METRICS_ANNOTATION, &CURRENT_METRICS));
    let conditions = items((CONDITIONS_ANNOTATION, &CONDITIONS));
    let behavior = behavior_annotation(FieldRef::root(object));
    drop_round_trip_annotations(object);

    let mut autoscaler = FieldMut::<v1::HorizontalPodAutoscaler>::root(object);
    let mut spec = autoscaler.entry(v1::HorizontalPodAutoscaler::SPEC);
    let percent = spec.remove(v1::HorizontalPodAutoscalerSpec::TARGET_CPU_UTILIZATION_PERCENTAGE);
    let mut metrics: Vec<Value> = other_metrics.unwrap_or_default().into_iter().map(metric_to_v2).collect();
    metrics.extend(percent.and_then(|percent| percent.as_i64()).map(processor_utilization));
    // The default of v1 depends on the annotations, so it is set here.
    if metrics.is_empty() {
        metrics.push(default_metric());
    }
    let mut spec = spec.reborrow().cast();
    spec.set(v2::HorizontalPodAutoscalerSpec::METRICS, metrics);
    set_some(&mut spec, v2::HorizontalPodAutoscalerSpec::BEHAVIOR, behavior);

    let mut status = autoscaler.entry(v1::HorizontalPodAutoscaler::STATUS);
    let percent = status.remove(v1::HorizontalPodAutoscalerStatus::CURRENT_CPU_UTILIZATION_PERCENTAGE);
    let percent = percent.and_then(|percent| percent.as_i64());
    let mut status = status.reborrow().cast();
    if let Some(current) = current_metrics {
        let current: Vec<Value> = current.into_iter().map(status_to_v2).collect();
        status.set(v2::HorizontalPodAutoscalerStatus::CURRENT_METRICS, current);
    } else if let Some(percent) = percent {
        let current = current_processor_utilization(percent);
        status.set(v2::HorizontalPodAutoscalerStatus::CURRENT_METRICS, vec![current]);
    }
    if let Some(conditions) = conditions {
        status.set(v2::HorizontalPodAutoscalerStatus::CONDITIONS, conditions);
    }
    finish(object, "autoscaling", "v2", "HorizontalPodAutoscaler");
}

pub(super) fn from_v2(object: &mut Value) {
    drop_round_trip_annotations(object);

    let mut autoscaler = FieldMut::<v2::HorizontalPodAutoscaler>::root(object);
    let mut spec = autoscaler.entry(v2::HorizontalPodAutoscaler::SPEC);
    let metrics = take_list(&mut spec, v2::HorizontalPodAutoscalerSpec::METRICS);
    let behavior = spec.take(v2::HorizontalPodAutoscalerSpec::BEHAVIOR);
    if let Some(percent) = metrics.iter().find_map(target_utilization) {
        spec.reborrow().cast().set(v1::HorizontalPodAutoscalerSpec::TARGET_CPU_UTILIZATION_PERCENTAGE, percent);
    }
    let others = metrics.into_iter().filter(|metric| target_utilization(metric).is_none()).map(metric_to_v1).collect();

    let mut status = autoscaler.entry(v2::HorizontalPodAutoscaler::STATUS);
    let current = take_list(&mut status, v2::HorizontalPodAutoscalerStatus::CURRENT_METRICS);
    let conditions = take_list(&mut status, v2::HorizontalPodAutoscalerStatus::CONDITIONS);
    if let Some(percent) = current.iter().filter_map(current_utilization).next_back() {
        status.reborrow().cast().set(v1::HorizontalPodAutoscalerStatus::CURRENT_CPU_UTILIZATION_PERCENTAGE, percent);
    }
    // All statuses are kept, even if the percentage has the same information, as the raw value would be lost.
    let current = current.into_iter().map(status_to_v1).collect();

    let mut autoscaler = FieldMut::root(object);
    annotate_list(&mut autoscaler, METRICS_ANNOTATION, &METRICS, others);
    annotate_list(&mut autoscaler, CURRENT_METRICS_ANNOTATION, &CURRENT_METRICS, current);
    if let Some(mut behavior) = behavior {
        rename_behavior(&mut behavior, |(inner, v2)| (v2, inner));
        canonical::canonicalize(&mut behavior, &BEHAVIOR);
        annotate(&mut autoscaler, BEHAVIOR_ANNOTATION, &behavior);
    }
    annotate_list(&mut autoscaler, CONDITIONS_ANNOTATION, &CONDITIONS, conditions);
    finish(object, "autoscaling", "v1", "HorizontalPodAutoscaler");
}

/// Returns the target of a metric that is CPU utilization.
fn target_utilization(metric: &Value) -> Option<i64> {
    let metric = FieldRef::<MetricSpec>::root(metric);
    let source = metric.at(MetricSpec::RESOURCE);
    let is_processor =
        metric.at(MetricSpec::TYPE).str() == "Resource" && source.at(ResourceMetricSource::NAME).str() == "cpu";
    let percent = source.at(ResourceMetricSource::TARGET).at(MetricTarget::AVERAGE_UTILIZATION).int();
    percent.filter(|_| is_processor)
}

/// Returns the value of a current metric that is CPU utilization.
fn current_utilization(metric: &Value) -> Option<i64> {
    let metric = FieldRef::<MetricStatus>::root(metric);
    let source = metric.at(MetricStatus::RESOURCE);
    let is_processor =
        metric.at(MetricStatus::TYPE).str() == "Resource" && source.at(ResourceMetricStatus::NAME).str() == "cpu";
    let percent = source.at(ResourceMetricStatus::CURRENT).at(MetricValueStatus::AVERAGE_UTILIZATION).int();
    percent.filter(|_| is_processor)
}

// === Metrics: their sources have the same names in v1 and v2; names that only v1 has are texts ===

fn metric_to_v2(mut metric: Value) -> Value {
    let mut new = FieldMut::<MetricSpec>::root(&mut metric);
    if let Some(mut source) = new.structure(MetricSpec::OBJECT) {
        let object = remove(&mut source, MetricV1::TARGET);
        set_some(&mut source, ObjectMetricSource::DESCRIBED_OBJECT, object);
        identify(&mut source, MetricV1::SELECTOR, ObjectMetricSource::METRIC);
        // In v1 the value is not optional; zero beside an average means that there is no value.
        let members = source.object();
        if members.contains(MetricV1::AVERAGE_VALUE.name())
            && members.get(MetricV1::TARGET_VALUE.name()).is_some_and(is_zero_quantity)
        {
            members.remove(MetricV1::TARGET_VALUE.name());
        }
        set_target(&mut source, MetricV1::AVERAGE_VALUE, ObjectMetricSource::TARGET, |target| {
            if target.at(MetricTarget::AVERAGE_VALUE).is_set() { "AverageValue" } else { "Value" }
        });
    }
    if let Some(mut source) = new.structure(MetricSpec::PODS) {
        identify(&mut source, MetricV1::SELECTOR, PodsMetricSource::METRIC);
        set_target(&mut source, MetricV1::TARGET_AVERAGE_VALUE, PodsMetricSource::TARGET, |_| "AverageValue");
    }
    let of_resource = |target: FieldRef<MetricTarget>| {
        if target.at(MetricTarget::AVERAGE_UTILIZATION).is_set() { "Utilization" } else { "AverageValue" }
    };
    if let Some(mut source) = new.structure(MetricSpec::RESOURCE) {
        set_target(&mut source, MetricV1::TARGET_AVERAGE_VALUE, ResourceMetricSource::TARGET, of_resource);
    }
    if let Some(mut source) = new.structure(MetricSpec::CONTAINER_RESOURCE) {
        set_target(&mut source, MetricV1::TARGET_AVERAGE_VALUE, ContainerResourceMetricSource::TARGET, of_resource);
    }
    if let Some(mut source) = new.structure(MetricSpec::EXTERNAL) {
        identify(&mut source, MetricV1::METRIC_SELECTOR, ExternalMetricSource::METRIC);
        set_target(&mut source, MetricV1::TARGET_AVERAGE_VALUE, ExternalMetricSource::TARGET, |target| {
            if target.at(MetricTarget::VALUE).is_set() { "Value" } else { "AverageValue" }
        });
    }
    metric
}

fn metric_to_v1(mut metric: Value) -> Value {
    let mut old = FieldMut::<MetricSpec>::root(&mut metric);
    if let Some(mut source) = old.structure(MetricSpec::OBJECT) {
        unset_target(&mut source, MetricV1::AVERAGE_VALUE, ObjectMetricSource::TARGET);
        let object = source.remove(ObjectMetricSource::DESCRIBED_OBJECT);
        insert(&mut source, MetricV1::TARGET, object);
        unidentify(&mut source, MetricV1::SELECTOR, ObjectMetricSource::METRIC);
    }
    if let Some(mut source) = old.structure(MetricSpec::PODS) {
        unset_target(&mut source, MetricV1::TARGET_AVERAGE_VALUE, PodsMetricSource::TARGET);
        unidentify(&mut source, MetricV1::SELECTOR, PodsMetricSource::METRIC);
    }
    if let Some(mut source) = old.structure(MetricSpec::RESOURCE) {
        unset_target(&mut source, MetricV1::TARGET_AVERAGE_VALUE, ResourceMetricSource::TARGET);
    }
    if let Some(mut source) = old.structure(MetricSpec::CONTAINER_RESOURCE) {
        unset_target(&mut source, MetricV1::TARGET_AVERAGE_VALUE, ContainerResourceMetricSource::TARGET);
    }
    if let Some(mut source) = old.structure(MetricSpec::EXTERNAL) {
        unset_target(&mut source, MetricV1::TARGET_AVERAGE_VALUE, ExternalMetricSource::TARGET);
        unidentify(&mut source, MetricV1::METRIC_SELECTOR, ExternalMetricSource::METRIC);
    }
    metric
}

fn status_to_v2(mut metric: Value) -> Value {
    let mut new = FieldMut::<MetricStatus>::root(&mut metric);
    if let Some(mut source) = new.structure(MetricStatus::OBJECT) {
        let object = remove(&mut source, MetricV1::TARGET);
        set_some(&mut source, ObjectMetricStatus::DESCRIBED_OBJECT, object);
        identify(&mut source, MetricV1::SELECTOR, ObjectMetricStatus::METRIC);
        set_current(&mut source, MetricV1::AVERAGE_VALUE, ObjectMetricStatus::CURRENT);
    }
    if let Some(mut source) = new.structure(MetricStatus::PODS) {
        identify(&mut source, MetricV1::SELECTOR, PodsMetricStatus::METRIC);
        set_current(&mut source, MetricV1::CURRENT_AVERAGE_VALUE, PodsMetricStatus::CURRENT);
    }
    if let Some(mut source) = new.structure(MetricStatus::RESOURCE) {
        set_current(&mut source, MetricV1::CURRENT_AVERAGE_VALUE, ResourceMetricStatus::CURRENT);
    }
    if let Some(mut source) = new.structure(MetricStatus::CONTAINER_RESOURCE) {
        set_current(&mut source, MetricV1::CURRENT_AVERAGE_VALUE, ContainerResourceMetricStatus::CURRENT);
    }
    if let Some(mut source) = new.structure(MetricStatus::EXTERNAL) {
        identify(&mut source, MetricV1::METRIC_SELECTOR, ExternalMetricStatus::METRIC);
        set_current(&mut source, MetricV1::CURRENT_AVERAGE_VALUE, ExternalMetricStatus::CURRENT);
    }
    metric
}

fn status_to_v1(mut metric: Value) -> Value {
    let mut old = FieldMut::<MetricStatus>::root(&mut metric);
    if let Some(mut source) = old.structure(MetricStatus::OBJECT) {
        unset_current(&mut source, MetricV1::AVERAGE_VALUE, ObjectMetricStatus::CURRENT);
        let object = source.remove(ObjectMetricStatus::DESCRIBED_OBJECT);
        insert(&mut source, MetricV1::TARGET, object);
        unidentify(&mut source, MetricV1::SELECTOR, ObjectMetricStatus::METRIC);
    }
    if let Some(mut source) = old.structure(MetricStatus::PODS) {
        unset_current(&mut source, MetricV1::CURRENT_AVERAGE_VALUE, PodsMetricStatus::CURRENT);
        unidentify(&mut source, MetricV1::SELECTOR, PodsMetricStatus::METRIC);
    }
    if let Some(mut source) = old.structure(MetricStatus::RESOURCE) {
        unset_current(&mut source, MetricV1::CURRENT_AVERAGE_VALUE, ResourceMetricStatus::CURRENT);
    }
    if let Some(mut source) = old.structure(MetricStatus::CONTAINER_RESOURCE) {
        unset_current(&mut source, MetricV1::CURRENT_AVERAGE_VALUE, ContainerResourceMetricStatus::CURRENT);
    }
    if let Some(mut source) = old.structure(MetricStatus::EXTERNAL) {
        unset_current(&mut source, MetricV1::CURRENT_AVERAGE_VALUE, ExternalMetricStatus::CURRENT);
        unidentify(&mut source, MetricV1::METRIC_SELECTOR, ExternalMetricStatus::METRIC);
    }
    metric
}

/// Moves the values of a source in v1 into its target; `average` is the name of the average in v1.
fn set_target<M>(
    source: &mut FieldMut<M>,
    average: Field<MetricV1, Quantity>,
    field: Field<M, MetricTarget>,
    kind: impl FnOnce(FieldRef<MetricTarget>) -> &'static str,
) {
    let target = FieldMut::build(|mut target| {
        set_some(&mut target, MetricTarget::VALUE, remove(source, MetricV1::TARGET_VALUE));
        set_some(&mut target, MetricTarget::AVERAGE_VALUE, remove(source, average));
        set_some(&mut target, MetricTarget::AVERAGE_UTILIZATION, remove(source, MetricV1::TARGET_AVERAGE_UTILIZATION));
        let kind = kind(target.read());
        target.set(MetricTarget::TYPE, kind);
    });
    source.set(field, target);
}

/// The reverse of [`set_target`]. Values that a source does not have in v1 are dropped with all unknown members.
fn unset_target<M>(source: &mut FieldMut<M>, average: Field<MetricV1, Quantity>, field: Field<M, MetricTarget>) {
    let mut target = source.remove(field).unwrap_or_default();
    let mut target = FieldMut::root(&mut target);
    insert(source, MetricV1::TARGET_VALUE, target.take(MetricTarget::VALUE));
    insert(source, average, target.take(MetricTarget::AVERAGE_VALUE));
    insert(source, MetricV1::TARGET_AVERAGE_UTILIZATION, target.take(MetricTarget::AVERAGE_UTILIZATION));
}

/// Moves the values of a status in v1 into its current values; `average` is the name of the average in v1.
fn set_current<M>(source: &mut FieldMut<M>, average: Field<MetricV1, Quantity>, field: Field<M, MetricValueStatus>) {
    let current = FieldMut::build(|mut current| {
        set_some(&mut current, MetricValueStatus::VALUE, remove(source, MetricV1::CURRENT_VALUE));
        set_some(&mut current, MetricValueStatus::AVERAGE_VALUE, remove(source, average));
        set_some(
            &mut current,
            MetricValueStatus::AVERAGE_UTILIZATION,
            remove(source, MetricV1::CURRENT_AVERAGE_UTILIZATION),
        );
    });
    source.set(field, current);
}

/// The reverse of [`set_current`].
fn unset_current<M>(source: &mut FieldMut<M>, average: Field<MetricV1, Quantity>, field: Field<M, MetricValueStatus>) {
    let mut current = source.remove(field).unwrap_or_default();
    let mut current = FieldMut::root(&mut current);
    insert(source, MetricV1::CURRENT_VALUE, current.take(MetricValueStatus::VALUE));
    insert(source, average, current.take(MetricValueStatus::AVERAGE_VALUE));
    insert(source, MetricV1::CURRENT_AVERAGE_UTILIZATION, current.take(MetricValueStatus::AVERAGE_UTILIZATION));
}

/// Moves the name and selector of a metric into `metric`.
fn identify<M>(source: &mut FieldMut<M>, selector: Field<MetricV1, LabelSelector>, metric: Field<M, MetricIdentifier>) {
    let (name, selector) = (remove(source, MetricV1::METRIC_NAME), remove(source, selector));
    let identifier = FieldMut::build(|mut identifier| {
        set_some(&mut identifier, MetricIdentifier::NAME, name);
        set_some(&mut identifier, MetricIdentifier::SELECTOR, selector);
    });
    source.set(metric, identifier);
}

/// The reverse of [`identify`].
fn unidentify<M>(
    source: &mut FieldMut<M>,
    selector: Field<MetricV1, LabelSelector>,
    metric: Field<M, MetricIdentifier>,
) {
    let mut identifier = source.remove(metric).unwrap_or_default();
    let mut identifier = FieldMut::root(&mut identifier);
    insert(source, MetricV1::METRIC_NAME, identifier.take(MetricIdentifier::NAME));
    insert(source, selector, identifier.take(MetricIdentifier::SELECTOR));
}

/// Removes a member that only the struct of v1 has.
fn remove<M, T>(source: &mut FieldMut<M>, field: Field<MetricV1, T>) -> Option<Value> {
    source.object().remove(field.name())
}

/// Sets a member that only the struct of v1 has.
fn insert<M, T>(source: &mut FieldMut<M>, field: Field<MetricV1, T>, value: Option<Value>) {
    if let Some(value) = value {
        source.object().insert(field.name(), value);
    }
}

fn is_zero_quantity(value: &Value) -> bool {
    value.as_str().and_then(|text| binnacle_meta::Quantity::parse(text).ok()).is_some_and(|quantity| quantity.is_zero())
}

fn take_list<M, T>(object: &mut FieldMut<M>, field: Field<M, List<T>>) -> Vec<Value> {
    match object.remove(field) {
        Some(Value::List(items)) => items,
        _ => Vec::new(),
    }
}

// === Annotations ===

fn annotation<'v>(autoscaler: FieldRef<'_, 'v, v1::HorizontalPodAutoscaler>, name: &str) -> Option<&'v str> {
    autoscaler.at(v1::HorizontalPodAutoscaler::METADATA).at(ObjectMeta::ANNOTATIONS).key(name).get_str()
}

/// Returns the items of the list in an annotation; `None` if the annotation is absent or invalid.
fn list_annotation(
    autoscaler: FieldRef<v1::HorizontalPodAutoscaler>,
    (name, message): (&'static str, &LazyLock<Message>),
) -> Option<Vec<Value>> {
    let list = go_json::unmarshal(annotation(autoscaler, name)?, message, Some(ITEMS))?;
    Some(list.list_at(&[ITEMS]).to_vec())
}

/// Returns the behavior in the annotation, in the form of v2; `None` if it is absent, invalid or empty.
fn behavior_annotation(autoscaler: FieldRef<v1::HorizontalPodAutoscaler>) -> Option<Value> {
    let mut behavior = go_json::unmarshal(annotation(autoscaler, BEHAVIOR_ANNOTATION)?, &BEHAVIOR, None)?;
    drop_nulls(&mut behavior);
    rename_behavior(&mut behavior, |names| names);
    behavior.as_object().is_some_and(|members| !members.is_empty()).then_some(behavior)
}

fn annotate_list(
    autoscaler: &mut FieldMut<v1::HorizontalPodAutoscaler>,
    name: &'static str,
    message: &LazyLock<Message>,
    items: Vec<Value>,
) {
    if items.is_empty() {
        return;
    }
    let mut list = value!({"items": items});
    canonical::canonicalize(&mut list, message);
    if let Some(items) = list.get(ITEMS) {
        annotate(autoscaler, name, items);
    }
}

fn annotate(autoscaler: &mut FieldMut<v1::HorizontalPodAutoscaler>, name: &'static str, value: &Value) {
    let mut metadata = autoscaler.entry(v1::HorizontalPodAutoscaler::METADATA);
    metadata.map_entry(ObjectMeta::ANNOTATIONS).insert(name, json::to_string(value));
}

/// Members in the internal struct and in v2.
const BEHAVIOR_NAMES: [Names; 2] = [("ScaleUp", Behavior::SCALE_UP.name()), ("ScaleDown", Behavior::SCALE_DOWN.name())];
const POLICIES: Names = ("Policies", HPAScalingRules::POLICIES.name());
const RULES_NAMES: [Names; 4] = [
    ("StabilizationWindowSeconds", HPAScalingRules::STABILIZATION_WINDOW_SECONDS.name()),
    ("SelectPolicy", HPAScalingRules::SELECT_POLICY.name()),
    POLICIES,
    ("Tolerance", HPAScalingRules::TOLERANCE.name()),
];
const POLICY_NAMES: [Names; 3] = [
    ("Type", HPAScalingPolicy::TYPE.name()),
    ("Value", HPAScalingPolicy::VALUE.name()),
    ("PeriodSeconds", HPAScalingPolicy::PERIOD_SECONDS.name()),
];

/// Renames all members of a behavior; `direction` turns a pair of names into the old and the new one.
fn rename_behavior(behavior: &mut Value, direction: fn(Names) -> Names) {
    let rename_all =
        |value: &mut Value, names: &[Names]| names.iter().for_each(|pair| rename_member(value, direction(*pair)));
    rename_all(behavior, &BEHAVIOR_NAMES);
    for (_, rules) in behavior.make_object().iter_mut() {
        rename_all(rules, &RULES_NAMES);
        let (_, policies) = direction(POLICIES);
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
