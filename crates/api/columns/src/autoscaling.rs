//! The autoscaling group.

use binnacle_fields::FieldRef;
use binnacle_fields::autoscaling::v1::{Scale, ScaleSpec, ScaleStatus};
use binnacle_fields::autoscaling::v2::{
    ContainerResourceMetricSource, ContainerResourceMetricStatus, CrossVersionObjectReference as Target,
    ExternalMetricSource, ExternalMetricStatus, HorizontalPodAutoscaler as Autoscaler,
    HorizontalPodAutoscalerSpec as Spec, HorizontalPodAutoscalerStatus as Status, MetricSpec, MetricStatus,
    MetricTarget, MetricValueStatus as MetricValue, ObjectMetricSource, ObjectMetricStatus, PodsMetricSource,
    PodsMetricStatus, ResourceMetricSource, ResourceMetricStatus,
};
use binnacle_fields::types::Int;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, cells, doc, integer, string};
use crate::format::{NONE, UNKNOWN, UNSET, quantity_pointer};
use crate::metadata::{AGE, NAME, UNFORMATTED_NAME, created, name};

pub(crate) const KINDS: &[Kind] = &[("HorizontalPodAutoscaler", &HORIZONTAL_POD_AUTOSCALER), ("Scale", &SCALE)];

const HORIZONTAL_POD_AUTOSCALER: Columns = Columns::new(
    &[
        NAME,
        string("Reference", doc(Spec::SCALE_TARGET_REF)),
        string("Targets", doc(Spec::METRICS)),
        string("MinPods", doc(Spec::MIN_REPLICAS)),
        string("MaxPods", doc(Spec::MAX_REPLICAS)),
        string("Replicas", doc(Status::CURRENT_REPLICAS)),
        AGE,
    ],
    |object, now| autoscaler(FieldRef::root(object), now),
);

const SCALE: Columns = Columns::new(
    &[
        UNFORMATTED_NAME,
        integer("Desired", doc(ScaleSpec::REPLICAS)),
        integer("Available", doc(ScaleStatus::REPLICAS)),
        AGE,
    ],
    |object, now| {
        let scale = FieldRef::<Scale>::root(object);
        cells![
            name(scale),
            scale.at(Scale::SPEC).at(ScaleSpec::REPLICAS).int_or_zero(),
            scale.at(Scale::STATUS).at(ScaleStatus::REPLICAS).int_or_zero(),
            created(scale, now),
        ]
    },
);

fn autoscaler(autoscaler: FieldRef<Autoscaler>, now: Now) -> Cells {
    let (spec, status) = (autoscaler.at(Autoscaler::SPEC), autoscaler.at(Autoscaler::STATUS));
    let target = spec.at(Spec::SCALE_TARGET_REF);
    cells![
        name(autoscaler),
        format!("{}/{}", target.at(Target::KIND).str(), target.at(Target::NAME).str()),
        metrics(spec, status),
        spec.at(Spec::MIN_REPLICAS).int().map_or_else(|| UNSET.into(), |min| min.to_string()),
        spec.at(Spec::MAX_REPLICAS).int_or_zero(),
        status.at(Status::CURRENT_REPLICAS).int_or_zero(),
        created(autoscaler, now),
    ]
}

/// Formats current and target values of the first two metrics, and the number of further ones.
fn metrics(spec: FieldRef<Spec>, status: FieldRef<Status>) -> String {
    const SHOWN: usize = 2;
    let (specs, statuses) = (spec.at(Spec::METRICS), status.at(Status::CURRENT_METRICS));
    if specs.is_empty() {
        return NONE.into();
    }
    // The status of a metric has the same index as its spec.
    let shown = specs.items().enumerate().take(SHOWN).map(|(i, spec)| metric(spec, statuses.item(i)));
    let text = shown.collect::<Vec<_>>().join(", ");
    match specs.len() {
        count if count > SHOWN => format!("{text} + {} more...", count - SHOWN),
        _ => text,
    }
}

fn metric(spec: FieldRef<MetricSpec>, status: Option<FieldRef<MetricStatus>>) -> String {
    /// Formats the values of a metric, where a status of another type of metric does not count.
    macro_rules! values {
        ($format:ident, $field:ident, $Source:ident, $Status:ident) => {{
            let source = spec.at(MetricSpec::$field);
            let status = status.as_ref().and_then(|status| status.at(MetricStatus::$field).set());
            $format(source.at($Source::TARGET), status.as_ref().map(|status| status.at($Status::CURRENT)))
        }};
    }
    match spec.at(MetricSpec::TYPE).str() {
        "External" => values!(value_or_average, EXTERNAL, ExternalMetricSource, ExternalMetricStatus),
        "Object" => values!(value_or_average, OBJECT, ObjectMetricSource, ObjectMetricStatus),
        "Pods" => values!(average, PODS, PodsMetricSource, PodsMetricStatus),
        "Resource" => {
            let name = spec.at(MetricSpec::RESOURCE).at(ResourceMetricSource::NAME).str();
            let values = values!(average_or_percent, RESOURCE, ResourceMetricSource, ResourceMetricStatus);
            format!("{name}: {values}")
        }
        "ContainerResource" => {
            let name = spec.at(MetricSpec::CONTAINER_RESOURCE).at(ContainerResourceMetricSource::NAME).str();
            let values = values!(
                average_or_percent,
                CONTAINER_RESOURCE,
                ContainerResourceMetricSource,
                ContainerResourceMetricStatus
            );
            format!("{name}: {values}")
        }
        _ => "<unknown type>".into(),
    }
}

