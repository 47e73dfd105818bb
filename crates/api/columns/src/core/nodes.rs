//! Node.

use std::collections::BTreeSet;

use binnacle_schema::{Object, Value};

use crate::Now;
use crate::columns::{Cells, Columns, cells, definitions, doc, string, text};
use crate::format::{NONE, UNKNOWN, is_true, join, text_or};
use crate::metadata::{AGE, NAME, created, name};

definitions!("io.k8s.api.core.v1": INFO = "NodeSystemInfo", STATUS = "NodeStatus");

pub(crate) const NODE: Columns = Columns::new(
    &[
        NAME,
        string("Status", text("The status of the node")),
        string("Roles", text("The roles of the node")),
        AGE,
        string("Version", doc(INFO, "kubeletVersion")),
        string("Internal-IP", doc(STATUS, "addresses")).wide(),
        string("External-IP", doc(STATUS, "addresses")).wide(),
        string("OS-Image", doc(INFO, "osImage")).wide(),
        string("Kernel-Version", doc(INFO, "kernelVersion")).wide(),
        string("Container-Runtime", doc(INFO, "containerRuntimeVersion")).wide(),
    ],
    node,
);

fn node(node: &Value, now: Now) -> Cells {
    let info = |member| node.str_at(&["status", "nodeInfo", member]);
    let info_or_unknown = |member| text_or(node, &["status", "nodeInfo", member], UNKNOWN);
    let kernel = match info("architecture") {
        "" => info_or_unknown("kernelVersion").to_owned(),
        architecture => format!("{} ({architecture})", info_or_unknown("kernelVersion")),
    };
    cells![
        name(node),
        status(node),
        roles(node),
        created(node, now),
        info("kubeletVersion"),
        address(node, "InternalIP"),
        address(node, "ExternalIP"),
        info_or_unknown("osImage"),
        kernel,
        info_or_unknown("containerRuntimeVersion"),
    ]
}

fn status(node: &Value) -> String {
    // If a type occurs twice, the last one counts.
    let conditions = node.list_at(&["status", "conditions"]);
    let ready = conditions.iter().rfind(|condition| condition.str_at(&["type"]) == "Ready");
    let mut status = match ready {
        Some(condition) if is_true(condition) => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.bool_at(&["spec", "unschedulable"]) {
        status += ",SchedulingDisabled";
    }
    status
}

/// Returns the roles of a node by its labels, in either of two notations.
fn roles(node: &Value) -> String {
    let labels = node.object_at(&["metadata", "labels"]).into_iter().flat_map(Object::iter);
    let roles = labels.filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role),
        None if key == "kubernetes.io/role" => value.as_str(),
        None => None,
    });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { NONE.into() } else { join(roles, ",") }
}

fn address<'o>(node: &'o Value, type_: &str) -> &'o str {
    let addresses = node.list_at(&["status", "addresses"]);
    let first = addresses.iter().find(|address| address.str_at(&["type"]) == type_);
    first.map_or(NONE, |address| address.str_at(&["address"]))
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn nodes() {
        let cases = [
            (
                value!({}),
                value!([
                    "",
                    "Unknown",
                    "<none>",
                    "<unknown>",
                    "",
                    "<none>",
                    "<none>",
                    "<unknown>",
                    "<unknown>",
                    "<unknown>",
                ]),
            ),
            (
                value!({
                    "metadata": {
                        "name": "n1",
                        "creationTimestamp": "2024-03-01T12:00:00Z",
                        "labels": {
                            "node-role.kubernetes.io/worker": "",
                            "node-role.kubernetes.io/": "x",
                            "node-role.kubernetes.io/control-plane": "",
                            "kubernetes.io/role": "edge",
                        },
                    },
                    "spec": {"unschedulable": true},
                    "status": {
                        "conditions": [{"type": "Ready", "status": "False"}, {"type": "Ready", "status": "True"}],
                        "addresses": [
                            {"type": "Hostname", "address": "h"},
                            {"type": "InternalIP", "address": "10.0.0.1"},
                            {"type": "InternalIP", "address": "10.0.0.2"},
                            {"type": "ExternalIP", "address": "192.0.2.1"},
                        ],
                        "nodeInfo": {
                            "kubeletVersion": "v1.36.0",
                            "osImage": "Linux",
                            "kernelVersion": "6.1",
                            "architecture": "arm64",
                            "containerRuntimeVersion": "containerd://2",
                        },
                    },
                }),
                value!([
                    "n1",
                    "Ready,SchedulingDisabled",
                    "control-plane,edge,worker",
                    "9d",
                    "v1.36.0",
                    "10.0.0.1",
                    "192.0.2.1",
                    "Linux",
                    "6.1 (arm64)",
                    "containerd://2",
                ]),
            ),
            (
                value!({
                    "metadata": {"name": "n2", "labels": {"kubernetes.io/role": ""}},
                    "status": {
                        "conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "DiskPressure", "status": "True"}],
                        "nodeInfo": {"architecture": "amd64"},
                    },
                }),
                value!([
                    "n2",
                    "NotReady",
                    "<none>",
                    "<unknown>",
                    "",
                    "<none>",
                    "<none>",
                    "<unknown>",
                    "<unknown> (amd64)",
                    "<unknown>",
                ]),
            ),
        ];
        check_cells("", "Node", cases);
    }
}
