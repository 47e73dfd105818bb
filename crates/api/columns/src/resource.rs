//! The resource.k8s.io group.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::Condition;
use binnacle_fields::resource::v1::{
    self, ResourceClaim, ResourceClaimStatus, ResourcePool, ResourceSlice, ResourceSliceSpec as SliceSpec,
};
use binnacle_fields::resource::v1alpha3::{
    DeviceTaint, DeviceTaintRule, DeviceTaintRuleSpec, PoolStatus, ResourcePoolStatusRequest as PoolRequest,
    ResourcePoolStatusRequestSpec as PoolRequestSpec, ResourcePoolStatusRequestStatus as PoolRequestStatus,
};

use crate::Now;
use crate::age::age_of;
use crate::columns::{Cells, Columns, Kind, cells, doc, integer, string, text};
use crate::format::{NONE, is_true};
use crate::metadata::{AGE, NAME, NAME_AND_AGE, created, deleting, name};

pub(crate) const KINDS: &[Kind] = &[
    ("DeviceClass", &NAME_AND_AGE),
    ("DeviceTaintRule", &DEVICE_TAINT_RULE),
    ("ResourceClaim", &RESOURCE_CLAIM),
    ("ResourceClaimTemplate", &NAME_AND_AGE),
    ("ResourcePoolStatusRequest", &RESOURCE_POOL_STATUS_REQUEST),
    ("ResourceSlice", &RESOURCE_SLICE),
];

const DEVICE_TAINT_RULE: Columns = Columns::new(
    &[
        NAME,
        string("Key", doc(v1::DeviceTaint::KEY)),
        string("Value", doc(v1::DeviceTaint::VALUE)),
        string("Effect", doc(v1::DeviceTaint::EFFECT)),
        string("TimeAdded", doc(v1::DeviceTaint::TIME_ADDED)),
        AGE,
    ],
    |object, now| device_taint_rule(FieldRef::root(object), now),
);

const RESOURCE_CLAIM: Columns = Columns::new(
    &[NAME, string("State", text("A summary of the current state (allocated, pending, reserved, etc.).")), AGE],
    |object, now| {
        let claim = FieldRef::<ResourceClaim>::root(object);
        cells![name(claim), claim_state(claim), created(claim, now)]
    },
);

const RESOURCE_POOL_STATUS_REQUEST: Columns = Columns::new(
    &[
        NAME,
        string("Driver", text("The driver to query pools for.")),
        string("Total", text("Total number of devices across all pools.")),
        string("Available", text("Number of available devices across all pools.")),
        string("Allocated", text("Number of allocated devices across all pools.")),
        string("Unavailable", text("Number of unavailable devices across all pools.")),
        string("Errors", text("Number of pools with validation errors.")),
        integer("Pools", text("Total number of matching pools.")),
        string("Status", text("Processing status.")),
        string("Completed", text("Time since the observation completed.")),
    ],
    |object, now| pool_status_request(FieldRef::root(object), now),
);

const RESOURCE_SLICE: Columns = Columns::new(
    &[
        NAME,
        string("Node", doc(SliceSpec::NODE_NAME)),
        string("Driver", doc(SliceSpec::DRIVER)),
        string("Pool", doc(ResourcePool::NAME)),
        AGE,
    ],
    |object, now| {
        let slice = FieldRef::<ResourceSlice>::root(object);
        let spec = slice.at(ResourceSlice::SPEC);
        cells![
            name(slice),
            spec.at(SliceSpec::NODE_NAME).str(),
            spec.at(SliceSpec::DRIVER).str(),
            spec.at(SliceSpec::POOL).at(ResourcePool::NAME).str(),
            created(slice, now),
        ]
    },
);

fn device_taint_rule(rule: FieldRef<DeviceTaintRule>, now: Now) -> Cells {
    let spec = rule.at(DeviceTaintRule::SPEC);
    let taint = spec.at(DeviceTaintRuleSpec::TAINT);
    cells![
        name(rule),
        taint.at(DeviceTaint::KEY).str(),
        taint.at(DeviceTaint::VALUE).str(),
        taint.at(DeviceTaint::EFFECT).str(),
        taint.at(DeviceTaint::TIME_ADDED).set().map_or_else(String::new, |time| age_of(time, now)),
        created(rule, now),
    ]
}

fn claim_state(claim: FieldRef<ResourceClaim>) -> &'static str {
    let status = claim.at(ResourceClaim::STATUS);
    let is_allocated = status.at(ResourceClaimStatus::ALLOCATION).is_set();
    let is_reserved = !status.at(ResourceClaimStatus::RESERVED_FOR).is_empty();
    match (deleting(claim), is_allocated, is_reserved) {
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}

