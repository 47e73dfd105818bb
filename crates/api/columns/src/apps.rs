//! The apps group.

use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, cells, definitions, doc, integer, string, text};
use crate::format::{CONTAINERS, IMAGES, NONE, containers, labels};
use crate::metadata::{AGE, NAME, created, name, number};
use crate::selector::{deployment_selector, label_selector};

pub(crate) const KINDS: &[Kind] = &[
    ("ControllerRevision", &CONTROLLER_REVISION),
    ("DaemonSet", &DAEMON_SET),
    ("Deployment", &DEPLOYMENT),
    ("ReplicaSet", &REPLICA_SET),
    ("StatefulSet", &STATEFUL_SET),
];

definitions!("io.k8s.api.apps.v1":
    REVISION = "ControllerRevision",
    DAEMON_SET_SPEC = "DaemonSetSpec",
    DAEMON_SET_STATUS = "DaemonSetStatus",
    DEPLOYMENT_SPEC = "DeploymentSpec",
    DEPLOYMENT_STATUS = "DeploymentStatus",
    REPLICA_SET_SPEC = "ReplicaSetSpec",
    REPLICA_SET_STATUS = "ReplicaSetStatus",
);

const CONTROLLER_REVISION: Columns = Columns::new(
    &[NAME, string("Controller", text("Controller of the object")), string("Revision", doc(REVISION, "revision")), AGE],
    |object, now| cells![name(object), controller(object), number(object, &["revision"]), created(object, now)],
);

const DAEMON_SET: Columns = Columns {
    unseen_annotations: &["deprecated.daemonset.template.generation"],
    ..Columns::new(
        &[
            NAME,
            integer("Desired", doc(DAEMON_SET_STATUS, "desiredNumberScheduled")),
            integer("Current", doc(DAEMON_SET_STATUS, "currentNumberScheduled")),
            integer("Ready", doc(DAEMON_SET_STATUS, "numberReady")),
            integer("Up-to-date", doc(DAEMON_SET_STATUS, "updatedNumberScheduled")),
            integer("Available", doc(DAEMON_SET_STATUS, "numberAvailable")),
            string("Node Selector", doc("io.k8s.api.core.v1.PodSpec", "nodeSelector")),
            AGE,
            CONTAINERS,
            IMAGES,
            string("Selector", doc(DAEMON_SET_SPEC, "selector")).wide(),
        ],
        daemon_set,
    )
};

const DEPLOYMENT: Columns = Columns::new(
    &[
        NAME,
        string("Ready", text("Number of the pod with ready state")),
        string("Up-to-date", doc(DEPLOYMENT_STATUS, "updatedReplicas")),
        string("Available", doc(DEPLOYMENT_STATUS, "availableReplicas")),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(DEPLOYMENT_SPEC, "selector")).wide(),
    ],
    deployment,
);

const REPLICA_SET: Columns = Columns::new(
    &[
        NAME,
        integer("Desired", doc(REPLICA_SET_SPEC, "replicas")),
        integer("Current", doc(REPLICA_SET_STATUS, "replicas")),
        integer("Ready", doc(REPLICA_SET_STATUS, "readyReplicas")),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(REPLICA_SET_SPEC, "selector")).wide(),
    ],
    replica_set,
);

const STATEFUL_SET: Columns = Columns::new(
    &[NAME, string("Ready", text("Number of the pod with ready state")), AGE, CONTAINERS, IMAGES],
    stateful_set,
);

