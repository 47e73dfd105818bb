//! The autoscaling group.

use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, cells, definitions, doc, integer, string};
use crate::format::{NONE, UNKNOWN, UNSET, quantity_pointer};
use crate::metadata::{AGE, NAME, UNFORMATTED_NAME, created, name, number, present};

pub(crate) const KINDS: &[Kind] = &[("HorizontalPodAutoscaler", &HORIZONTAL_POD_AUTOSCALER), ("Scale", &SCALE)];

definitions!("io.k8s.api.autoscaling.v2":
    AUTOSCALER_SPEC = "HorizontalPodAutoscalerSpec",
    AUTOSCALER_STATUS = "HorizontalPodAutoscalerStatus",
);
definitions!("io.k8s.api.autoscaling.v1": SCALE_SPEC = "ScaleSpec", SCALE_STATUS = "ScaleStatus");

const HORIZONTAL_POD_AUTOSCALER: Columns = Columns::new(
    &[
        NAME,
        string("Reference", doc(AUTOSCALER_SPEC, "scaleTargetRef")),
        string("Targets", doc(AUTOSCALER_SPEC, "metrics")),
        string("MinPods", doc(AUTOSCALER_SPEC, "minReplicas")),
        string("MaxPods", doc(AUTOSCALER_SPEC, "maxReplicas")),
        string("Replicas", doc(AUTOSCALER_STATUS, "currentReplicas")),
        AGE,
    ],
    autoscaler,
);

const SCALE: Columns = Columns::new(
    &[
        UNFORMATTED_NAME,
        integer("Desired", doc(SCALE_SPEC, "replicas")),
        integer("Available", doc(SCALE_STATUS, "replicas")),
        AGE,
    ],
    |object, now| {
        cells![
            name(object),
            number(object, &["spec", "replicas"]),
            number(object, &["status", "replicas"]),
            created(object, now),
        ]
    },
);

fn autoscaler(object: &Value, now: Now) -> Cells {
    let target = |member| object.str_at(&["spec", "scaleTargetRef", member]);
    let min = object.int_at(&["spec", "minReplicas"]).map_or_else(|| UNSET.into(), |min| min.to_string());
    cells![
        name(object),
        format!("{}/{}", target("kind"), target("name")),
        metrics(object),
        min,
        number(object, &["spec", "maxReplicas"]),
        number(object, &["status", "currentReplicas"]),
        created(object, now),
    ]
}

/// Formats current and target values of the first two metrics, and the number of further ones.
fn metrics(object: &Value) -> String {
    const SHOWN: usize = 2;
    let specs = object.list_at(&["spec", "metrics"]);
    if specs.is_empty() {
        return NONE.into();
    }
    // The status of a metric has the same index as its spec.
    let statuses = object.list_at(&["status", "currentMetrics"]);
    let shown = specs.iter().enumerate().take(SHOWN).map(|(i, spec)| metric(spec, statuses.get(i)));
    let text = shown.collect::<Vec<_>>().join(", ");
    match specs.len() {
        count if count > SHOWN => format!("{text} + {} more...", count - SHOWN),
        _ => text,
    }
}

fn metric(spec: &Value, status: Option<&Value>) -> String {
    let (member, of_resource) = match spec.str_at(&["type"]) {
        "External" => ("external", false),
        "Object" => ("object", false),
        "Pods" => ("pods", false),
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        _ => return "<unknown type>".into(),
    };
    // The status, if it is of the same type of metric.
    let status = status.filter(|status| present(status, &[member]));
    let target = |value| quantity_pointer(spec, &[member, "target", value]);
    let current = |value| status.map_or(UNKNOWN, |status| quantity_pointer(status, &[member, "current", value]));
    let averaged = present(spec, &[member, "target", "averageValue"]);
    match (member, averaged) {
        (_, true) if of_resource => {
            format!("{}: {}/{}", spec.str_at(&[member, "name"]), current("averageValue"), target("averageValue"))
        }
        (_, false) if of_resource => {
            let percent = |metric: &Value, of, absent: &str| {
                metric.int_at(&[member, of, "averageUtilization"]).map_or_else(|| absent.into(), |n| format!("{n}%"))
            };
            let current = status.map_or_else(|| UNKNOWN.into(), |status| percent(status, "current", UNKNOWN));
            format!("{}: {current}/{}", spec.str_at(&[member, "name"]), percent(spec, "target", "<auto>"))
        }
        ("pods", _) => format!("{}/{}", current("averageValue"), target("averageValue")),
        (_, false) => format!("{}/{}", current("value"), target("value")),
        (_, true) => {
            let current = match status {
                Some(status) if !present(status, &[member, "current", "averageValue"]) => UNKNOWN,
                _ => current("averageValue"),
            };
            format!("{current}/{} (avg)", target("averageValue"))
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    #[test]
    fn autoscalers() {
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
    fn one_metric() {
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
            assert_eq!(metric(&spec, Some(&status)), want, "{spec:?} {status:?}");
        }
    }

    #[test]
    fn scales() {
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