fn value_or_average(target: FieldRef<MetricTarget>, current: Option<FieldRef<MetricValue>>) -> String {
    let average = target.at(MetricTarget::AVERAGE_VALUE);
    if average.is_set() {
        let current = current.and_then(|current| current.at(MetricValue::AVERAGE_VALUE).get_str()).unwrap_or(UNKNOWN);
        return format!("{current}/{} (avg)", quantity_pointer(average));
    }
    let current = current.map_or(UNKNOWN, |current| quantity_pointer(current.at(MetricValue::VALUE)));
    format!("{current}/{}", quantity_pointer(target.at(MetricTarget::VALUE)))
}

fn average_or_percent(target: FieldRef<MetricTarget>, current: Option<FieldRef<MetricValue>>) -> String {
    if target.at(MetricTarget::AVERAGE_VALUE).is_set() {
        return average(target, current);
    }
    let percent = |field: FieldRef<Int>, absent: &str| field.int().map_or_else(|| absent.into(), |n| format!("{n}%"));
    let current = current
        .map_or_else(|| UNKNOWN.into(), |current| percent(current.at(MetricValue::AVERAGE_UTILIZATION), UNKNOWN));
    format!("{current}/{}", percent(target.at(MetricTarget::AVERAGE_UTILIZATION), "<auto>"))
}

fn average(target: FieldRef<MetricTarget>, current: Option<FieldRef<MetricValue>>) -> String {
    let current = current.map_or(UNKNOWN, |current| quantity_pointer(current.at(MetricValue::AVERAGE_VALUE)));
    format!("{current}/{}", quantity_pointer(target.at(MetricTarget::AVERAGE_VALUE)))
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;
    use crate::testing::check_cells;

    #[test]
    fn prints_autoscalers() {
        let cases = [
            (value!({}), value!(["", "/", "<none>", "<unset>", 0i64, 0i64, "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a", "creationTimestamp": "2024-03-10T11:59:58Z"},
                    "spec": {
                        "scaleTargetRef": {"kind": "Deployment", "name": "d"},
                        "minReplicas": 2i64,
                        "maxReplicas": 10i64,
                        "metrics": [
                            {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80i64}}},
                            {"type": "Pods", "pods": {"target": {"averageValue": "100m"}}},
                            {"type": "Other"},
                        ],
                    },
                    "status": {
                        "currentReplicas": 4i64,
                        "currentMetrics": [{"resource": {"name": "cpu", "current": {"averageUtilization": 50i64}}}],
                    },
                }),
                value!(["a", "Deployment/d", "cpu: 50%/80%, <unknown>/100m + 1 more...", "2", 10i64, 4i64, "2s"]),
            ),
        ];
        check_cells("autoscaling", "HorizontalPodAutoscaler", cases);
    }

    #[test]
    fn formats_metrics() {
        let resource = |member: &str, target: Value| {
            let metric = value!({"name": "cpu", "target": (target)});
            let type_ = if member == "resource" { "Resource" } else { "ContainerResource" };
            Value::Object([("type", Value::from(type_)), (member, metric)].into_iter().collect())
        };
        let cases = [
            (resource("resource", value!({"averageValue": "1"})), value!({}), "cpu: <unknown>/1"),
            (
                resource("resource", value!({"averageValue": "1"})),
                value!({"resource": {"current": {"averageValue": "500m"}}}),
                "cpu: 500m/1",
            ),
            (
                resource("resource", value!({"averageValue": "1"})),
                value!({"containerResource": {"current": {"averageValue": "500m"}}}),
                "cpu: <unknown>/1",
            ),
            (resource("resource", value!({})), value!({"resource": {"current": {}}}), "cpu: <unknown>/<auto>"),
            (
                resource("containerResource", value!({"averageUtilization": 70i64})),
                value!({"containerResource": {"current": {"averageUtilization": 35i64}}}),
                "cpu: 35%/70%",
            ),
            (
                value!({"type": "External", "external": {"target": {"value": "5"}}}),
                value!({"external": {"current": {"value": "3"}}}),
                "3/5",
            ),
            (
                value!({"type": "External", "external": {"target": {"averageValue": "5"}}}),
                value!({"external": {"current": {"value": "3"}}}),
                "<unknown>/5 (avg)",
            ),
            (
                value!({"type": "Object", "object": {"target": {"averageValue": "5"}}}),
                value!({"object": {"current": {"averageValue": "4"}}}),
                "4/5 (avg)",
            ),
            (
                value!({"type": "Object", "object": {"target": {"value": "5"}}}),
                value!({"object": {"current": {"averageValue": "4"}}}),
                "<nil>/5",
            ),
            (value!({"type": "Object", "object": {"target": {"value": "5"}}}), value!({}), "<unknown>/5"),
            (
                value!({"type": "Pods", "pods": {"target": {"averageValue": "5"}}}),
                value!({"pods": {"current": {"averageValue": "1k"}}}),
                "1k/5",
            ),
            (value!({"type": "Later"}), value!({}), "<unknown type>"),
        ];
        for (spec, status, want) in cases {
            assert_eq!(metric(FieldRef::root(&spec), Some(FieldRef::root(&status))), want, "{spec:?} {status:?}");
        }
    }

    #[test]
    fn prints_scales() {
        let cases = [
            (value!({}), value!(["", 0i64, 0i64, "<unknown>"])),
            (
                value!({"metadata": {"name": "a"}, "spec": {"replicas": 3i64}, "status": {"replicas": 2i64}}),
                value!(["a", 3i64, 2i64, "<unknown>"]),
            ),
        ];
        check_cells("autoscaling", "Scale", cases);
    }
}
