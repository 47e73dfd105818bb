//! Validation of a HorizontalPodAutoscaler.

use binnacle_fields::FieldRef;
use binnacle_fields::autoscaling::v2::{
    ContainerResourceMetricSource, CrossVersionObjectReference as Reference, ExternalMetricSource, HPAScalingPolicy,
    HPAScalingRules as Rules, HorizontalPodAutoscaler, HorizontalPodAutoscalerBehavior as Behavior,
    HorizontalPodAutoscalerSpec as Spec, MetricIdentifier, MetricSpec, MetricTarget as Target, ObjectMetricSource,
    PodsMetricSource, ResourceMetricSource,
};
use binnacle_fields::types::{Json, Str};
use binnacle_meta::{FieldErrors, Quantity};
use binnacle_validation::{checks, names, numbers, resource_names};

use crate::Features;

const PERIOD_MAX: i64 = 1800;
const WINDOW_MAX: i64 = 3600;

/// The values that are allowed as the `apiVersion` of a reference.
#[derive(Clone, Copy)]
struct ApiVersions {
    any: bool,
    core: bool,
}

/// Validates `spec`; an update may keep invalid values of `old`.
pub(super) fn spec(
    features: &Features,
    autoscaler: FieldRef<HorizontalPodAutoscaler>,
    old: Option<FieldRef<HorizontalPodAutoscaler>>,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = autoscaler.at(HorizontalPodAutoscaler::SPEC);
    let old = old.as_ref().map(|old| old.at(HorizontalPodAutoscaler::SPEC));
    replicas(features, spec, old, &mut errors);
    let target = spec.at(Spec::SCALE_TARGET_REF);
    let same = |field| old.is_some_and(|old| old.at(Spec::SCALE_TARGET_REF).at(field).str() == target.at(field).str());
    let any = same(Reference::API_VERSION) && same(Reference::KIND);
    let core = !any && target.at(Reference::KIND).str() == "ReplicationController";
    reference(target, ApiVersions { any, core }, &mut errors);
    metrics(spec, object_versions(old), &mut errors);
    let behavior = spec.at(Spec::BEHAVIOR);
    for direction in [Behavior::SCALE_UP, Behavior::SCALE_DOWN] {
        if let Some(rules) = behavior.at(direction).set() {
            scaling_rules(rules, &mut errors);
        }
    }
    errors
}

fn replicas(features: &Features, spec: FieldRef<Spec>, old: Option<FieldRef<Spec>>, errors: &mut FieldErrors) {
    let (min, max) = (spec.at(Spec::MIN_REPLICAS), spec.at(Spec::MAX_REPLICAS));
    let was_zero = old.is_some_and(|old| old.at(Spec::MIN_REPLICAS).int() == Some(0));
    let lowest = if features.enabled("HPAScaleToZero") || was_zero { 0 } else { 1 };
    if min.int().is_some_and(|min| min < lowest) {
        errors.push(min.invalid(format!("must be greater than or equal to {lowest}")));
    }
    let count = max.int_or_zero();
    if count == 0 {
        errors.push(max.required("must be set and greater than 0"));
    } else if count < 0 {
        errors.push(max.invalid("must be greater than or equal to 1"));
    }
    if min.int().is_some_and(|min| count < min) {
        errors.push(max.invalid_as(count, "must be greater than or equal to `minReplicas`"));
    }
}

/// Returns the versions allowed for objects with metrics: the core group's too, and invalid ones if the old object has
/// them.
fn object_versions(old: Option<FieldRef<Spec>>) -> ApiVersions {
    let versions = ApiVersions { any: false, core: true };
    let is_invalid = |metric: FieldRef<MetricSpec>| {
        let source = metric.at(MetricSpec::OBJECT);
        let object = source.at(ObjectMetricSource::DESCRIBED_OBJECT);
        metric.at(MetricSpec::TYPE).str() == "Object"
            && object.is_set()
            && api_version_problem(object.at(Reference::API_VERSION).str(), versions).is_some()
    };
    ApiVersions { any: old.is_some_and(|old| old.at(Spec::METRICS).items().any(is_invalid)), ..versions }
}

