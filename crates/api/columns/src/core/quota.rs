//! ResourceQuota.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{ResourceQuota, ResourceQuotaStatus as Status};

use crate::Now;
use crate::columns::{Cells, Columns, cells, string, text};
use crate::format::quantity;
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const RESOURCE_QUOTA: Columns = Columns::new(
    &[
        NAME,
        string("Request", text("Request represents a minimum amount of cpu/memory that a container may consume.")),
        string(
            "Limit",
            text(
                "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
            ),
        ),
        AGE,
    ],
    |object, now| resource_quota(FieldRef::root(object), now),
);

fn resource_quota(quota: FieldRef<ResourceQuota>, now: Now) -> Cells {
    let status = quota.at(ResourceQuota::STATUS);
    let (hard, used) = (status.at(Status::HARD), status.at(Status::USED));
    let mut resources: Vec<_> = hard.entries().collect();
    resources.sort_unstable_by_key(|(resource, _)| *resource);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in resources {
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {}/{}", quantity(used.key(resource)), quantity(hard)));
    }
    cells![name(quota), requests.join(", "), limits.join(", "), created(quota, now)]
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_resource_quotas() {
        let cases = [
            (value!({}), value!(["", "", "", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {"hard": {"pods": "9"}},
                    "status": {
                        "hard": {"pods": "2", "limits.cpu": "1", "requests.cpu": "500m", "limits": "3"},
                        "used": {"pods": "1", "limits.cpu": "250m"},
                    },
                }),
                value!(["a", "limits: 0/3, pods: 1/2, requests.cpu: 0/500m", "limits.cpu: 250m/1", "<unknown>"]),
            ),
        ];
        check_cells("", "ResourceQuota", cases);
    }
}
