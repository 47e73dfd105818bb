//! The apps group.

use binnacle_fields::FieldRef;
use binnacle_fields::apps::v1::{
    ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetStatus, Deployment, DeploymentSpec, DeploymentStatus,
    ReplicaSet, ReplicaSetSpec, ReplicaSetStatus, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use binnacle_fields::core::v1::{PodSpec, PodTemplateSpec};
use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference};
use binnacle_fields::types::Int;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, cells, doc, integer, string, text};
use crate::format::{CONTAINERS, IMAGES, NONE, containers, labels};
use crate::metadata::{AGE, NAME, created, name};
use crate::selector::{deployment_selector, label_selector};

pub(crate) const KINDS: &[Kind] = &[
    ("ControllerRevision", &CONTROLLER_REVISION),
    ("DaemonSet", &DAEMON_SET),
    ("Deployment", &DEPLOYMENT),
    ("ReplicaSet", &REPLICA_SET),
    ("StatefulSet", &STATEFUL_SET),
];

const CONTROLLER_REVISION: Columns = Columns::new(
    &[
        NAME,
        string("Controller", text("Controller of the object")),
        string("Revision", doc(ControllerRevision::REVISION)),
        AGE,
    ],
    |object, now| {
        let revision = FieldRef::<ControllerRevision>::root(object);
        let number = revision.at(ControllerRevision::REVISION).int_or_zero();
        cells![name(revision), controller(revision), number, created(revision, now)]
    },
);

const DAEMON_SET: Columns = Columns {
    unseen_annotations: &["deprecated.daemonset.template.generation"],
    ..Columns::new(
        &[
            NAME,
            integer("Desired", doc(DaemonSetStatus::DESIRED_NUMBER_SCHEDULED)),
            integer("Current", doc(DaemonSetStatus::CURRENT_NUMBER_SCHEDULED)),
            integer("Ready", doc(DaemonSetStatus::NUMBER_READY)),
            integer("Up-to-date", doc(DaemonSetStatus::UPDATED_NUMBER_SCHEDULED)),
            integer("Available", doc(DaemonSetStatus::NUMBER_AVAILABLE)),
            string("Node Selector", doc(PodSpec::NODE_SELECTOR)),
            AGE,
            CONTAINERS,
            IMAGES,
            string("Selector", doc(DaemonSetSpec::SELECTOR)).wide(),
        ],
        |object, now| daemon_set(FieldRef::root(object), now),
    )
};

const DEPLOYMENT: Columns = Columns::new(
    &[
        NAME,
        string("Ready", text("Number of the pod with ready state")),
        string("Up-to-date", doc(DeploymentStatus::UPDATED_REPLICAS)),
        string("Available", doc(DeploymentStatus::AVAILABLE_REPLICAS)),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(DeploymentSpec::SELECTOR)).wide(),
    ],
    |object, now| deployment(FieldRef::root(object), now),
);

const REPLICA_SET: Columns = Columns::new(
    &[
        NAME,
        integer("Desired", doc(ReplicaSetSpec::REPLICAS)),
        integer("Current", doc(ReplicaSetStatus::REPLICAS)),
        integer("Ready", doc(ReplicaSetStatus::READY_REPLICAS)),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(ReplicaSetSpec::SELECTOR)).wide(),
    ],
    |object, now| replica_set(FieldRef::root(object), now),
);

const STATEFUL_SET: Columns = Columns::new(
    &[NAME, string("Ready", text("Number of the pod with ready state")), AGE, CONTAINERS, IMAGES],
    |object, now| stateful_set(FieldRef::root(object), now),
);

/// Returns the controller of a revision: `statefulset.apps/web`.
fn controller(revision: FieldRef<ControllerRevision>) -> String {
    let metadata = revision.at(ControllerRevision::METADATA);
    let owners = metadata.at(ObjectMeta::OWNER_REFERENCES);
    let controller = owners.items().find(|owner| owner.at(OwnerReference::CONTROLLER).bool());
    let Some(owner) = controller else { return NONE.into() };
    let (kind, name) = (owner.at(OwnerReference::KIND).str(), owner.at(OwnerReference::NAME).str());
    // The apiVersion of an owner is valid: the group is the part before the slash, if there is one.
    let group = owner.at(OwnerReference::API_VERSION).str().split_once('/').map_or("", |(group, _)| group);
    match (kind, group) {
        ("", "") => name.into(),
        (kind, "") => format!("{}/{name}", kind.to_lowercase()),
        (kind, group) => format!("{}/{name}", format!("{kind}.{group}").to_lowercase()),
    }
}