fn reference(reference: FieldRef<Reference>, versions: ApiVersions, errors: &mut FieldErrors) {
    required_name(reference.at(Reference::KIND), "", errors);
    required_name(reference.at(Reference::NAME), "", errors);
    let version = reference.at(Reference::API_VERSION);
    if let Some(problem) = api_version_problem(version.str(), versions) {
        errors.push(version.invalid_as(version.str(), problem));
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

/// Requires a text that is a valid path segment.
fn required_name(name: FieldRef<Str>, missing: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(name.required(missing));
    } else {
        checks::invalid_for(&name, name.str(), names::path_segment(name.str(), false), errors);
    }
}

// === Metrics ===

const TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

fn metrics(spec: FieldRef<Spec>, versions: ApiVersions, errors: &mut FieldErrors) {
    let metrics = spec.at(Spec::METRICS);
    for metric in errors.while_room(metrics.items()) {
        validate_metric(metric, versions, errors);
    }
    let is_external = |metric: FieldRef<MetricSpec>| matches!(metric.at(MetricSpec::TYPE).str(), "Object" | "External");
    if spec.at(Spec::MIN_REPLICAS).int() == Some(0) && !metrics.items().any(is_external) {
        errors.push(
            metrics
                .forbidden("must specify at least one Object or External metric to support scaling to zero replicas"),
        );
    }
}

fn validate_metric(metric: FieldRef<MetricSpec>, versions: ApiVersions, errors: &mut FieldErrors) {
    let kind = metric.at(MetricSpec::TYPE);
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric source type"));
    }
    checks::one_of(&kind, kind.str(), &TYPES, errors);
    let (object, external) = (metric.at(MetricSpec::OBJECT), metric.at(MetricSpec::EXTERNAL));
    let (pods, resource) = (metric.at(MetricSpec::PODS), metric.at(MetricSpec::RESOURCE));
    let container = metric.at(MetricSpec::CONTAINER_RESOURCE);
    // kube-apiserver validates the first source only.
    if object.is_set() {
        object_source(object, versions, errors);
    } else if external.is_set() {
        external_source(external, errors);
    } else if pods.is_set() {
        pods_source(pods, errors);
    } else if resource.is_set() {
        resource_source(resource, errors);
    } else if container.is_set() {
        container_source(container, errors);
    }
    let sources: [(&str, FieldRef<Json>); 5] = [
        ("Object", object.cast()),
        ("External", external.cast()),
        ("Pods", pods.cast()),
        ("Resource", resource.cast()),
        ("ContainerResource", container.cast()),
    ];
    match sources.iter().find(|(name, _)| *name == kind.str()) {
        Some((_, source)) if !source.is_set() => {
            errors.push(source.required("must populate information for the given metric source"));
        }
        Some(_) => {}
        None => checks::one_of(&kind, kind.str(), &TYPES, errors),
    }
    let given = || sources.iter().filter(|(_, source)| source.is_set());
    if given().count() != 1 {
        for (_, source) in errors.while_room(given().filter(|(name, _)| *name != kind.str())) {
            errors.push(source.forbidden("must populate the given metric source only"));
        }
    }
}

fn object_source(source: FieldRef<ObjectMetricSource>, versions: ApiVersions, errors: &mut FieldErrors) {
    reference(source.at(ObjectMetricSource::DESCRIBED_OBJECT), versions, errors);
    identifier(source.at(ObjectMetricSource::METRIC), errors);
    let target = source.at(ObjectMetricSource::TARGET);
    validate_target(target, errors);
    let average = target.at(Target::AVERAGE_VALUE);
    if !target.at(Target::VALUE).is_set() && !average.is_set() {
        errors.push(average.required("must set either a target value or averageValue"));
    }
}

fn external_source(source: FieldRef<ExternalMetricSource>, errors: &mut FieldErrors) {
    identifier(source.at(ExternalMetricSource::METRIC), errors);
    let target = source.at(ExternalMetricSource::TARGET);
    validate_target(target, errors);
    let (value, average) = (target.at(Target::VALUE), target.at(Target::AVERAGE_VALUE));
    match (value.is_set(), average.is_set()) {
        (false, false) => {
            errors.push(average.required("must set either a target value for metric or a per-pod target"));
        }
        (true, true) => {
            errors.push(value.forbidden("may not set both a target value for metric and a per-pod target"));
        }
        _ => {}
    }
}

fn pods_source(source: FieldRef<PodsMetricSource>, errors: &mut FieldErrors) {
    identifier(source.at(PodsMetricSource::METRIC), errors);
    let target = source.at(PodsMetricSource::TARGET);
    validate_target(target, errors);
    let average = target.at(Target::AVERAGE_VALUE);
    if !average.is_set() {
        errors.push(average.required("must specify a positive target averageValue"));
    }
}

