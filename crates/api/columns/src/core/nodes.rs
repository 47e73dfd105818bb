//! Node.

use std::collections::BTreeSet;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus as Status, NodeSystemInfo as Info,
};
use binnacle_fields::meta::v1::ObjectMeta;

use crate::Now;
use crate::columns::{Cells, Columns, cells, doc, string, text};
use crate::format::{NONE, UNKNOWN, is_true, join, text_or};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const NODE: Columns = Columns::new(
    &[
        NAME,
        string("Status", text("The status of the node")),
        string("Roles", text("The roles of the node")),
        AGE,
        string("Version", doc(Info::KUBELET_VERSION)),
        string("Internal-IP", doc(Status::ADDRESSES)).wide(),
        string("External-IP", doc(Status::ADDRESSES)).wide(),
        string("OS-Image", doc(Info::OS_IMAGE)).wide(),
        string("Kernel-Version", doc(Info::KERNEL_VERSION)).wide(),
        string("Container-Runtime", doc(Info::CONTAINER_RUNTIME_VERSION)).wide(),
    ],
    |object, now| node(FieldRef::root(object), now),
);

fn node(node: FieldRef<Node>, now: Now) -> Cells {
    let status = node.at(Node::STATUS);
    let info = status.at(Status::NODE_INFO);
    let info_or_unknown = |field| text_or(info.at(field), UNKNOWN);
    let kernel = match info.at(Info::ARCHITECTURE).str() {
        "" => info_or_unknown(Info::KERNEL_VERSION).to_owned(),
        architecture => format!("{} ({architecture})", info_or_unknown(Info::KERNEL_VERSION)),
    };
    cells![
        name(node),
        readiness(node),
        roles(node),
        created(node, now),
        info.at(Info::KUBELET_VERSION).str(),
        address(status, "InternalIP"),
        address(status, "ExternalIP"),
        info_or_unknown(Info::OS_IMAGE),
        kernel,
        info_or_unknown(Info::CONTAINER_RUNTIME_VERSION),
    ]
}

fn readiness(node: FieldRef<Node>) -> String {
    // If a type occurs twice, the last one counts.
    let status = node.at(Node::STATUS);
    let conditions = status.at(Status::CONDITIONS);
    let ready = conditions.items().rfind(|condition| condition.at(NodeCondition::TYPE).str() == "Ready");
    let mut readiness = match ready {
        Some(condition) if is_true(condition) => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node.at(Node::SPEC).at(NodeSpec::UNSCHEDULABLE).bool() {
        readiness += ",SchedulingDisabled";
    }
    readiness
}

/// Returns the roles of a node by its labels, in either of two notations.
fn roles(node: FieldRef<Node>) -> String {
    let metadata = node.at(Node::METADATA);
    let labels = metadata.at(ObjectMeta::LABELS);
    let roles = labels.entries().filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
        Some(role) => Some(role),
        None if key == "kubernetes.io/role" => value.get_str(),
        None => None,
    });
    let roles: BTreeSet<&str> = roles.filter(|role| !role.is_empty()).collect();
    if roles.is_empty() { NONE.into() } else { join(roles, ",") }
}

fn address<'v>(status: FieldRef<'_, 'v, Status>, type_: &str) -> &'v str {
    let addresses = status.at(Status::ADDRESSES);
    let first = addresses.items().find(|address| address.at(NodeAddress::TYPE).str() == type_);
    first.map_or(NONE, |address| address.at(NodeAddress::ADDRESS).str())
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_nodes() {
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
