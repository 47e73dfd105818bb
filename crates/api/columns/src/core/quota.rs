//! ResourceQuota.

use binnacle_schema::{Object, Value};

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
    resource_quota,
);

fn resource_quota(object: &Value, now: Now) -> Cells {
    let hard = object.object_at(&["status", "hard"]);
    let mut resources: Vec<&str> = hard.into_iter().flat_map(Object::keys).map(|key| key.as_str()).collect();
    resources.sort_unstable();
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for resource in resources {
        let used = quantity(object, &["status", "used", resource]);
        let hard = quantity(object, &["status", "hard", resource]);
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{hard}"));
    }
    cells![name(object), requests.join(", "), limits.join(", "), created(object, now)]
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn quotas() {
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
