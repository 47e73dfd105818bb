//! The `Available` condition of APIServices: always true for local ones; for others, the service is checked.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_meta::{LabelSelector, Operator, Requirement, Status, StatusReason, Text};
use binnacle_registry::{Match, rfc3339};
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_schema::{Value, value};
use binnacle_supervise::supervise;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::checks::{self, Condition, ServiceReference};
use super::{GROUP, PLURAL, VERSION};
use crate::follow::{Changed, Follow};
use crate::objects::Objects;
use crate::start::{RETRY_FIRST, Work};

/// The maximum pause before an unreachable server is checked again, and the pause for a reachable one: a server can
/// become unreachable without a change of any object.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// Updates the condition of each APIService when it changes.
pub(crate) fn follow(work: Arc<Work>, done: watch::Sender<bool>, shutdown: Shutdown) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Ok(objects) = Objects::new(&work.resources, GROUP, VERSION, PLURAL) else { return };
        let mut changes = Follow::all(objects.resource());
        let mut remotes = Remotes::default();
        let queue = work.config.queue("LocalAvailabilityController");
        work.config.queue("RemoteAvailabilityController");
        let mut again: Vec<Text> = Vec::new();
        loop {
            let changed = tokio::select! {
                changed = changes.changed() => changed,
                () = tokio::time::sleep(RETRY_FIRST), if !again.is_empty() => Changed::Named(Vec::new()),
                () = shutdown.fired() => return,
            };
            let all = match changed {
                Changed::Anything => {
                    let all = objects.list_as("", Match::Any).await;
                    if let Ok(all) = &all {
                        remotes.keep_only(all);
                    }
                    all
                }
                Changed::Named(mut names) => {
                    names.append(&mut again);
                    names.sort_unstable();
                    names.dedup();
                    look_at(&work, &objects, &names, &mut remotes).await
                }
            };
            let Ok(all) = all else {
                changes = Follow::all(objects.resource());
                tokio::time::sleep(RETRY_FIRST).await;
                continue;
            };
            for (object, item) in all.iter().zip(queue.add_all(all.len())) {
                let _item = item.begin();
                let name = Text::new(object.str_at(&["metadata", "name"]));
                match ServiceReference::of(object) {
                    Some(service) => remotes.see(&work, name, service),
                    None => {
                        remotes.forget(&name);
                        if let Err(status) = tell(&work, &objects, object, &Condition::LOCAL).await {
                            tracing::warn!(api_service = %name, error = status.message(), "will be tried again");
                            queue.retry(1);
                            again.push(name);
                        }
                    }
                }
            }
            done.send_replace(true);
        }
    })
}

/// Checks the APIServices of these names, and ends the tasks of deleted ones.
async fn look_at(work: &Work, objects: &Objects, names: &[Text], remotes: &mut Remotes) -> Result<Vec<Value>, Status> {
    let mut found = Vec::with_capacity(names.len());
    for name in names {
        match read(objects, "", name).await? {
            Some(object) => found.push(object),
            None => {
                remotes.forget(name);
                if let Some(metrics) = &work.config.availability {
                    metrics.forget(name);
                }
            }
        }
    }
    Ok(found)
}

/// Returns the cached object.
async fn read(objects: &Objects, namespace: &str, name: &str) -> Result<Option<Value>, Status> {
    let context = binnacle_registry::Context::internal(namespace);
    match objects.resource().get_object(&context, name, Match::Any).await {
        Ok(stored) => Ok(Some(stored.object)),
        Err(status) if status.is(StatusReason::NotFound) => Ok(None),
        Err(status) => Err(status),
    }
}

/// The tasks that check the APIServices of other servers, one task for each. They end when this value is dropped.
#[derive(Default)]
struct Remotes {
    by_name: HashMap<Text, Remote>,
    tasks: JoinSet<()>,
}

struct Remote {
    service: ServiceReference,
    /// Notified when the APIService has changed.
    changed: Arc<Notify>,
    task: tokio::task::AbortHandle,
}

impl Remotes {
    fn see(&mut self, work: &Arc<Work>, name: Text, service: ServiceReference) {
        // Tasks end only with their APIService; the results of ended ones are collected here.
        while self.tasks.try_join_next().is_some() {}
        if let Some(known) = self.by_name.get(&name)
            && known.service == service
        {
            known.changed.notify_one();
            return;
        }
        self.forget(&name);
        let changed = Arc::new(Notify::new());
        let watching = {
            let (work, name, service, changed) = (work.clone(), name.clone(), service.clone(), changed.clone());
            supervise("APIService availability", move || {
                watch_over(work.clone(), name.clone(), service.clone(), changed.clone())
            })
        };
        let task = self.tasks.spawn(watching);
        self.by_name.insert(name, Remote { service, changed, task });
    }

    /// Ends the tasks of APIServices that are not in `all`.
    fn keep_only(&mut self, all: &[Value]) {
        let there: HashSet<&str> = all.iter().map(|object| object.str_at(&["metadata", "name"])).collect();
        self.by_name.retain(|name, remote| {
            let stays = there.contains(name.as_str());
            if !stays {
                remote.task.abort();
            }
            stays
        });
    }

    fn forget(&mut self, name: &str) {
        if let Some(remote) = self.by_name.remove(name) {
            remote.task.abort();
        }
    }
}

