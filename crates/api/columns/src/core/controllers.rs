//! ReplicationController and PodTemplate.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    PodTemplate, PodTemplateSpec, ReplicationController, ReplicationControllerSpec as Spec,
    ReplicationControllerStatus as Status,
};
use binnacle_fields::meta::v1::ObjectMeta;

use crate::columns::{Columns, cells, doc, integer, string, text};
use crate::format::{CONTAINERS, IMAGES, containers, labels};
use crate::metadata::{AGE, NAME, created, name};

pub(crate) const REPLICATION_CONTROLLER: Columns = Columns::new(
    &[
        NAME,
        integer("Desired", doc(Spec::REPLICAS)),
        integer("Current", doc(Status::REPLICAS)),
        integer("Ready", doc(Status::READY_REPLICAS)),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(Spec::SELECTOR)).wide(),
    ],
    |object, now| {
        let controller = FieldRef::<ReplicationController>::root(object);
        let (spec, status) = (controller.at(ReplicationController::SPEC), controller.at(ReplicationController::STATUS));
        let (names, images) = containers(spec.at(Spec::TEMPLATE));
        cells![
            name(controller),
            spec.at(Spec::REPLICAS).int_or_zero(),
            status.at(Status::REPLICAS).int_or_zero(),
            status.at(Status::READY_REPLICAS).int_or_zero(),
            created(controller, now),
            names,
            images,
            labels(spec.at(Spec::SELECTOR)),
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
        let object = FieldRef::<PodTemplate>::root(object);
        let template = object.at(PodTemplate::TEMPLATE);
        let (names, images) = containers(template);
        cells![name(object), names, images, labels(template.at(PodTemplateSpec::METADATA).at(ObjectMeta::LABELS))]
    },
);

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_replication_controllers() {
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
    fn prints_pod_templates() {
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
