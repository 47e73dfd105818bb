//! Clients that read, update, delete, list and watch objects, and record the responses with times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::{StreamExt, TryStreamExt};
use kube::api::{
    Api, DeleteParams, DynamicObject, GetParams, ListParams, PostParams, Preconditions, VersionMatch, WatchEvent,
    WatchParams,
};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;

use super::subjects::{Subject, is_terminating, version};
use crate::random::Random;

pub(super) const KEYS: usize = 6;
/// The value of the last write, and the prefix of its name.
pub(super) const LAST: &str = "last";
/// The selector of some watches and lists. Every write decides again if its object matches.
pub(super) const SHADE: &str = "shade=dark";
/// The maximum time of a request under any fault; a server gives up earlier.
const LONGEST: Duration = Duration::from_secs(75);

/// An operation as seen by its client.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub began: Instant,
    /// `None` if there was no response.
    pub ended: Option<Instant>,
    pub action: Action,
}

/// Objects by name, with version and value.
pub(super) type ObjectVersions = BTreeMap<String, (u64, String)>;

#[derive(Clone, Debug)]
pub(super) enum Action {
    /// A write that expects the key at version `base` (0: absent) and sets a unique value.
    Write { key: String, base: u64, value: String, outcome: Outcome },
    /// A deletion of exactly this version. With finalizers it is a change.
    Delete { key: String, base: u64, outcome: Outcome },
    /// Removes the last finalizer of exactly this version, which is terminating.
    Release { key: String, base: u64, outcome: Outcome },
    /// The version and value of a key, if it exists.
    Get { key: String, asked: RequestedState, found: Option<(u64, String)> },
    List {
        asked: RequestedState,
        /// True if only objects that match [`SHADE`] are listed.
        selected: bool,
        version: u64,
        found: ObjectVersions,
    },
    /// A watch that began with the objects at `version` and had these later events.
    Stream { version: u64, found: ObjectVersions, events: Vec<HistoryEvent> },
}

/// The state that a read requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestedState {
    Consistent,
    /// In pages.
    Pages,
    Any,
    NotOlderThan(u64),
    Exact(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// At this version, or 0 if the response has none.
    Done(u64),
    Refused,
    Unknown,
}

/// A watch event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HistoryEvent {
    pub version: u64,
    pub key: String,
    /// `None` for a deletion.
    pub value: Option<String>,
    /// Values that must be unique among the objects; empty for a deletion.
    pub claims: Vec<String>,
}

pub(super) type History = Arc<Mutex<Vec<Operation>>>;

