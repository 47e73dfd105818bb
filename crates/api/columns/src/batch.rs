//! The batch group.

use binnacle_fields::FieldRef;
use binnacle_fields::batch::v1::{CronJob, CronJobSpec, CronJobStatus, Job, JobSpec, JobStatus, JobTemplateSpec};

use crate::Now;
use crate::age::{self, age_of};
use crate::columns::{Cells, Columns, Kind, boolean, cells, doc, integer, string, text};
use crate::format::{CONTAINERS, IMAGES, NONE, UNSET, condition, containers, is_true};
use crate::metadata::{AGE, NAME, created, deleting, name};
use crate::selector::label_selector;

pub(crate) const KINDS: &[Kind] = &[("CronJob", &CRON_JOB), ("Job", &JOB)];

const CRON_JOB: Columns = Columns::new(
    &[
        NAME,
        string("Schedule", doc(CronJobSpec::SCHEDULE)),
        string("Timezone", doc(CronJobSpec::TIME_ZONE)),
        boolean("Suspend", doc(CronJobSpec::SUSPEND)),
        integer("Active", doc(CronJobStatus::ACTIVE)),
        string("Last Schedule", doc(CronJobStatus::LAST_SCHEDULE_TIME)),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(JobSpec::SELECTOR)).wide(),
    ],
    |object, now| cron_job(FieldRef::root(object), now),
);

const JOB: Columns = Columns::new(
    &[
        NAME,
        string("Status", text("Status of the job.")),
        string("Completions", doc(JobStatus::SUCCEEDED)),
        string("Duration", text("Time required to complete the job.")),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(JobSpec::SELECTOR)).wide(),
    ],
    |object, now| job(FieldRef::root(object), now),
);

fn cron_job(cron_job: FieldRef<CronJob>, now: Now) -> Cells {
    let (spec, status) = (cron_job.at(CronJob::SPEC), cron_job.at(CronJob::STATUS));
    let last_schedule = match status.at(CronJobStatus::LAST_SCHEDULE_TIME).set() {
        None => NONE.into(),
        Some(time) => age_of(time, now),
    };
    // The column is declared as boolean, but the cell is a string.
    let suspend = match spec.at(CronJobSpec::SUSPEND).get_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let template = spec.at(CronJobSpec::JOB_TEMPLATE);
    let job_spec = template.at(JobTemplateSpec::SPEC);
    let (names, images) = containers(job_spec.at(JobSpec::TEMPLATE));
    cells![
        name(cron_job),
        spec.at(CronJobSpec::SCHEDULE).str(),
        spec.at(CronJobSpec::TIME_ZONE).get_str().unwrap_or(NONE),
        suspend,
        status.at(CronJobStatus::ACTIVE).len() as i64,
        last_schedule,
        created(cron_job, now),
        names,
        images,
        label_selector(job_spec.at(JobSpec::SELECTOR)),
    ]
}

fn job(job: FieldRef<Job>, now: Now) -> Cells {
    let spec = job.at(Job::SPEC);
    let (names, images) = containers(spec.at(JobSpec::TEMPLATE));
    cells![
        name(job),
        status(job),
        completions(job),
        duration(job, now),
        created(job, now),
        names,
        images,
        label_selector(spec.at(JobSpec::SELECTOR)),
    ]
}

