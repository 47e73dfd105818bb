//! The `Available` condition of APIServices: always true for local ones; for others, their service is checked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_controllers::{ChangeWatcher, Changes, Objects, RETRY_FIRST};
use binnacle_fields::apiregistration::v1::{
    APIService, APIServiceCondition as ConditionFields, APIServiceStatus as StatusFields,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{LabelSelector, Operator, Requirement, Status, StatusReason, Text};
use binnacle_registry::{Match, rfc3339};
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_schema::{Value, value};
use binnacle_supervise::supervise;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::State;
use super::checks::{self, Condition, ServiceReference};
use super::{GROUP, PLURAL, VERSION};

/// The maximum pause before an unreachable server is checked again, and the pause for a reachable one, since a server
/// can become unreachable without a change of any object.
const RECHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Updates the condition of each APIService when it changes.
pub(super) fn watch(state: Arc<State>, done: watch::Sender<bool>, shutdown: Shutdown) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Ok(objects) = Objects::new(&state.resources, GROUP, VERSION, PLURAL) else { return };
        let mut changes = ChangeWatcher::all(objects.resource());
        let mut remotes = Remotes::default();
        let queue = state.queues.queue("LocalAvailabilityController");
        state.queues.queue("RemoteAvailabilityController");
        let mut failed: Vec<Text> = Vec::new();
        loop {
            let changed = tokio::select! {
                changed = changes.changed() => changed,
                () = tokio::time::sleep(RETRY_FIRST), if !failed.is_empty() => Changes::Named(Vec::new()),
                () = shutdown.fired() => return,
            };
            let all = match changed {
                Changes::Anything => {
                    let all = objects.list_as("", Match::Any).await;
                    if let Ok(all) = &all {
                        remotes.retain(all);
                    }
                    all
                }
                Changes::Named(mut names) => {
                    names.append(&mut failed);
                    names.sort_unstable();
                    names.dedup();
                    read_named(&state, &objects, &names, &mut remotes).await
                }
            };
            let Ok(all) = all else {
                changes = ChangeWatcher::all(objects.resource());
                tokio::time::sleep(RETRY_FIRST).await;
                continue;
            };
            for (object, item) in all.iter().zip(queue.add_all(all.len())) {
                let _item = item.begin();
                let name = Text::new(name_of(object));
                match ServiceReference::of(object) {
                    Some(service) => remotes.start_or_notify(&state, object, name, service),
                    None => {
                        remotes.forget(&name);
                        if let Err(status) = update_condition(&state, &objects, object, &Condition::LOCAL).await {
                            tracing::warn!(api_service = %name, error = status.message(), "sync failed, retrying");
                            queue.retry(1);
                            failed.push(name);
                        }
                    }
                }
            }
            done.send_replace(true);
        }
    })
}

/// Reads the APIServices with these names, and ends the tasks of deleted ones.
async fn read_named(
    state: &State,
    objects: &Objects,
    names: &[Text],
    remotes: &mut Remotes,
) -> Result<Vec<Value>, Status> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match read(objects, "", name).await? {
            Some(object) => found.push(object),
            None => {
                remotes.forget(name);
                if let Some(metrics) = &state.metrics {
                    metrics.forget(name);
                }
            }
        }
    }
    Ok(found)
}

/// Reads an object from the cache; `None` if it does not exist.
async fn read(objects: &Objects, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
    let context = binnacle_registry::Context::internal(namespace);
    objects.resource().find_object(&context, name, Match::Any).await
}

/// The tasks that check the APIServices of remote servers, one per APIService. Dropping this value ends them.
#[derive(Default)]
struct Remotes {
    by_name: HashMap<Text, Remote>,
    tasks: JoinSet<()>,
}

struct Remote {
    service: ServiceReference,
    spec: Value,
    changes: Arc<ChangeSignals>,
    task: tokio::task::AbortHandle,
}

/// Signals of changes to an APIService.
#[derive(Default)]
struct ChangeSignals {
    spec: Notify,
    /// Changes of its status or metadata.
    other: Notify,
}

impl Remotes {
    fn start_or_notify(&mut self, state: &Arc<State>, object: &Value, name: Text, service: ServiceReference) {
        // Tasks end only with their APIService. This collects the results of tasks that have ended.
        while self.tasks.try_join_next().is_some() {}
        let spec = FieldRef::<APIService>::root(object).at(APIService::SPEC).value().clone();
        if let Some(entry) = self.by_name.get_mut(&name)
            && entry.service == service
        {
            if entry.spec == spec {
                entry.changes.other.notify_one();
            } else {
                entry.spec = spec;
                entry.changes.spec.notify_one();
            }
            return;
        }
        self.forget(&name);
        let changes = Arc::new(ChangeSignals::default());
        let checks_task = {
            let (state, name, service, changes) = (state.clone(), name.clone(), service.clone(), changes.clone());
            supervise("APIService availability", move || {
                run_checks(state.clone(), name.clone(), service.clone(), changes.clone())
            })
        };
        let task = self.tasks.spawn(checks_task);
        self.by_name.insert(name, Remote { service, spec, changes, task });
    }