fn resource_source(source: FieldRef<ResourceMetricSource>, errors: &mut FieldErrors) {
    let name = source.at(ResourceMetricSource::NAME);
    if name.is_empty() {
        errors.push(name.required("must specify a resource name"));
    }
    resource_target(source.at(ResourceMetricSource::TARGET), errors);
}

fn container_source(source: FieldRef<ContainerResourceMetricSource>, errors: &mut FieldErrors) {
    let name = source.at(ContainerResourceMetricSource::NAME);
    if name.is_empty() {
        errors.push(name.required("must specify a resource name"));
    } else {
        resource_names::of_containers(&name, name.str(), errors);
    }
    let container = source.at(ContainerResourceMetricSource::CONTAINER);
    if container.is_empty() {
        errors.push(container.required("must specify a container"));
    } else {
        checks::label(&container, container.str(), errors);
    }
    resource_target(source.at(ContainerResourceMetricSource::TARGET), errors);
}

fn resource_target(target: FieldRef<Target>, errors: &mut FieldErrors) {
    validate_target(target, errors);
    let (average, utilization) = (target.at(Target::AVERAGE_VALUE), target.at(Target::AVERAGE_UTILIZATION));
    match (utilization.is_set(), average.is_set()) {
        (false, false) => {
            errors.push(utilization.required("must set either a target raw value or a target utilization"));
        }
        (true, true) => {
            errors.push(average.forbidden("may not set both a target raw value and a target utilization"));
        }
        _ => {}
    }
}

fn validate_target(target: FieldRef<Target>, errors: &mut FieldErrors) {
    let kind = target.at(Target::TYPE);
    if kind.is_empty() {
        errors.push(kind.required("must specify a metric target type"));
    }
    if !matches!(kind.str(), "Utilization" | "Value" | "AverageValue") {
        errors.push(
            kind.invalid_as(checks::of_named_type(kind.str()), "must be either Utilization, Value, or AverageValue"),
        );
    }
    for field in [Target::VALUE, Target::AVERAGE_VALUE] {
        let value = target.at(field);
        if value.get_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(|value| value.sign() != 1) {
            errors.push(value.invalid("must be positive"));
        }
    }
    let utilization = target.at(Target::AVERAGE_UTILIZATION);
    if utilization.int().is_some_and(|percent| percent < 1) {
        errors.push(utilization.invalid("must be greater than 0"));
    }
}

fn identifier(metric: FieldRef<MetricIdentifier>, errors: &mut FieldErrors) {
    required_name(metric.at(MetricIdentifier::NAME), "must specify a metric name", errors);
}

// === Behavior ===

fn scaling_rules(rules: FieldRef<Rules>, errors: &mut FieldErrors) {
    let window = rules.at(Rules::STABILIZATION_WINDOW_SECONDS);
    if let Some(seconds) = window.int() {
        if seconds < 0 {
            errors.push(window.invalid("must be greater than or equal to zero"));
        }
        if seconds > WINDOW_MAX {
            errors.push(window.invalid(format!("must be less than or equal to {WINDOW_MAX}")));
        }
    }
    let select = rules.at(Rules::SELECT_POLICY);
    if let Some(policy) = select.get_str() {
        checks::one_of(&select, policy, &["Disabled", "Max", "Min"], errors);
    }
    let policies = rules.at(Rules::POLICIES);
    if policies.is_empty() {
        errors.push(policies.required("must specify at least one Policy"));
    }
    for policy in errors.while_room(policies.items()) {
        scaling_policy(policy, errors);
    }
    let tolerance = rules.at(Rules::TOLERANCE);
    numbers::non_negative_quantity(&tolerance, tolerance.str(), errors);
}

fn scaling_policy(policy: FieldRef<HPAScalingPolicy>, errors: &mut FieldErrors) {
    let kind = policy.at(HPAScalingPolicy::TYPE);
    checks::one_of(&kind, kind.str(), &["Percent", "Pods"], errors);
    let value = policy.at(HPAScalingPolicy::VALUE);
    if value.int_or_zero() <= 0 {
        errors.push(value.invalid_as(value.int_or_zero(), "must be greater than zero"));
    }
    let period = policy.at(HPAScalingPolicy::PERIOD_SECONDS);
    let seconds = period.int_or_zero();
    if seconds <= 0 {
        errors.push(period.invalid_as(seconds, "must be greater than zero"));
    }
    if seconds > PERIOD_MAX {
        errors.push(period.invalid(format!("must be less than or equal to {PERIOD_MAX}")));
    }
}
