//! Mirrors of the cluster for controllers: copies of objects that follow watches.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::crew::TaskSet;

/// Namespace and name.
pub(super) type Key = (String, String);

/// A copy of all objects of a kind, which controllers of a process share.
pub(super) struct Mirror<K> {
    state: Mutex<State<K>>,
    /// Notified of changes.
    told: Mutex<Vec<Arc<Notify>>>,
}

struct State<K> {
    objects: BTreeMap<Key, Arc<K>>,
    /// The highest resourceVersion seen.
    version: u64,
    listed: bool,
}

/// Follows the objects that an Api lists.
pub(super) fn follow<K>(crew: &mut TaskSet, api: Api<K>, config: watcher::Config) -> Arc<Mirror<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    Mirror::start(crew, watcher::watcher(api, config))
}

impl<K: ResourceExt + Send + Sync + 'static> Mirror<K> {
    fn start<S>(crew: &mut TaskSet, events: S) -> Arc<Self>
    where
        S: Stream<Item = watcher::Result<watcher::Event<K>>> + Send + 'static,
    {
        let state = Mutex::new(State { objects: BTreeMap::new(), version: 0, listed: false });
        let mirror = Arc::new(Self { state, told: Mutex::default() });
        let follower = mirror.clone();
        crew.spawn(async move {
            let mut events = std::pin::pin!(events.backoff(ShortBackoff));
            let mut listed = BTreeMap::new();
            while let Some(event) = events.next().await {
                // The server may be unavailable; the watcher retries.
                let Ok(event) = event else { continue };
                follower.state.lock().take(event, &mut listed);
                follower.told.lock().iter().for_each(|told| told.notify_one());
            }
        });
        mirror
    }

    /// Notifies `changed` of every change from here on.
    pub(super) fn notify_changes(&self, changed: &Arc<Notify>) {
        self.told.lock().push(changed.clone());
    }

    /// Returns true if the objects have been listed.
    pub(super) fn is_listed(&self) -> bool {
        self.state.lock().listed
    }

    /// Returns true if the mirror has the events up to this version.
    pub(super) fn has_seen(&self, version: u64) -> bool {
        self.state.lock().version >= version
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.state.lock().objects.get(&(namespace.to_owned(), name.to_owned())).cloned()
    }

    pub(super) fn all(&self) -> Vec<Arc<K>> {
        self.state.lock().objects.values().cloned().collect()
    }
}

impl<K: ResourceExt> State<K> {
    fn take(&mut self, event: watcher::Event<K>, listed: &mut BTreeMap<Key, Arc<K>>) {
        use watcher::Event;
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                self.note(&object);
                listed.insert(key(&object), Arc::new(object));
            }
            Event::InitDone => {
                self.objects = std::mem::take(listed);
                self.listed = true;
            }
            Event::Apply(object) => {
                self.note(&object);
                self.objects.insert(key(&object), Arc::new(object));
            }
            Event::Delete(object) => {
                self.note(&object);
                self.objects.remove(&key(&object));
            }
        }
    }

    fn note(&mut self, object: &K) {
        self.version = self.version.max(version(object));
    }
}

pub(super) fn key(object: &impl ResourceExt) -> Key {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Returns the resourceVersion as a number.
pub(super) fn version(object: &impl ResourceExt) -> u64 {
    object.resource_version().unwrap().parse().unwrap()
}

/// Returns a controller reference that blocks foreground deletion of the owner.
pub(super) fn controlled_by<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference { block_owner_deletion: Some(true), ..owner.controller_owner_ref(&()).unwrap() }
}

/// Returns the uid of the controlling owner of an object.
pub(super) fn controller<K: ResourceExt>(object: &K) -> Option<&str> {
    object.owner_references().iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str())
}

/// A backoff that retries soon, regardless of the number of failures.
struct ShortBackoff;

impl Iterator for ShortBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(Duration::from_millis(50))
    }
}

impl Backoff for ShortBackoff {
    fn reset(&mut self) {}
}
