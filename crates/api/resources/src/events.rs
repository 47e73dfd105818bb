//! `events.k8s.io`: the newer version of events, which share objects and storage with the core group.

use crate::core::{EVENT_FIELDS, EVENT_STORAGE};
use binnacle_scheme::fields::{FieldLabels, UnknownLabel};
use binnacle_scheme::{GarbageCollection, GroupDescription, VersionDescription, namespaced, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17750,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![
                namespaced!(NAME, "v1", "events", "event", "Event")
                    .short(&["ev"])
                    .stored_as(EVENT_STORAGE)
                    .selectable(EVENT_FIELDS, LABELS)
                    .create_on_update()
                    .garbage_collection(GarbageCollection::Unsupported)
                    .since(19)
            ],
        }],
    }
}

const NAME: &str = "events.k8s.io";

const LABELS: FieldLabels = FieldLabels::new(
    &[
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
    UnknownLabel::NotSupported,
);
