//! The deletion of finished Jobs a time after they have finished (`ttlSecondsAfterFinished`).

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_controllers::Objects;
use binnacle_fields::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{Status, Text, Time};
use binnacle_registry::object::is_deleting;
use binnacle_registry::{DeleteOptions, ListOptions};
use binnacle_schema::Value;
use binnacle_watchcache::Entry;

use crate::changes::{Position, Receiver, follow};
use crate::context::ClusterContext;
use crate::outcome::Outcome;
use crate::queue::Queue;

pub(crate) const NAME: &str = "ttl-after-finished-controller";
const WORKERS: usize = 5;

struct Controller {
    jobs: Objects,
    /// Namespaces and names.
    queue: Queue<(Text, Text)>,
}

pub(crate) async fn run(context: ClusterContext) {
    let Ok(jobs) = context.objects(NAME, ("batch", "v1", "jobs")) else { return };
    let controller = Controller { jobs, queue: Queue::new(context.queues.queue("ttl_jobs_to_delete")) };
    let ClusterContext { leadership, shutdown, .. } = &context;
    let (position, all) = (Position::default(), ListOptions::default());
    tokio::join!(
        follow(controller.jobs.resource(), &all, &controller, &position, shutdown),
        controller.queue.work(NAME, WORKERS, leadership, shutdown, |(namespace, name)| {
            let controller = &controller;
            async move { controller.sync(&namespace, &name).await.unwrap_or_else(Outcome::Failed) }
        }),
    );
}

impl Receiver for Controller {
    fn changed(&self, _: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(entry) = new else { return };
        let Ok(job) = self.jobs.decode(entry) else { return };
        // The lease is not needed before the time has come.
        if let Some(rest) = time_left(&job, SystemTime::now()) {
            self.queue.add_after((entry.namespace().into(), entry.name().into()), rest);
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {}
}

impl Controller {
    async fn sync(&self, namespace: &str, name: &str) -> Result<Outcome, Status> {
        let Some(job) = self.jobs.get(namespace, name).await? else { return Ok(Outcome::Done) };
        match time_left(&job, SystemTime::now()) {
            None => return Ok(Outcome::Done),
            Some(rest) if !rest.is_zero() => return Ok(Outcome::After(rest)),
            Some(_) => {}
        }
        let options = DeleteOptions {
            uid: Some(metadata(&job).at(ObjectMeta::UID).str().into()),
            propagation_policy: Some("Foreground".into()),
            has_preconditions: true,
            ..DeleteOptions::default()
        };
        self.jobs.delete_with(namespace, name, &options).await.map(|()| Outcome::Done)
    }
}

/// Returns the time after which a Job is to be deleted; `None` if it has not finished or is kept.
fn time_left(job: &Value, now: SystemTime) -> Option<Duration> {
    if is_deleting(job) {
        return None;
    }
    let job = FieldRef::<Job>::root(job);
    let kept = job.at(Job::SPEC).at(JobSpec::TTL_SECONDS_AFTER_FINISHED).int()?;
    let status = job.at(Job::STATUS);
    let conditions = status.at(JobStatus::CONDITIONS);
    let finished = conditions.list().iter().find_map(|condition| {
        let condition = FieldRef::<JobCondition>::root(condition);
        let ends = ["Complete", "Failed"].contains(&condition.at(JobCondition::TYPE).str());
        let is_true = condition.at(JobCondition::STATUS).str() == "True";
        (ends && is_true).then(|| Time::parse(condition.at(JobCondition::LAST_TRANSITION_TIME).str()).ok())
    })??;
    let expires = u64::try_from(finished.unix_seconds().saturating_add(kept)).unwrap_or(0);
    let expires = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(expires))?;
    Some(expires.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn only_finished_jobs_with_a_time_to_live_expire() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let finished = |kind: &str, status: &str| {
            value!({"spec": {"ttlSecondsAfterFinished": 10i64}, "status": {"conditions": [
                {"type": kind, "status": status, "lastTransitionTime": "1970-01-01T00:01:40Z"}]}})
        };
        let mut deleted = finished("Complete", "True");
        deleted.make_at(&["metadata"]).insert("deletionTimestamp", "1970-01-01T00:00:00Z");
        for (job, now, want) in [
            (finished("Complete", "True"), 100, Some(10)),
            (finished("Failed", "True"), 105, Some(5)),
            (finished("Failed", "True"), 200, Some(0)),
            (finished("Complete", "False"), 200, None),
            (finished("Suspended", "True"), 200, None),
            (value!({"spec": {"ttlSecondsAfterFinished": 10i64}}), 200, None),
            (deleted, 200, None),
        ] {
            assert_eq!(time_left(&job, at(now)), want.map(Duration::from_secs), "{job:?}");
        }
    }
}