/// Returns the controller of a revision: `statefulset.apps/web`.
fn controller(object: &Value) -> String {
    let owners = object.list_at(&["metadata", "ownerReferences"]);
    let Some(owner) = owners.iter().find(|owner| owner.bool_at(&["controller"])) else { return NONE.into() };
    let (kind, name) = (owner.str_at(&["kind"]), owner.str_at(&["name"]));
    // The apiVersion of an owner is valid: the group is the part before the slash, if there is one.
    let group = owner.str_at(&["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
    match (kind, group) {
        ("", "") => name.into(),
        (kind, "") => format!("{}/{name}", kind.to_lowercase()),
        (kind, group) => format!("{}/{name}", format!("{kind}.{group}").to_lowercase()),
    }
}

fn daemon_set(object: &Value, now: Now) -> Cells {
    let status = |member| number(object, &["status", member]);
    let (names, images) = containers(object.at(POD_SPEC));
    cells![
        name(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(object.object_at(&["spec", "template", "spec", "nodeSelector"])),
        created(object, now),
        names,
        images,
        label_selector(object.at(&["spec", "selector"])),
    ]
}

fn deployment(object: &Value, now: Now) -> Cells {
    let (names, images) = containers(object.at(POD_SPEC));
    cells![
        name(object),
        ready_of_desired(object),
        number(object, &["status", "updatedReplicas"]),
        number(object, &["status", "availableReplicas"]),
        created(object, now),
        names,
        images,
        deployment_selector(object.at(&["spec", "selector"])),
    ]
}

fn replica_set(object: &Value, now: Now) -> Cells {
    let (names, images) = containers(object.at(POD_SPEC));
    cells![
        name(object),
        number(object, &["spec", "replicas"]),
        number(object, &["status", "replicas"]),
        number(object, &["status", "readyReplicas"]),
        created(object, now),
        names,
        images,
        label_selector(object.at(&["spec", "selector"])),
    ]
}

fn stateful_set(object: &Value, now: Now) -> Cells {
    let (names, images) = containers(object.at(POD_SPEC));
    cells![name(object), ready_of_desired(object), created(object, now), names, images]
}

fn ready_of_desired(object: &Value) -> String {
    format!("{}/{}", number(object, &["status", "readyReplicas"]), number(object, &["spec", "replicas"]))
}

const POD_SPEC: &[&str] = &["spec", "template", "spec"];

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    fn template() -> Value {
        value!({"spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}],
        }})
    }

    #[test]
    fn empty() {
        check_cells("apps", "ControllerRevision", [(value!({}), value!(["", "<none>", 0i64, "<unknown>"]))]);
        check_cells(
            "apps",
            "DaemonSet",
            [(value!({}), value!(["", 0i64, 0i64, 0i64, 0i64, 0i64, "<none>", "<unknown>", "", "", "<none>"]))],
        );
        check_cells("apps", "Deployment", [(value!({}), value!(["", "0/0", 0i64, 0i64, "<unknown>", "", "", ""]))]);
        check_cells(
            "apps",
            "ReplicaSet",
            [(value!({}), value!(["", 0i64, 0i64, 0i64, "<unknown>", "", "", "<none>"]))],
        );
        check_cells("apps", "StatefulSet", [(value!({}), value!(["", "0/0", "<unknown>", "", ""]))]);
    }

    #[test]
    fn controllers() {
        let owner =
            |fields: Value| value!({"metadata": {"ownerReferences": [{"kind": "Other", "name": "o"}, (fields)]}});
        let cases = [
            (owner(value!({"kind": "Pod", "name": "p"})), "<none>"),
            (owner(value!({"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": true})), "pod/p"),
            (
                owner(value!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "Web", "controller": true})),
                "statefulset.apps/Web",
            ),
        ];
        for (object, want) in cases {
            assert_eq!(controller(&object), want);
        }
    }

    #[test]
    fn workloads() {
        let spec = |replicas: i64| value!({"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": (template())});
        let metadata = || value!({"name": "a", "creationTimestamp": "2024-03-08T12:00:00Z"});
        check_cells(
            "apps",
            "DaemonSet",
            [(
                value!({
                    "metadata": (metadata()),
                    "spec": (spec(0)),
                    "status": {
                        "desiredNumberScheduled": 5i64, "currentNumberScheduled": 4i64, "numberReady": 3i64,
                        "updatedNumberScheduled": 2i64, "numberAvailable": 1i64,
                    },
                }),
                value!(["a", 5i64, 4i64, 3i64, 2i64, 1i64, "disk=ssd", "2d", "a,b", "x:1,y:2", "app=a"]),
            )],
        );
        check_cells(
            "apps",
            "Deployment",
            [(
                value!({
                    "metadata": (metadata()),
                    "spec": (spec(5)),
                    "status": {"readyReplicas": 3i64, "updatedReplicas": 2i64, "availableReplicas": 1i64},
                }),
                value!(["a", "3/5", 2i64, 1i64, "2d", "a,b", "x:1,y:2", "app=a"]),
            )],
        );
        check_cells(
            "apps",
            "ReplicaSet",
            [(
                value!({"metadata": (metadata()), "spec": (spec(5)), "status": {"readyReplicas": 3i64, "replicas": 4i64}}),
                value!(["a", 5i64, 4i64, 3i64, "2d", "a,b", "x:1,y:2", "app=a"]),
            )],
        );
        check_cells(
            "apps",
            "StatefulSet",
            [(
                value!({"metadata": (metadata()), "spec": (spec(5)), "status": {"readyReplicas": 3i64}}),
                value!(["a", "3/5", "2d", "a,b", "x:1,y:2"]),
            )],
        );
    }
}
