//! The scheduling.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::Condition;
use binnacle_fields::scheduling::v1::PriorityClass;
use binnacle_fields::scheduling::v1alpha2::{
    PodGroup, PodGroupSchedulingPolicy, PodGroupSpec, PodGroupStatus, PodGroupTemplateReference,
    WorkloadPodGroupTemplateReference,
};

use crate::Now;
use crate::columns::{Cells, Columns, Kind, boolean, cells, doc, integer, string, text};
use crate::format::{NONE, is_true};
use crate::metadata::{AGE, NAME, NAME_AND_AGE, created, name};

pub(crate) const KINDS: &[Kind] =
    &[("PodGroup", &POD_GROUP), ("PriorityClass", &PRIORITY_CLASS), ("Workload", &NAME_AND_AGE)];

const POD_GROUP: Columns = Columns::new(
    &[
        NAME,
        string("Policy", doc(PodGroupSpec::SCHEDULING_POLICY)),
        string("Workload", text("Name of the referenced Workload object")),
        string("Status", text("Status of the PodGroup")),
        AGE,
    ],
    |object, now| pod_group(FieldRef::root(object), now),
);

const PRIORITY_CLASS: Columns = Columns::new(
    &[
        NAME,
        integer("Value", doc(PriorityClass::VALUE)),
        boolean("Global-Default", doc(PriorityClass::GLOBAL_DEFAULT)),
        AGE,
        string("PreemptionPolicy", doc(PriorityClass::PREEMPTION_POLICY)),
    ],
    |object, now| {
        let class = FieldRef::<PriorityClass>::root(object);
        cells![
            name(class),
            class.at(PriorityClass::VALUE).int_or_zero(),
            class.at(PriorityClass::GLOBAL_DEFAULT).bool(),
            created(class, now),
            class.at(PriorityClass::PREEMPTION_POLICY).str(),
        ]
    },
);

fn pod_group(group: FieldRef<PodGroup>, now: Now) -> Cells {
    let spec = group.at(PodGroup::SPEC);
    let is_gang = spec.at(PodGroupSpec::SCHEDULING_POLICY).at(PodGroupSchedulingPolicy::GANG).is_set();
    let workload = match spec.at(PodGroupSpec::POD_GROUP_TEMPLATE_REF).set() {
        Some(template) => {
            let workload = template.at(PodGroupTemplateReference::WORKLOAD);
            workload.at(WorkloadPodGroupTemplateReference::WORKLOAD_NAME).str()
        }
        None => NONE,
    };
    let status = group_status(group.at(PodGroup::STATUS));
    cells![name(group), if is_gang { "Gang" } else { "Basic" }, workload, status, created(group, now)]
}

fn group_status<'v>(status: FieldRef<'_, 'v, PodGroupStatus>) -> &'v str {
    // If a type occurs twice, the last one counts.
    let conditions = status.at(PodGroupStatus::CONDITIONS);
    let last = |type_: &str| conditions.items().rfind(|condition| condition.at(Condition::TYPE).str() == type_);
    match (last("DisruptionTarget"), last("PodGroupScheduled")) {
        (Some(disruption), _) => disruption.at(Condition::REASON).str(),
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
    fn prints_pod_groups() {
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
            assert_eq!(group_status(FieldRef::root(&value!({"conditions": conditions}))), want);
        }
    }

    #[test]
    fn prints_priority_classes_and_workloads() {
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
