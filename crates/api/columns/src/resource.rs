//! The resource.k8s.io group.

use binnacle_schema::Value;

use crate::columns::{Cells, Columns, Kind, cells, definitions, doc, integer, string, text};
use crate::format::{NONE, is_true};
use crate::metadata::{AGE, NAME, NAME_AND_AGE, created, deleting, name, number, present};
use crate::{Now, age};

pub(crate) const KINDS: &[Kind] = &[
    ("DeviceClass", &NAME_AND_AGE),
    ("DeviceTaintRule", &DEVICE_TAINT_RULE),
    ("ResourceClaim", &RESOURCE_CLAIM),
    ("ResourceClaimTemplate", &NAME_AND_AGE),
    ("ResourcePoolStatusRequest", &RESOURCE_POOL_STATUS_REQUEST),
    ("ResourceSlice", &RESOURCE_SLICE),
];

definitions!("io.k8s.api.resource.v1":
    POOL = "ResourcePool",
    SLICE_SPEC = "ResourceSliceSpec",
    TAINT = "DeviceTaint",
);

const DEVICE_TAINT_RULE: Columns = Columns::new(
    &[
        NAME,
        string("Key", doc(TAINT, "key")),
        string("Value", doc(TAINT, "value")),
        string("Effect", doc(TAINT, "effect")),
        string("TimeAdded", doc(TAINT, "timeAdded")),
        AGE,
    ],
    device_taint_rule,
);

const RESOURCE_CLAIM: Columns = Columns::new(
    &[NAME, string("State", text("A summary of the current state (allocated, pending, reserved, etc.).")), AGE],
    |object, now| cells![name(object), claim_state(object), created(object, now)],
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
    pool_status_request,
);

const RESOURCE_SLICE: Columns = Columns::new(
    &[
        NAME,
        string("Node", doc(SLICE_SPEC, "nodeName")),
        string("Driver", doc(SLICE_SPEC, "driver")),
        string("Pool", doc(POOL, "name")),
        AGE,
    ],
    |object, now| {
        cells![
            name(object),
            object.str_at(&["spec", "nodeName"]),
            object.str_at(&["spec", "driver"]),
            object.str_at(&["spec", "pool", "name"]),
            created(object, now),
        ]
    },
);

fn device_taint_rule(object: &Value, now: Now) -> Cells {
    let taint = |member| object.str_at(&["spec", "taint", member]);
    let added = match object.at(&["spec", "taint", "timeAdded"]) {
        None | Some(Value::Null) => String::new(),
        time => age(time, now),
    };
    cells![name(object), taint("key"), taint("value"), taint("effect"), added, created(object, now)]
}

fn claim_state(object: &Value) -> &'static str {
    let reserved = !object.list_at(&["status", "reservedFor"]).is_empty();
    match (deleting(object), present(object, &["status", "allocation"]), reserved) {
        (false, false, _) => "pending",
        (false, true, false) => "allocated",
        (false, true, true) => "allocated,reserved",
        (true, false, _) => "deleted",
        (true, true, false) => "deleted,allocated",
        (true, true, true) => "deleted,allocated,reserved",
    }
}

fn pool_status_request(object: &Value, now: Now) -> Cells {
    let Some(status) = object.at(&["status"]).filter(|status| !status.is_null()) else {
        return pool_cells(object, PoolSummary::default());
    };
    let pools = status.list_at(&["pools"]);
    let count = number(status, &["poolCount"]);
    let mut summary = PoolSummary { pools: count, ..PoolSummary::default() };
    // The first true condition that is final.
    let end = status
        .list_at(&["conditions"])
        .iter()
        .find(|condition| is_true(condition) && matches!(condition.str_at(&["type"]), "Complete" | "Failed"));
    let failed = end.is_some_and(|condition| condition.str_at(&["type"]) == "Failed");
    if failed {
        summary.status = "Failed".into();
    } else if let Some(complete) = end {
        // The list of pools may be incomplete.
        summary.status = match pools.len() as i64 {
            shown if shown < count => format!("Complete ({shown}/{count} pools)"),
            _ => "Complete".into(),
        };
        summary.completed = age(complete.at(&["lastTransitionTime"]), now);
    }
    if !failed {
        let sum = |member| pools.iter().map(|pool| number(pool, &[member])).sum::<i64>().to_string();
        let errors = pools.iter().filter(|pool| present(pool, &["validationError"])).count();
        summary.devices =
            [sum("totalDevices"), sum("availableDevices"), sum("allocatedDevices"), sum("unavailableDevices")];
        summary.errors = errors.to_string();
    }
    pool_cells(object, summary)
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

fn pool_cells(object: &Value, summary: PoolSummary) -> Cells {
    let [total, available, allocated, unavailable] = summary.devices;
    cells![
        name(object),
        object.str_at(&["spec", "driver"]),
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
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    const GROUP: &str = "resource.k8s.io";

    #[test]
    fn taint_rules() {
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
    fn claims() {
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
    fn names_only() {
        let cases = [(value!({"metadata": {"name": "a"}}), value!(["a", "<unknown>"]))];
        check_cells(GROUP, "DeviceClass", cases.clone());
        check_cells(GROUP, "ResourceClaimTemplate", cases);
    }

    #[test]
    fn slices() {
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
    fn pool_status_requests() {
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