    /// Ends the tasks of APIServices that are not in `all`.
    fn retain(&mut self, all: &[Value]) {
        let current: HashSet<&str> = all.iter().map(name_of).collect();
        self.by_name.retain(|name, remote| {
            let exists = current.contains(name.as_str());
            if !exists {
                remote.task.abort();
            }
            exists
        });
    }

    fn forget(&mut self, name: &str) {
        if let Some(remote) = self.by_name.remove(name) {
            remote.task.abort();
        }
    }
}

/// Checks an APIService at intervals, and when it, its service or the endpoints of the service change.
async fn run_checks(state: Arc<State>, name: Text, service: ServiceReference, changes: Arc<ChangeSignals>) {
    let Ok(check) = Check::new(&state, name, service) else { return };
    let is_possible = check.reference.is_possible();
    let mut service_changes =
        ChangeWatcher::one(check.services.resource(), &check.reference.namespace, &check.reference.name);
    let mut slice_changes =
        ChangeWatcher::labelled(check.slices.resource(), &check.reference.namespace, check.labels.clone());
    let mut retry = RETRY_FIRST;
    let mut history = VerdictHistory::default();
    let queue = state.queues.queue("RemoteAvailabilityController");
    loop {
        let item = queue.add().begin();
        let outcome = check.run(&state, &mut history).await;
        drop(item);
        let pause = match outcome {
            Ok(Outcome::Final) => None,
            Ok(Outcome::Responded) => {
                retry = RETRY_FIRST;
                Some(RECHECK_INTERVAL)
            }
            Ok(Outcome::Unresponsive) => {
                queue.retry(1);
                retry = (retry * 2).min(RECHECK_INTERVAL);
                Some(retry)
            }
            Err(status) => {
                tracing::warn!(api_service = %check.name, error = status.message(), "availability check failed");
                queue.retry(1);
                retry = (retry * 2).min(RECHECK_INTERVAL);
                Some(retry)
            }
        };
        let mut due = pause.map(|pause| Instant::now() + pause);
        loop {
            tokio::select! {
                _ = service_changes.changed(), if is_possible => break,
                _ = slice_changes.changed(), if is_possible => break,
                () = changes.spec.notified() => break,
                () = changes.other.notified() => match check.is_contradicted(&history).await {
                    Ok(false) => {}
                    Ok(true) => due = Some(Instant::now() + history.record_contradiction(Instant::now())),
                    Err(_) => due = Some(Instant::now() + RETRY_FIRST),
                },
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => break,
            }
        }
    }
}

/// The result of a check.
enum Outcome {
    /// Objects alone determine the condition, and their changes are watched.
    Final,
    /// The server responded.
    Responded,
    /// The server did not respond.
    Unresponsive,
}

/// The check of one APIService.
struct Check {
    name: Text,
    reference: ServiceReference,
    objects: Objects,
    services: Objects,
    slices: Objects,
    /// Selects the slices of the service.
    labels: LabelSelector,
}

impl Check {
    fn new(state: &State, name: Text, reference: ServiceReference) -> Result<Self, Status> {
        let find = |group, plural| Objects::new(&state.resources, group, "v1", plural);
        // No service or slice can have another name, and neither keys nor labels can contain one.
        let of_service = vec![if reference.is_possible() { reference.name.clone() } else { Text::default() }];
        let label = Requirement::new("kubernetes.io/service-name", Operator::Equals, of_service);
        let label = label.map_err(|error| Status::bad_request(error.to_string()))?;
        Ok(Self {
            name,
            objects: find(GROUP, PLURAL)?,
            services: find("", "services")?,
            slices: find("discovery.k8s.io", "endpointslices")?,
            labels: LabelSelector::new(vec![label]),
            reference,
        })
    }

    async fn run(&self, state: &State, history: &mut VerdictHistory) -> Result<Outcome, Status> {
        // The task ends when the APIService is deleted.
        let Some(object) = read(&self.objects, "", &self.name).await? else { return Ok(Outcome::Final) };
        let (service, slices) = match self.reference.is_possible() {
            true => {
                let service = read(&self.services, &self.reference.namespace, &self.reference.name).await?;
                (service, checks::slices(&self.slices, &self.reference.namespace, &self.labels).await?)
            }
            false => (None, Vec::new()),
        };
        if let Some(condition) = checks::of_service(&self.reference, service.as_ref(), &slices) {
            update_condition(state, &self.objects, &object, &condition).await?;
            history.verdict = Some(condition);
            return Ok(Outcome::Final);
        }
        let condition = match checks::of_server(state.servers.as_deref(), &object).await {
            Ok(condition) => condition,
            Err(why) => {
                tracing::warn!(api_service = %self.name, why, "failed to reach aggregated API server");
                return Ok(Outcome::Unresponsive);
            }
        };
        let outcome = if condition.status == "True" { Outcome::Responded } else { Outcome::Unresponsive };
        update_condition(state, &self.objects, &object, &condition).await?;
        history.verdict = Some(condition);
        Ok(outcome)
    }