/// Checks an APIService when it, its service or the service's endpoints change, and at intervals.
async fn watch_over(work: Arc<Work>, name: Text, service: ServiceReference, changed: Arc<Notify>) {
    let find = |group, plural| Objects::new(&work.resources, group, "v1", plural);
    let (Ok(objects), Ok(services), Ok(slices)) =
        (find(GROUP, PLURAL), find("", "services"), find("discovery.k8s.io", "endpointslices"))
    else {
        return;
    };
    // There are neither services nor slices of other names, and keys and labels cannot have them.
    let is_possible = service.is_possible();
    let of_service = vec![if is_possible { service.name.clone() } else { Text::default() }];
    let Ok(label) = Requirement::new("kubernetes.io/service-name", Operator::Equals, of_service) else { return };
    let labels = LabelSelector::new(vec![label]);
    let mut service_changes = Follow::one(services.resource(), &service.namespace, &service.name);
    let mut slice_changes = Follow::labelled(slices.resource(), &service.namespace, labels.clone());
    let mut retry = RETRY_FIRST;
    let queue = work.config.queue("RemoteAvailabilityController");
    loop {
        let item = queue.add().begin();
        let checked = check(&work, &objects, &services, &slices, &labels, &name, &service).await;
        drop(item);
        let pause = match checked {
            Ok(Outcome::Settled) => None,
            Ok(Outcome::Answered) => {
                retry = RETRY_FIRST;
                Some(ASK_AGAIN)
            }
            Ok(Outcome::Silent) => {
                queue.retry(1);
                retry = (retry * 2).min(ASK_AGAIN);
                Some(retry)
            }
            Err(status) => {
                tracing::warn!(api_service = %name, error = status.message(), "cannot be checked");
                queue.retry(1);
                retry = (retry * 2).min(ASK_AGAIN);
                Some(retry)
            }
        };
        tokio::select! {
            _ = service_changes.changed(), if is_possible => {}
            _ = slice_changes.changed(), if is_possible => {}
            () = changed.notified() => {}
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
        }
    }
}

/// The result of a check.
enum Outcome {
    /// Only objects determine the condition, and their changes are watched.
    Settled,
    /// The server answered.
    Answered,
    /// The server did not answer.
    Silent,
}

async fn check(
    work: &Work,
    objects: &Objects,
    services: &Objects,
    slices: &Objects,
    labels: &LabelSelector,
    name: &str,
    reference: &ServiceReference,
) -> Result<Outcome, Status> {
    // This task ends when the APIService is deleted.
    let Some(object) = read(objects, "", name).await? else { return Ok(Outcome::Settled) };
    let (service, slices) = match reference.is_possible() {
        true => {
            let service = read(services, &reference.namespace, &reference.name).await?;
            (service, checks::slices(slices, &reference.namespace, labels).await?)
        }
        false => (None, Vec::new()),
    };
    if let Some(condition) = checks::of_service(reference, service.as_ref(), &slices) {
        tell(work, objects, &object, &condition).await?;
        return Ok(Outcome::Settled);
    }
    let condition = match checks::of_server(work.config.aggregated.as_deref(), &object).await {
        Ok(condition) => condition,
        Err(why) => {
            tracing::warn!(api_service = name, why, "its server cannot be asked");
            return Ok(Outcome::Silent);
        }
    };
    tell(work, objects, &object, &condition).await?;
    Ok(if condition.status == "True" { Outcome::Answered } else { Outcome::Silent })
}

/// Writes the condition, unless the object already has it.
async fn tell(work: &Work, objects: &Objects, object: &Value, condition: &Condition) -> Result<(), Status> {
    let metrics = work.config.availability.as_ref();
    if let Some(metrics) = metrics {
        metrics.seen(object.str_at(&["metadata", "name"]), condition);
    }
    if condition.is_told_by(object) {
        return Ok(());
    }
    let name = object.str_at(&["metadata", "name"]);
    let uid = object.str_at(&["metadata", "uid"]);
    let updated = objects.update("", name, "status", |object| {
        // A new object of the same name may have another service.
        if object.str_at(&["metadata", "uid"]) == uid {
            set(object, condition);
        }
    });
    match updated.await {
        Err(status) if status.is(StatusReason::NotFound) => Ok(()),
        Ok(()) => {
            if let Some(metrics) = metrics {
                metrics.told(object, condition);
            }
            Ok(())
        }
        failed => failed,
    }
}

fn set(object: &mut Value, condition: &Condition) {
    let now = rfc3339(SystemTime::now());
    let status = object.make_at(&["status"]);
    let conditions = status.entry("conditions", || Value::List(Vec::new()));
    if conditions.as_list().is_none() {
        *conditions = Value::List(Vec::new());
    }
    let Some(conditions) = conditions.as_list_mut() else { return };
    let there = conditions.iter_mut().find(|there| there.str_at(&["type"]) == "Available");
    let Some(there) = there else {
        conditions.push(value!({
            "type": "Available", "status": (condition.status), "lastTransitionTime": now,
            "reason": (condition.reason.clone()), "message": (condition.message.clone())
        }));
        return;
    };
    let members = there.make_object();
    if members.get("status").and_then(Value::as_str) != Some(condition.status) {
        members.insert("status", condition.status);
        members.insert("lastTransitionTime", now);
    }
    members.insert("reason", condition.reason.clone());
    members.insert("message", condition.message.clone());
}
