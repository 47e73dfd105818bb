//! The batch group.

use binnacle_schema::Value;

use crate::columns::{Cells, Columns, Kind, boolean, cells, definitions, doc, integer, string, text};
use crate::format::{CONTAINERS, IMAGES, NONE, UNSET, condition, containers, is_true, pointer_or};
use crate::metadata::{AGE, NAME, created, deleting, name, number};
use crate::selector::label_selector;
use crate::{Now, age};

pub(crate) const KINDS: &[Kind] = &[("CronJob", &CRON_JOB), ("Job", &JOB)];

definitions!("io.k8s.api.batch.v1":
    CRON_JOB_SPEC = "CronJobSpec",
    CRON_JOB_STATUS = "CronJobStatus",
    JOB_SPEC = "JobSpec",
    JOB_STATUS = "JobStatus",
);

const CRON_JOB: Columns = Columns::new(
    &[
        NAME,
        string("Schedule", doc(CRON_JOB_SPEC, "schedule")),
        string("Timezone", doc(CRON_JOB_SPEC, "timeZone")),
        boolean("Suspend", doc(CRON_JOB_SPEC, "suspend")),
        integer("Active", doc(CRON_JOB_STATUS, "active")),
        string("Last Schedule", doc(CRON_JOB_STATUS, "lastScheduleTime")),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(JOB_SPEC, "selector")).wide(),
    ],
    cron_job,
);

const JOB: Columns = Columns::new(
    &[
        NAME,
        string("Status", text("Status of the job.")),
        string("Completions", doc(JOB_STATUS, "succeeded")),
        string("Duration", text("Time required to complete the job.")),
        AGE,
        CONTAINERS,
        IMAGES,
        string("Selector", doc(JOB_SPEC, "selector")).wide(),
    ],
    job,
);

fn cron_job(object: &Value, now: Now) -> Cells {
    let last_schedule = match object.at(&["status", "lastScheduleTime"]) {
        None | Some(Value::Null) => NONE.into(),
        time => age(time, now),
    };
    // The column is declared as boolean, but the cell is a string.
    let suspend = match object.at(&["spec", "suspend"]).and_then(Value::as_bool) {
        Some(true) => "True",
        Some(false) => "False",
        None => UNSET,
    };
    let (names, images) = containers(object.at(&["spec", "jobTemplate", "spec", "template", "spec"]));
    cells![
        name(object),
        object.str_at(&["spec", "schedule"]),
        pointer_or(object, &["spec", "timeZone"], NONE),
        suspend,
        object.list_at(&["status", "active"]).len() as i64,
        last_schedule,
        created(object, now),
        names,
        images,
        label_selector(object.at(&["spec", "jobTemplate", "spec", "selector"])),
    ]
}

fn job(object: &Value, now: Now) -> Cells {
    let (names, images) = containers(object.at(&["spec", "template", "spec"]));
    cells![
        name(object),
        status(object),
        completions(object),
        duration(object, now),
        created(object, now),
        names,
        images,
        label_selector(object.at(&["spec", "selector"])),
    ]
}

fn status(job: &Value) -> &'static str {
    let is = |type_| condition(job, &["status", "conditions"], type_).is_some_and(is_true);
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

fn completions(job: &Value) -> String {
    let succeeded = number(job, &["status", "succeeded"]);
    match (job.int_at(&["spec", "completions"]), number(job, &["spec", "parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        // A work queue: one success is enough, whatever the number of pods.
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

/// Returns the duration of a job, until now if it still runs; empty before it starts.
fn duration(job: &Value, now: Now) -> String {
    let time = |member| age::parse(job.at(&["status", member]));
    match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), None) => age::since(start, now),
        (Some(start), Some(end)) => age::between(start, end),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    #[test]
    fn cron_jobs() {
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
    fn jobs() {
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
    fn job_statuses() {
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
            assert_eq!(status(&job), want);
        }
    }
}
