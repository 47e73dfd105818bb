//! The garbage collector: deletes objects without owners, by the requested propagation policy.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions, PropagationPolicy};
use kube::core::PartialObjectMeta;
use kube::discovery::{Discovery, Scope, verbs};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;

use super::crew::{Controller, Tally, TaskSet};
use super::mirror::{Mirror, follow};

const WHO: &str = "garbage collector";
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

type Metadata = PartialObjectMeta<DynamicObject>;

struct Collector {
    client: Client,
    tally: Arc<Tally>,
    watched: Vec<(WatchedResource, Arc<Mirror<Metadata>>)>,
    /// Owners that do not exist, according to the server.
    absent: HashSet<String>,
}

#[derive(Clone)]
struct WatchedResource {
    resource: ApiResource,
    scope: Scope,
}

/// An object and its resource.
#[derive(Clone)]
struct ObjectRef {
    object: Arc<Metadata>,
    at: usize,
}

/// Starts a collector for all resources that can be listed, watched and deleted.
pub(super) async fn start(crew: &mut TaskSet, client: &Client, tally: &Arc<Tally>) {
    let changed = Arc::new(Notify::new());
    let watched = watched(client).await.unwrap();
    let watched = watched.into_iter().map(|watched| {
        let api: Api<Metadata> = Api::all_with(client.clone(), &watched.resource);
        let mirror = follow(crew, api, watcher::Config::default());
        mirror.notify_changes(&changed);
        (watched, mirror)
    });
    let watched = watched.collect();
    let collector = Collector { client: client.clone(), tally: tally.clone(), watched, absent: HashSet::new() };
    crew.work(changed, collector);
}

/// Returns these resources, except for events, which own nothing and have no owners.
async fn watched(client: &Client) -> Result<Vec<WatchedResource>, kube::Error> {
    let found = Discovery::new(client.clone()).run_aggregated().await?;
    let resources = found.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    let wanted = resources.filter(|(resource, can)| {
        [verbs::LIST, verbs::WATCH, verbs::DELETE].iter().all(|verb| can.supports_operation(verb))
            && resource.plural != "events"
    });
    Ok(wanted.map(|(resource, can)| WatchedResource { resource, scope: can.scope }).collect())
}

/// Returns objects with an owner that does not exist, or that is another object of the same name.
pub(super) async fn orphans(client: &Client) -> Vec<String> {
    let mut objects = Vec::new();
    for watched in watched(client).await.unwrap() {
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &watched.resource);
        objects.extend(api.list_metadata(&Default::default()).await.unwrap().items);
    }
    let uids: HashSet<_> = objects.iter().filter_map(ResourceExt::uid).collect();
    let lost = objects.iter().filter(|object| object.owner_references().iter().any(|owner| !uids.contains(&owner.uid)));
    lost.map(|object| format!("{:?} {}", object.types, object.name_any())).collect()
}

impl Controller for Collector {
    async fn sync(&mut self) {
        if !self.watched.iter().all(|(_, mirror)| mirror.is_listed()) {
            return;
        }
        let mut all = BTreeMap::new();
        let mut dependents: HashMap<String, Vec<ObjectRef>> = HashMap::new();
        for (at, (_, mirror)) in self.watched.iter().enumerate() {
            for object in mirror.all() {
                let found = ObjectRef { object, at };
                for owner in found.object.owner_references() {
                    dependents.entry(owner.uid.clone()).or_default().push(found.clone());
                }
                all.insert(found.object.uid().unwrap(), found);
            }
        }
        self.learn_absent(&all, &dependents).await;
        let work = all.values().map(|found| self.attend(found, &dependents, &all));
        join_all(work).await;
    }
}

impl Collector {
    /// Reads owners that no mirror has, because they may be newer than the mirrors.
    async fn learn_absent(&mut self, all: &BTreeMap<String, ObjectRef>, dependents: &HashMap<String, Vec<ObjectRef>>) {
        for (uid, found) in dependents {
            if all.contains_key(uid) || self.absent.contains(uid) {
                continue;
            }
            let dependent = &found[0].object;
            let owner = dependent.owner_references().iter().find(|owner| owner.uid == *uid).unwrap();
            let Some(watched) = self.kind(owner) else { continue };
            let api = self.api(watched, dependent);
            if let Some(live) = self.tally.bear(WHO, api.get_metadata_opt(&owner.name).await)
                && live.and_then(|live| live.uid()).as_ref() != Some(uid)
            {
                self.absent.insert(uid.clone());
            }
        }
    }

