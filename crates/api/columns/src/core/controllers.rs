//! ReplicationController and PodTemplate.

use crate::columns::{Columns, cells, definitions, doc, integer, string, text};
use crate::format::{CONTAINERS, IMAGES, containers, labels};
use crate::metadata::{AGE, NAME, created, name, number};

definitions!("io.k8s.api.core.v1": SPEC = "ReplicationControllerSpec", STATUS = "ReplicationControllerStatus");

pub(crate) const REPLICATION_CONTROLLER: Columns = Columns::new(
    &[
        NAME,
        integer("Desired", doc(SPEC, "replicas")),
        integer("Current", doc(STATUS, "replicas")),
        integer("Ready", doc(STATUS, "readyReplicas")),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(SPEC, "selector")).wide(),
    ],
    |object, now| {
        let (names, images) = containers(object.at(&["spec", "template", "spec"]));
        cells![
            name(object),
            number(object, &["spec", "replicas"]),
            number(object, &["status", "replicas"]),
            number(object, &["status", "readyReplicas"]),
            created(object, now),
            names,
            images,
            labels(object.object_at(&["spec", "selector"])),
        ]
    },
);

pub(crate) const POD_TEMPLATE: Columns = Columns::new(
    &[
        NAME,
        string("Containers", text("Names of each container in the template.")),
        string("Images", text("Images referenced by each container in the template.")),
        string("Pod Labels", text("The labels for the pod template.")),
    ],
    |object, _| {
        let (names, images) = containers(object.at(&["template", "spec"]));
        cells![name(object), names, images, labels(object.object_at(&["template", "metadata", "labels"]))]
    },
);

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn replication_controllers() {
        let cases = [
            (value!({}), value!(["", 0i64, 0i64, 0i64, "<unknown>", "", "", "<none>"])),
            (
                value!({
                    "metadata": {"name": "a", "creationTimestamp": "2024-03-09T12:00:00Z"},
                    "spec": {
                        "replicas": 5i64,
                        "selector": {"a": "1", "b": "2"},
                        "template": {"spec": {"containers": [{"name": "c", "image": "i"}, {"name": "d", "image": "j"}]}},
                    },
                    "status": {"replicas": 3i64, "readyReplicas": 1i64},
                }),
                value!(["a", 5i64, 3i64, 1i64, "24h", "c,d", "i,j", "a=1,b=2"]),
            ),
        ];
        check_cells("", "ReplicationController", cases);
    }

    #[test]
    fn pod_templates() {
        let cases = [
            (value!({}), value!(["", "", "", "<none>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "template": {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
                }),
                value!(["a", "c", "i", "x=y"]),
            ),
        ];
        check_cells("", "PodTemplate", cases);
    }
}