    /// Reports whether someone has replaced the condition by another.
    async fn is_contradicted(&self, history: &VerdictHistory) -> Result<bool, Status> {
        let Some(verdict) = &history.verdict else { return Ok(false) };
        let object = read(&self.objects, "", &self.name).await?;
        Ok(object.is_some_and(|object| !verdict.is_reported_by(&object)))
    }
}

/// The verdict of this server about an APIService, and how often another server has contradicted it.
///
/// Servers may disagree, for example if one of them has no route to the APIService's server. If each corrected the
/// other immediately, they would write forever. So a server waits longer before each correction. A server that cannot
/// reach the APIService's server waits longest, because it is better to serve requests where that is possible than to
/// refuse them everywhere.
#[derive(Default)]
struct VerdictHistory {
    verdict: Option<Condition>,
    contradictions: u32,
    last: Option<Instant>,
}

impl VerdictHistory {
    /// The time without a contradiction after which the count restarts.
    const RESET_AFTER: Duration = Duration::from_secs(120);

    /// Records a contradiction, and returns the pause before the correction.
    fn record_contradiction(&mut self, now: Instant) -> Duration {
        if self.last.is_some_and(|last| now.duration_since(last) > Self::RESET_AFTER) {
            self.contradictions = 0;
        }
        self.last = Some(now);
        let (first, longest) = match &self.verdict {
            Some(verdict) if verdict.status == "True" => (RETRY_FIRST, Duration::from_secs(5)),
            _ => (Duration::from_secs(1), RECHECK_INTERVAL),
        };
        let pause = first * 2u32.pow(self.contradictions.min(16));
        self.contradictions += 1;
        pause.min(longest)
    }
}

/// Writes the condition, unless the object already has it.
async fn update_condition(
    state: &State,
    objects: &Objects,
    object: &Value,
    condition: &Condition,
) -> Result<(), Status> {
    let metrics = state.metrics.as_ref();
    if let Some(metrics) = metrics {
        metrics.set_availability(name_of(object), condition);
    }
    if condition.is_reported_by(object) {
        return Ok(());
    }
    let uid = metadata(object).at(ObjectMeta::UID).str();
    let updated = objects.update("", name_of(object), "status", |object| {
        // A new object of the same name may have another service.
        if metadata(object).at(ObjectMeta::UID).str() == uid {
            set(object, condition);
        }
    });
    match updated.await {
        Err(status) if status.is(StatusReason::NotFound) => Ok(()),
        Ok(()) => {
            if let Some(metrics) = metrics {
                metrics.count_transition(object, condition);
            }
            Ok(())
        }
        failed => failed,
    }
}

fn name_of(object: &Value) -> &str {
    metadata(object).at(ObjectMeta::NAME).str()
}

fn set(object: &mut Value, condition: &Condition) {
    let now = rfc3339(SystemTime::now());
    let mut status = FieldMut::<APIService>::root(object).into_entry(APIService::STATUS);
    let mut conditions = status.items(StatusFields::CONDITIONS);
    let Some(mut current) = conditions.find(|current| current.str(ConditionFields::TYPE) == "Available") else {
        drop(conditions);
        let condition = value!({
            "type": "Available", "status": (condition.status), "lastTransitionTime": now,
            "reason": (condition.reason.clone()), "message": (condition.message.clone())
        });
        let all = [status.read().at(StatusFields::CONDITIONS).list(), &[condition]].concat();
        status.set(StatusFields::CONDITIONS, all);
        return;
    };
    if current.get(ConditionFields::STATUS).as_str() != Some(condition.status) {
        current.set(ConditionFields::STATUS, condition.status);
        current.set(ConditionFields::LAST_TRANSITION_TIME, now);
    }
    current.set(ConditionFields::REASON, condition.reason.clone());
    current.set(ConditionFields::MESSAGE, condition.message.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrections_back_off() {
        let after = |status: &'static str, times: usize, apart: Duration| {
            let condition = Condition { status, ..Condition::LOCAL };
            let mut history = VerdictHistory { verdict: Some(condition), ..VerdictHistory::default() };
            let begin = Instant::now();
            let pauses = (0..times).map(|n| history.record_contradiction(begin + apart * n as u32));
            pauses.last().unwrap_or_default()
        };
        let second = Duration::from_secs(1);
        for (status, times, apart, want) in [
            ("True", 1, second, Duration::from_millis(100)),
            ("True", 3, second, Duration::from_millis(400)),
            ("True", 100, second, 5 * second),
            ("False", 1, second, second),
            ("False", 3, second, 4 * second),
            ("False", 100, second, 30 * second),
            // The count restarts.
            ("False", 100, 121 * second, second),
        ] {
            assert_eq!(after(status, times, apart), want, "{status} {times}");
        }
    }
}