    async fn attend(
        &self,
        found: &ObjectRef,
        known: &HashMap<String, Vec<ObjectRef>>,
        all: &BTreeMap<String, ObjectRef>,
    ) {
        let object = &*found.object;
        let uid = object.uid().unwrap();
        let dependents = known.get(&uid).map_or(&[][..], Vec::as_slice);
        let going = object.metadata.deletion_timestamp.is_some();
        let has = |finalizer: &str| object.finalizers().iter().any(|own| own == finalizer);
        if going && has(ORPHAN) {
            let freed = dependents.iter().map(|dependent| self.free(dependent, |owner| owner.uid == uid));
            if join_all(freed).await.into_iter().all(|freed| freed) {
                self.remove_finalizer(found, ORPHAN).await;
            }
        } else if going && has(FOREGROUND) {
            let blocks = |dependent: &ObjectRef| {
                let owner = dependent.object.owner_references().iter().find(|owner| owner.uid == uid);
                owner.is_some_and(|owner| owner.block_owner_deletion == Some(true))
            };
            if dependents.iter().any(blocks) {
                let waiting = dependents.iter().filter(|found| found.object.metadata.deletion_timestamp.is_none());
                join_all(waiting.map(|dependent| {
                    let has_own = known.contains_key(&dependent.object.uid().unwrap());
                    let next = if has_own { PropagationPolicy::Foreground } else { PropagationPolicy::Background };
                    self.delete(dependent, next)
                }))
                .await;
            } else {
                self.remove_finalizer(found, FOREGROUND).await;
            }
        } else if !going && !object.owner_references().is_empty() {
            let is_absent = |owner: &OwnerReference| self.absent.contains(&owner.uid) && !all.contains_key(&owner.uid);
            if object.owner_references().iter().all(is_absent) {
                self.delete(found, PropagationPolicy::Background).await;
            } else if object.owner_references().iter().any(is_absent) {
                self.free(found, is_absent).await;
            }
        }
    }

    async fn delete(&self, found: &ObjectRef, propagation: PropagationPolicy) {
        let object = &*found.object;
        let this = Preconditions { uid: object.uid(), resource_version: None };
        let parameters = DeleteParams {
            propagation_policy: Some(propagation),
            preconditions: Some(this),
            ..DeleteParams::default()
        };
        let answer = self.api(&self.watched[found.at].0, object).delete(&object.name_any(), &parameters).await;
        self.tally.bear(WHO, answer);
    }

    /// Removes owners from an object.
    async fn free(&self, found: &ObjectRef, from: impl Fn(&OwnerReference) -> bool) -> bool {
        let object = &*found.object;
        let rest: Vec<_> = object.owner_references().iter().filter(|owner| !from(owner)).collect();
        self.patch(
            found,
            json!({"metadata": {
                "uid": object.uid(), "resourceVersion": object.resource_version(), "ownerReferences": rest
            }}),
        )
        .await
    }

    async fn remove_finalizer(&self, found: &ObjectRef, finalizer: &str) {
        let object = &*found.object;
        let rest: Vec<_> = object.finalizers().iter().filter(|own| *own != finalizer).collect();
        let patch = json!({"metadata": {"resourceVersion": object.resource_version(), "finalizers": rest}});
        self.patch(found, patch).await;
    }

    async fn patch(&self, found: &ObjectRef, patch: serde_json::Value) -> bool {
        let object = &*found.object;
        let api = self.api(&self.watched[found.at].0, object);
        let answer = api.patch_metadata(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
        self.tally.bear(WHO, answer).is_some()
    }

    fn kind(&self, owner: &OwnerReference) -> Option<&WatchedResource> {
        let same = |resource: &ApiResource| resource.api_version == owner.api_version && resource.kind == owner.kind;
        self.watched.iter().map(|(watched, _)| watched).find(|watched| same(&watched.resource))
    }

    /// Returns the API of a resource in the namespace of a related object.
    fn api(&self, watched: &WatchedResource, related: &Metadata) -> Api<DynamicObject> {
        match (&watched.scope, related.namespace()) {
            (Scope::Namespaced, Some(namespace)) => {
                Api::namespaced_with(self.client.clone(), &namespace, &watched.resource)
            }
            _ => Api::all_with(self.client.clone(), &watched.resource),
        }
    }
}