fn daemon_set(set: FieldRef<DaemonSet>, now: Now) -> Cells {
    let (spec, status) = (set.at(DaemonSet::SPEC), set.at(DaemonSet::STATUS));
    let template = spec.at(DaemonSetSpec::TEMPLATE);
    let (names, images) = containers(template);
    cells![
        name(set),
        status.at(DaemonSetStatus::DESIRED_NUMBER_SCHEDULED).int_or_zero(),
        status.at(DaemonSetStatus::CURRENT_NUMBER_SCHEDULED).int_or_zero(),
        status.at(DaemonSetStatus::NUMBER_READY).int_or_zero(),
        status.at(DaemonSetStatus::UPDATED_NUMBER_SCHEDULED).int_or_zero(),
        status.at(DaemonSetStatus::NUMBER_AVAILABLE).int_or_zero(),
        labels(template.at(PodTemplateSpec::SPEC).at(PodSpec::NODE_SELECTOR)),
        created(set, now),
        names,
        images,
        label_selector(spec.at(DaemonSetSpec::SELECTOR)),
    ]
}

fn deployment(deployment: FieldRef<Deployment>, now: Now) -> Cells {
    let (spec, status) = (deployment.at(Deployment::SPEC), deployment.at(Deployment::STATUS));
    let (names, images) = containers(spec.at(DeploymentSpec::TEMPLATE));
    cells![
        name(deployment),
        ready_of_desired(status.at(DeploymentStatus::READY_REPLICAS), spec.at(DeploymentSpec::REPLICAS)),
        status.at(DeploymentStatus::UPDATED_REPLICAS).int_or_zero(),
        status.at(DeploymentStatus::AVAILABLE_REPLICAS).int_or_zero(),
        created(deployment, now),
        names,
        images,
        deployment_selector(spec.at(DeploymentSpec::SELECTOR)),
    ]
}

fn replica_set(set: FieldRef<ReplicaSet>, now: Now) -> Cells {
    let (spec, status) = (set.at(ReplicaSet::SPEC), set.at(ReplicaSet::STATUS));
    let (names, images) = containers(spec.at(ReplicaSetSpec::TEMPLATE));
    cells![
        name(set),
        spec.at(ReplicaSetSpec::REPLICAS).int_or_zero(),
        status.at(ReplicaSetStatus::REPLICAS).int_or_zero(),
        status.at(ReplicaSetStatus::READY_REPLICAS).int_or_zero(),
        created(set, now),
        names,
        images,
        label_selector(spec.at(ReplicaSetSpec::SELECTOR)),
    ]
}

fn stateful_set(set: FieldRef<StatefulSet>, now: Now) -> Cells {
    let (spec, status) = (set.at(StatefulSet::SPEC), set.at(StatefulSet::STATUS));
    let ready = ready_of_desired(status.at(StatefulSetStatus::READY_REPLICAS), spec.at(StatefulSetSpec::REPLICAS));
    let (names, images) = containers(spec.at(StatefulSetSpec::TEMPLATE));
    cells![name(set), ready, created(set, now), names, images]
}

fn ready_of_desired(ready: FieldRef<Int>, desired: FieldRef<Int>) -> String {
    format!("{}/{}", ready.int_or_zero(), desired.int_or_zero())
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;
    use crate::testing::check_cells;

    fn template() -> Value {
        value!({"spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:2"}],
        }})
    }

    #[test]
    fn prints_empty_objects() {
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
    fn formats_controlling_owner() {
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
            assert_eq!(controller(FieldRef::root(&object)), want);
        }
    }

    #[test]
    fn prints_workloads() {
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