/// Returns the events of the selected objects up to the last write, resuming the watch when it breaks.
pub(super) async fn watch(
    objects: Objects,
    selector: &str,
    mut reached: u64,
    last: Arc<Mutex<Option<u64>>>,
) -> Vec<HistoryEvent> {
    let mut events = Vec::new();
    loop {
        let params = WatchParams::default().timeout(20).labels(selector).disable_bookmarks();
        if let Ok(stream) = objects.api.watch(&params, &reached.to_string()).await {
            let mut stream = stream.boxed();
            loop {
                if last.lock().is_some_and(|last| reached >= last) {
                    return events;
                }
                let event = match tokio::time::timeout(Duration::from_secs(1), stream.try_next()).await {
                    Err(_) => continue,
                    Ok(Ok(Some(event))) => event,
                    Ok(_) => break,
                };
                // The history reaches back further than any fault lasts.
                if let WatchEvent::Error(status) = &event {
                    assert_ne!(status.code, 410, "the watch has a gap: {status:?}");
                }
                let Some(event) = objects.event_of(event) else { break };
                reached = event.version;
                events.push(event);
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The API of one resource at one server.
#[derive(Clone)]
pub(super) struct Objects {
    pub subject: Subject,
    pub api: Api<DynamicObject>,
}

impl Objects {
    pub(super) fn new(subject: Subject, client: &Client) -> Self {
        Self { subject, api: subject.api(client.clone()) }
    }

    pub(super) fn event_of(&self, event: WatchEvent<DynamicObject>) -> Option<HistoryEvent> {
        let (object, gone) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Error(_) | WatchEvent::Bookmark(_) => return None,
        };
        let (value, claims) = match gone {
            true => (None, Vec::new()),
            false => (Some(self.subject.value(&object)), self.subject.claims(&object)),
        };
        Some(HistoryEvent { version: version(&object), key: object.name_any(), value, claims })
    }

    pub(super) fn described(&self, object: &DynamicObject) -> (u64, String) {
        (version(object), self.subject.value(object))
    }
}

/// A client that sends requests to the servers until it is stopped.
pub(super) async fn ask(
    clients: Vec<Client>,
    mut random: Random,
    number: u64,
    histories: Vec<(Subject, History)>,
    done: Arc<AtomicBool>,
) {
    // The newest version of each resource that this client has seen.
    let mut newest = vec![0; histories.len()];
    for n in 0.. {
        if done.load(Ordering::SeqCst) {
            return;
        }
        let subject = random.below(histories.len());
        let (seen, history) = (&mut newest[subject], &histories[subject].1);
        let objects = &Objects::new(histories[subject].0, &clients[random.below(clients.len())]);
        let key = format!("k{}", random.below(KEYS));
        let began = Instant::now();
        let kind = random.below(30);
        if kind < 8 {
            let action = match kind {
                0 => stream(objects).await,
                1 => list(objects, RequestedState::Pages, false).await,
                2 => list(objects, RequestedState::Any, random.below(2) == 0).await,
                3 => list(objects, RequestedState::NotOlderThan(*seen), random.below(2) == 0).await,
                // The history of a state that no client has seen may not exist.
                4 if *seen > 0 => list(objects, RequestedState::Exact(*seen), false).await,
                5 => list(objects, RequestedState::Consistent, true).await,
                _ => list(objects, RequestedState::Consistent, false).await,
            };
            if let Some(Action::List { version, .. } | Action::Stream { version, .. }) = &action {
                *seen = (*seen).max(*version);
            }
            note(history, began, true, action);
            continue;
        }
        let asked = match kind {
            8 => RequestedState::Any,
            9 => RequestedState::NotOlderThan(*seen),
            _ => RequestedState::Consistent,
        };
        let Ok(found) = get(objects, &key, asked).await else { continue };
        note(history, began, true, Some(Action::Get { key: key.clone(), asked, found: found.clone() }));
        let began = Instant::now();
        let (base, old) = found.map_or((0, None), |(version, value)| (version, Some(value)));
        *seen = (*seen).max(base);
        let terminates = old.as_deref().is_some_and(is_terminating);
        let (answered, action) = if base > 0 && !terminates && random.below(6) == 0 {
            let preconditions = Preconditions { resource_version: Some(base.to_string()), uid: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let outcome = outcome(objects.api.delete(&key, &params).await.map(|_| 0));
            (outcome != Outcome::Unknown, Action::Delete { key, base, outcome })
        } else if let Some(value) = objects.subject.next_value(&format!("{number}-{n}"), old.as_deref(), &mut random) {
            let object = objects.subject.object(&key, &value, base);
            let params = PostParams::default();
            let written = match base {
                0 => objects.api.create(&params, &object).await,
                _ => objects.api.replace(&key, &params, &object).await,
            };
            let outcome = outcome(written.map(|object| version(&object)));
            (outcome != Outcome::Unknown, Action::Write { key, base, value, outcome })
        } else {
            let object = objects.subject.released(&key, old.as_deref().unwrap_or_default(), base);
            let outcome = outcome(objects.api.replace(&key, &PostParams::default(), &object).await.map(|_| 0));
            (outcome != Outcome::Unknown, Action::Release { key, base, outcome })
        };
        note(history, began, answered, Some(action));
    }
}

async fn get(objects: &Objects, key: &str, asked: RequestedState) -> kube::Result<Option<(u64, String)>> {
    let params = match asked {
        RequestedState::Any => GetParams::any(),
        RequestedState::NotOlderThan(version) => GetParams::at(&version.to_string()),
        RequestedState::Consistent | RequestedState::Pages | RequestedState::Exact(_) => GetParams::default(),
    };
    match objects.api.get_with(key, &params).await {
        Ok(object) => Ok(Some(objects.described(&object))),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// `None` if there was no response.
async fn list(objects: &Objects, asked: RequestedState, selected: bool) -> Option<Action> {
    let plain = ListParams::default().labels(if selected { SHADE } else { "" });
    let mut params = match asked {
        RequestedState::Consistent => plain,
        RequestedState::Pages => plain.limit(2),
        RequestedState::Any => plain.match_any(),
        RequestedState::NotOlderThan(version) => plain.at(&version.to_string()).matching(VersionMatch::NotOlderThan),
        RequestedState::Exact(version) => plain.at(&version.to_string()).matching(VersionMatch::Exact),
    };
    let mut page = objects.api.list(&params).await.ok()?;
    let version: u64 = page.metadata.resource_version.as_ref()?.parse().unwrap();
    let mut found = ObjectVersions::new();
    loop {
        for object in &page.items {
            let twice = found.insert(object.name_any(), objects.described(object));
            assert!(twice.is_none(), "{twice:?} stands on two pages");
        }
        let Some(token) = page.metadata.continue_.filter(|token| !token.is_empty()) else { break };
        params = params.continue_token(&token);
        page = objects.api.list(&params).await.ok()?;
        assert_eq!(page.metadata.resource_version, Some(version.to_string()), "all pages are of one state");
    }
    Some(Action::List { asked, selected, version, found })
}

/// A watch that begins with the existing objects and is read for some time.
async fn stream(objects: &Objects) -> Option<Action> {
    let params = WatchParams { timeout: Some(1), ..WatchParams::streaming_lists() };
    let mut events = objects.api.watch(&params, "").await.ok()?.boxed();
    let (mut found, mut changes, mut version) = (ObjectVersions::new(), Vec::new(), None);
    while let Ok(Some(event)) = events.try_next().await {
        match (event, version) {
            (WatchEvent::Bookmark(bookmark), None) => {
                assert!(bookmark.metadata.annotations.contains_key("k8s.io/initial-events-end"), "an early bookmark");
                version = Some(bookmark.metadata.resource_version.parse().unwrap());
            }
            (WatchEvent::Added(object), None) => drop(found.insert(object.name_any(), objects.described(&object))),
            // Like a response that does not come.
            (WatchEvent::Error(_), None) => return None,
            (event, None) => panic!("{event:?} before the end of what there was"),
            (event, Some(_)) => changes.extend(objects.event_of(event)),
        }
        if changes.len() > 10 {
            break;
        }
    }
    Some(Action::Stream { version: version?, found, events: changes })
}

fn note(history: &History, began: Instant, answered: bool, action: Option<Action>) {
    let Some(action) = action else { return };
    assert!(began.elapsed() < LONGEST, "{action:?} took {:?}", began.elapsed());
    let ended = answered.then(Instant::now);
    history.lock().push(Operation { began, ended, action });
}

/// With 404 and 409 the write had no effect; with other errors it may have had one.
fn outcome(answer: kube::Result<u64>) -> Outcome {
    match answer {
        Ok(version) => Outcome::Done(version),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Outcome::Refused,
        Err(_) => Outcome::Unknown,
    }
}
