//! `events.k8s.io`: the newer form of events; the objects are those of the core group, and so is their storage.

use crate::core::{EVENT_FIELDS, EVENT_STORAGE};
use crate::description::{GarbageCollection, GroupDescription, VersionDescription, namespaced};
use crate::fields::{FieldLabels, UnknownLabel};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 17750,
    versions: &[VersionDescription {
        version: "v1",
        priority: 15,
        served_by_default: true,
        resources: &[namespaced!(NAME, "v1", "events", "event", "Event")
            .short(&["ev"])
            .stored_as(EVENT_STORAGE)
            .selectable(EVENT_FIELDS, LABELS)
            .create_on_update()
            .garbage_collection(GarbageCollection::Unsupported)
            .since(19)],
    }],
};

const NAME: &str = "events.k8s.io";

const LABELS: FieldLabels = FieldLabels {
    labels: &[
        ("reason", "reason"),
        ("regarding.kind", "involvedObject.kind"),
        ("regarding.namespace", "involvedObject.namespace"),
        ("regarding.name", "involvedObject.name"),
        ("regarding.uid", "involvedObject.uid"),
        ("regarding.apiVersion", "involvedObject.apiVersion"),
        ("regarding.resourceVersion", "involvedObject.resourceVersion"),
        ("regarding.fieldPath", "involvedObject.fieldPath"),
        ("reportingController", "reportingComponent"),
        ("type", "type"),
        ("metadata.namespace", "metadata.namespace"),
        ("metadata.name", "metadata.name"),
    ],
    unknown: UnknownLabel::NotSupported,
};