fn pool_status_request(request: FieldRef<PoolRequest>, now: Now) -> Cells {
    let status = request.at(PoolRequest::STATUS);
    if !status.is_set() {
        return pool_cells(request, PoolSummary::default());
    }
    let pools = status.at(PoolRequestStatus::POOLS);
    let count = status.at(PoolRequestStatus::POOL_COUNT).int_or_zero();
    let mut summary = PoolSummary { pools: count, ..PoolSummary::default() };
    // The first true condition that is final.
    let conditions = status.at(PoolRequestStatus::CONDITIONS);
    let end = conditions
        .items()
        .find(|condition| is_true(*condition) && matches!(condition.at(Condition::TYPE).str(), "Complete" | "Failed"));
    let failed = end.is_some_and(|condition| condition.at(Condition::TYPE).str() == "Failed");
    if failed {
        summary.status = "Failed".into();
    } else if let Some(complete) = end {
        // The list of pools may be incomplete.
        summary.status = match pools.len() as i64 {
            shown if shown < count => format!("Complete ({shown}/{count} pools)"),
            _ => "Complete".into(),
        };
        summary.completed = age_of(complete.at(Condition::LAST_TRANSITION_TIME), now);
    }
    if !failed {
        let sum = |field| pools.items().map(|pool| pool.at(field).int_or_zero()).sum::<i64>().to_string();
        let errors = pools.items().filter(|pool| pool.at(PoolStatus::VALIDATION_ERROR).is_set()).count();
        summary.devices = [
            sum(PoolStatus::TOTAL_DEVICES),
            sum(PoolStatus::AVAILABLE_DEVICES),
            sum(PoolStatus::ALLOCATED_DEVICES),
            sum(PoolStatus::UNAVAILABLE_DEVICES),
        ];
        summary.errors = errors.to_string();
    }
    pool_cells(request, summary)
}

/// The summary of a ResourcePoolStatusRequest's status.
struct PoolSummary {
    /// Total, available, allocated, unavailable.
    devices: [String; 4],
    errors: String,
    pools: i64,
    status: String,
    completed: String,
}

impl Default for PoolSummary {
    fn default() -> Self {
        Self {
            devices: std::array::from_fn(|_| "-".into()),
            errors: "-".into(),
            pools: 0,
            status: "Pending".into(),
            completed: NONE.into(),
        }
    }
}

fn pool_cells(request: FieldRef<PoolRequest>, summary: PoolSummary) -> Cells {
    let [total, available, allocated, unavailable] = summary.devices;
    cells![
        name(request),
        request.at(PoolRequest::SPEC).at(PoolRequestSpec::DRIVER).str(),
        total,
        available,
        allocated,
        unavailable,
        summary.errors,
        summary.pools,
        summary.status,
        summary.completed,
    ]
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use crate::testing::check_cells;

    const GROUP: &str = "resource.k8s.io";

    #[test]
    fn prints_device_taint_rules() {
        let cases = [
            (value!({}), value!(["", "", "", "", "", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {"taint": {"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2024-03-10T11:59:40Z"}},
                }),
                value!(["a", "k", "v", "NoExecute", "20s", "<unknown>"]),
            ),
        ];
        check_cells(GROUP, "DeviceTaintRule", cases);
    }

    #[test]
    fn prints_resource_claims() {
        let cases = [
            (value!({}), value!({}), "pending"),
            (value!({}), value!({"allocation": {}}), "allocated"),
            (value!({}), value!({"allocation": {}, "reservedFor": [{}]}), "allocated,reserved"),
            (value!({}), value!({"reservedFor": [{}]}), "pending"),
            (value!({"deletionTimestamp": "2024-03-10T11:59:40Z"}), value!({}), "deleted"),
            (value!({"deletionTimestamp": "2024-03-10T11:59:40Z"}), value!({"allocation": {}}), "deleted,allocated"),
        ];
        for (metadata, status, want) in cases {
            let claim = value!({"metadata": metadata, "status": status});
            check_cells(GROUP, "ResourceClaim", [(claim, value!(["", want, "<unknown>"]))]);
        }
    }

    #[test]
    fn prints_device_classes_and_claim_templates() {
        let cases = [(value!({"metadata": {"name": "a"}}), value!(["a", "<unknown>"]))];
        check_cells(GROUP, "DeviceClass", cases.clone());
        check_cells(GROUP, "ResourceClaimTemplate", cases);
    }

    #[test]
    fn prints_resource_slices() {
        let cases = [
            (value!({}), value!(["", "", "", "", "<unknown>"])),
            (
                value!({"metadata": {"name": "a"}, "spec": {"nodeName": "n", "driver": "d.test", "pool": {"name": "p"}}}),
                value!(["a", "n", "d.test", "p", "<unknown>"]),
            ),
        ];
        check_cells(GROUP, "ResourceSlice", cases);
    }

    #[test]
    fn prints_pool_status_requests() {
        let request =
            |status: Value| value!({"metadata": {"name": "a"}, "spec": {"driver": "d.test"}, "status": status});
        let complete = || value!({"type": "Complete", "status": "True", "lastTransitionTime": "2024-03-10T11:59:40Z"});
        let pools = || {
            value!([
                {"totalDevices": 4i64, "availableDevices": 1i64, "allocatedDevices": 2i64, "unavailableDevices": 1i64},
                {"totalDevices": 3i64, "validationError": "wrong"},
            ])
        };
        let cases = [
            (value!({}), value!(["", "", "-", "-", "-", "-", "-", 0i64, "Pending", "<none>"])),
            (request(value!({})), value!(["a", "d.test", "0", "0", "0", "0", "0", 0i64, "Pending", "<none>"])),
            (
                request(value!({"conditions": [(complete())], "poolCount": 2i64, "pools": (pools())})),
                value!(["a", "d.test", "7", "1", "2", "1", "1", 2i64, "Complete", "20s"]),
            ),
            (
                request(value!({"conditions": [(complete())], "poolCount": 5i64, "pools": (pools())})),
                value!(["a", "d.test", "7", "1", "2", "1", "1", 5i64, "Complete (2/5 pools)", "20s"]),
            ),
            (
                request(
                    value!({"conditions": [{"type": "Complete", "status": "False"}, {"type": "Failed", "status": "True"}]}),
                ),
                value!(["a", "d.test", "-", "-", "-", "-", "-", 0i64, "Failed", "<none>"]),
            ),
        ];
        check_cells(GROUP, "ResourcePoolStatusRequest", cases);
    }
}
