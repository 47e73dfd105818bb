//! The scheduling.k8s.io group.

use binnacle_schema::Value;

use crate::columns::{Columns, Kind, boolean, cells, doc, integer, string, text};
use crate::format::{NONE, is_true};
use crate::metadata::{AGE, NAME, NAME_AND_AGE, created, name, number, present};

pub(crate) const KINDS: &[Kind] =
    &[("PodGroup", &POD_GROUP), ("PriorityClass", &PRIORITY_CLASS), ("Workload", &NAME_AND_AGE)];

const CLASS: &str = "io.k8s.api.scheduling.v1.PriorityClass";

const POD_GROUP: Columns = Columns::new(
    &[
        NAME,
        string("Policy", doc("io.k8s.api.scheduling.v1alpha2.PodGroupSpec", "schedulingPolicy")),
        string("Workload", text("Name of the referenced Workload object")),
        string("Status", text("Status of the PodGroup")),
        AGE,
    ],
    |object, now| {
        let policy = if present(object, &["spec", "schedulingPolicy", "gang"]) { "Gang" } else { "Basic" };
        let workload = match present(object, &["spec", "podGroupTemplateRef"]) {
            true => object.str_at(&["spec", "podGroupTemplateRef", "workload", "workloadName"]),
            false => NONE,
        };
        cells![name(object), policy, workload, group_status(object), created(object, now)]
    },
);

const PRIORITY_CLASS: Columns = Columns::new(
    &[
        NAME,
        integer("Value", doc(CLASS, "value")),
        boolean("Global-Default", doc(CLASS, "globalDefault")),
        AGE,
        string("PreemptionPolicy", doc(CLASS, "preemptionPolicy")),
    ],
    |object, now| {
        cells![
            name(object),
            number(object, &["value"]),
            object.bool_at(&["globalDefault"]),
            created(object, now),
            object.str_at(&["preemptionPolicy"]),
        ]
    },
);

fn group_status(object: &Value) -> &str {
    // If a type occurs twice, the last one counts.
    let conditions = object.list_at(&["status", "conditions"]);
    let last = |type_: &str| conditions.iter().rfind(|condition| condition.str_at(&["type"]) == type_);
    match (last("DisruptionTarget"), last("PodGroupScheduled")) {
        (Some(disruption), _) => disruption.str_at(&["reason"]),
        (None, Some(scheduled)) if is_true(scheduled) => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    const GROUP: &str = "scheduling.k8s.io";

    #[test]
    fn pod_groups() {
        let cases = [
            (value!({}), value!(["", "Basic", "<none>", "Pending", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {
                        "schedulingPolicy": {"gang": {"minCount": 3i64}},
                        "podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
                    },
                    "status": {"conditions": [{"type": "PodGroupScheduled", "status": "True"}]},
                }),
                value!(["a", "Gang", "w", "Scheduled", "<unknown>"]),
            ),
        ];
        check_cells(GROUP, "PodGroup", cases);
        let statuses = [
            (value!([{"type": "PodGroupScheduled", "status": "False"}]), "Unschedulable"),
            (
                value!([
                    {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
                    {"type": "PodGroupScheduled", "status": "True"},
                ]),
                "PreemptionByScheduler",
            ),
        ];
        for (conditions, want) in statuses {
            assert_eq!(group_status(&value!({"status": {"conditions": conditions}})), want);
        }
    }

    #[test]
    fn priority_classes_and_workloads() {
        let cases = [
            (value!({}), value!(["", 0i64, false, "<unknown>", ""])),
            (
                value!({"metadata": {"name": "a"}, "value": 7i64, "globalDefault": true, "preemptionPolicy": "Never"}),
                value!(["a", 7i64, true, "<unknown>", "Never"]),
            ),
        ];
        check_cells(GROUP, "PriorityClass", cases);
        check_cells(GROUP, "Workload", [(value!({"metadata": {"name": "a"}}), value!(["a", "<unknown>"]))]);
    }
}
