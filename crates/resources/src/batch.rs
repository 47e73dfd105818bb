//! `batch`: pods that run to completion, once or on a schedule.

use crate::description::{GarbageCollection, GroupDescription, SubresourceDescription, VersionDescription, namespaced};
use crate::fields::{FieldLabels, NAME as METADATA_NAME, NAMESPACE, SelectableField, UnknownLabel, int};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 17400,
    versions: &[VersionDescription {
        version: "v1",
        priority: 15,
        served_by_default: true,
        resources: &[
            namespaced!(NAME, "v1", "cronjobs", "cronjob", "CronJob")
                .short(&["cj"])
                .categories(&["all"])
                .garbage_collection(GarbageCollection::DeleteDependents)
                .resets(&["status"])
                .subresources(STATUS)
                .since(21),
            namespaced!(NAME, "v1", "jobs", "job", "Job")
                .categories(&["all"])
                .selectable(JOB_FIELDS, JOB_LABELS)
                .garbage_collection(GarbageCollection::OrphanDependents)
                .resets(&["status"])
                .subresources(STATUS)
                .since(2),
        ],
    }],
};

const NAME: &str = "batch";

const STATUS: &[SubresourceDescription] = &[SubresourceDescription::status(&["spec"])];

const JOB_FIELDS: &[SelectableField] = &[METADATA_NAME, NAMESPACE, int("status.successful", &["status", "succeeded"])];

const JOB_LABELS: FieldLabels = FieldLabels {
    labels: &[
        ("metadata.name", "metadata.name"),
        ("metadata.namespace", "metadata.namespace"),
        ("status.successful", "status.successful"),
    ],
    unknown: UnknownLabel::QuotedNotSupportedFor("Job"),
};
