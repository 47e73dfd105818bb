//! `batch`: pods that run to completion, once or on a schedule.

use binnacle_fields::batch::v1::{Job, JobStatus};
use binnacle_scheme::fields::{FieldLabels, NAME as METADATA_NAME, NAMESPACE, SelectableField, UnknownLabel, int};
use binnacle_scheme::{
    GarbageCollection, GroupDescription, SubresourceDescription, VersionDescription, namespaced, shared,
};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17400,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![
                namespaced!(NAME, "v1", "cronjobs", "cronjob", "CronJob")
                    .short(&["cj"])
                    .categories(&["all"])
                    .garbage_collection(GarbageCollection::DeleteDependents)
                    .resets(&["status"])
                    .subresources(status())
                    .since(21),
                namespaced!(NAME, "v1", "jobs", "job", "Job")
                    .categories(&["all"])
                    .selectable(JOB_FIELDS, JOB_LABELS)
                    .garbage_collection(GarbageCollection::OrphanDependents)
                    .resets(&["status"])
                    .subresources(status())
                    .since(2),
            ],
        }],
    }
}

const NAME: &str = "batch";

fn status() -> Vec<SubresourceDescription> {
    vec![SubresourceDescription::status(&["spec"])]
}

const JOB_FIELDS: &[SelectableField] =
    &[METADATA_NAME, NAMESPACE, int("status.successful", path![Job::STATUS, JobStatus::SUCCEEDED])];

const JOB_LABELS: FieldLabels = FieldLabels::new(
    &[
        ("metadata.name", "metadata.name"),
        ("metadata.namespace", "metadata.namespace"),
        ("status.successful", "status.successful"),
    ],
    UnknownLabel::QuotedNotSupportedFor("Job"),
);