fn status(job: FieldRef<Job>) -> &'static str {
    let status = job.at(Job::STATUS);
    let conditions = status.at(JobStatus::CONDITIONS);
    let is = |type_| condition(&conditions, type_).is_some_and(is_true);
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if deleting(job) => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: FieldRef<Job>) -> String {
    let spec = job.at(Job::SPEC);
    let succeeded = job.at(Job::STATUS).at(JobStatus::SUCCEEDED).int_or_zero();
    match (spec.at(JobSpec::COMPLETIONS).int(), spec.at(JobSpec::PARALLELISM).int_or_zero()) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        // A work queue: one success is enough, whatever the number of pods.
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

/// Returns the duration of a job, until now if it still runs; empty before it starts.
fn duration(job: FieldRef<Job>, now: Now) -> String {
    let status = job.at(Job::STATUS);
    let time = |field| age::time_of(status.at(field));
    match (time(JobStatus::START_TIME), time(JobStatus::COMPLETION_TIME)) {
        (None, _) => String::new(),
        (Some(start), None) => age::since(start, now),
        (Some(start), Some(end)) => age::between(start, end),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;
    use crate::testing::check_cells;

    #[test]
    fn prints_cron_jobs() {
        let cases = [
            (value!({}), value!(["", "", "<none>", "<unset>", 0i64, "<none>", "<unknown>", "", "", "<none>"])),
            (
                value!({
                    "metadata": {"name": "a", "creationTimestamp": "2024-03-10T06:00:00Z"},
                    "spec": {
                        "schedule": "0 * * * *",
                        "timeZone": "Europe/Vienna",
                        "suspend": true,
                        "jobTemplate": {"spec": {
                            "selector": {"matchLabels": {"a": "b"}},
                            "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                        }},
                    },
                    "status": {"active": [{}, {}], "lastScheduleTime": "2024-03-10T11:00:00Z"},
                }),
                value!(["a", "0 * * * *", "Europe/Vienna", "True", 2i64, "60m", "6h", "c", "i", "a=b"]),
            ),
            (
                value!({"spec": {"suspend": false}, "status": {"lastScheduleTime": null}}),
                value!(["", "", "<none>", "False", 0i64, "<none>", "<unknown>", "", "", "<none>"]),
            ),
        ];
        check_cells("batch", "CronJob", cases);
    }

    #[test]
    fn prints_jobs() {
        let cases = [
            (value!({}), value!(["", "Running", "0/1", "", "<unknown>", "", "", "<none>"])),
            (
                value!({
                    "metadata": {"name": "a", "creationTimestamp": "2024-03-10T11:00:00Z"},
                    "spec": {
                        "completions": 3i64,
                        "parallelism": 2i64,
                        "selector": {"matchLabels": {"a": "b"}},
                        "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}},
                    },
                    "status": {"succeeded": 1i64, "startTime": "2024-03-10T11:30:00Z"},
                }),
                value!(["a", "Running", "1/3", "30m", "60m", "c", "i", "a=b"]),
            ),
            (
                value!({
                    "spec": {"parallelism": 4i64},
                    "status": {
                        "succeeded": 1i64,
                        "startTime": "2024-03-10T11:30:00Z",
                        "completionTime": "2024-03-10T11:31:10Z",
                        "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}],
                    },
                }),
                value!(["", "Complete", "1/1 of 4", "70s", "<unknown>", "", "", "<none>"]),
            ),
        ];
        check_cells("batch", "Job", cases);
    }

    #[test]
    fn computes_job_statuses() {
        let cases = [
            (&[("Complete", "True"), ("Failed", "True")][..], false, "Complete"),
            (&[("Complete", "False"), ("Failed", "True")], true, "Failed"),
            (&[("Suspended", "True")], true, "Terminating"),
            (&[("Suspended", "True"), ("FailureTarget", "True")], false, "Suspended"),
            (&[("FailureTarget", "True"), ("SuccessCriteriaMet", "True")], false, "FailureTarget"),
            (&[("SuccessCriteriaMet", "True")], false, "SuccessCriteriaMet"),
            (&[("Complete", "False"), ("Complete", "True")], false, "Running"),
        ];
        for (conditions, deleted, want) in cases {
            let conditions: Vec<Value> =
                conditions.iter().map(|&(type_, status)| value!({"type": type_, "status": status})).collect();
            let mut job = value!({"status": {"conditions": conditions}});
            if deleted {
                job.make_at(&["metadata"]).insert("deletionTimestamp", "2024-03-10T11:31:10Z");
            }
            assert_eq!(status(FieldRef::root(&job)), want);
        }
    }
}
