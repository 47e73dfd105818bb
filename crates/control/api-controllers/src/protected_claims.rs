//! The protection of persistent volume claims: a deleted claim goes when no scheduled pod uses it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use binnacle_controllers::Objects;
use binnacle_fields::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodSpec, Volume};
use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference};
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{Status, Text};
use binnacle_registry::object::{deletion_grace, is_deleting};
use binnacle_registry::{Context, ListOptions, Resource};
use binnacle_schema::Value;
use binnacle_watchcache::Entry;
use parking_lot::Mutex;

use crate::changes::{Position, Receiver, follow};
use crate::context::ClusterContext;
use crate::protection::{Protection, change};
use crate::queue::Queue;

pub(crate) const NAME: &str = "persistentvolumeclaim-protection-controller";
const ACCOUNT: &str = "pvc-protection-controller";
const FINALIZER: &str = "kubernetes.io/pvc-protection";
const WORKERS: usize = 5;

/// The time for which pods that go are collected before those that are left are read once for all.
const BATCH: Duration = Duration::from_millis(50);

struct Controller {
    claims: Objects,
    pods: Arc<Resource>,
    /// Namespaces: the pods of one are read once for all of its claims.
    queue: Queue<Text>,
    /// The claims that need a change, by namespace: those without a finalizer, and deleted ones that pods may use. Changes of
    /// pods elsewhere are not decoded.
    pending: Mutex<HashMap<Text, BTreeSet<Text>>>,
}

pub(crate) async fn run(context: ClusterContext) {
    let Ok(claims) = context.objects(ACCOUNT, ("", "v1", "persistentvolumeclaims")) else { return };
    let Ok(pods) = context.resources.require("", "v1", "pods") else { return };
    let queue = Queue::new(context.queues.queue("pvcprotection"));
    let controller = Controller { claims, pods, queue, pending: Mutex::default() };
    let ClusterContext { leadership, shutdown, .. } = &context;
    let (positions, all) = ([Position::default(), Position::default()], ListOptions::default());
    let (of_claims, of_pods) = (ChangedClaims(&controller), ChangedPods(&controller));
    tokio::join!(
        follow(controller.claims.resource(), &all, &of_claims, &positions[0], shutdown),
        follow(&controller.pods, &all, &of_pods, &positions[1], shutdown),
        controller.queue.work(NAME, WORKERS, leadership, shutdown, |namespace| {
            let controller = &controller;
            async move { controller.sync(&namespace).await.into() }
        }),
    );
}

struct ChangedClaims<'a>(&'a Controller);

impl Receiver for ChangedClaims<'_> {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(entry) = new.or(old) else { return };
        let namespace = Text::from(entry.namespace());
        if new.is_none() {
            return self.0.forget(&namespace, entry.name());
        }
        let Ok(claim) = self.0.claims.decode(entry) else { return };
        if Protection::of(&claim, FINALIZER).is_some() {
            self.0.add_pending(&namespace, [entry.name().into()]);
            self.0.queue.add(namespace);
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {}
}

struct ChangedPods<'a>(&'a Controller);

impl Receiver for ChangedPods<'_> {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(entry) = new.or(old) else { return };
        let Some(pending) = self.0.pending.lock().get(entry.namespace()).cloned() else { return };
        let Ok(pod) = self.0.pods.collection.decode_entry(entry) else { return };
        let is_released = new.is_none() || is_shut_down(&pod);
        if is_released && claims_of(&pod).any(|claim| pending.contains(claim.name())) {
            self.0.queue.add_after(entry.namespace().into(), BATCH);
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {
        // Deletions may have been missed.
        let namespaces: Vec<Text> = self.0.pending.lock().keys().cloned().collect();
        namespaces.into_iter().for_each(|namespace| self.0.queue.add(namespace));
    }
}

impl Controller {
    /// Changes the pending claims of a namespace. Those that pods use, or whose change fails, stay pending.
    async fn sync(&self, namespace: &Text) -> Result<(), Status> {
        // What is added from now on is an occasion of its own.
        let names = self.pending.lock().remove(namespace).unwrap_or_default();
        let (mut waiting, mut failure) = (Vec::new(), None);
        for name in names {
            match self.protect(namespace, &name).await {
                Ok(None) => {}
                Ok(Some(claim)) => waiting.push((name, claim)),
                Err(status) => {
                    self.add_pending(namespace, [name]);
                    failure.get_or_insert(status);
                }
            }
        }
        if !waiting.is_empty() {
            // Before the pods are read: one that goes meanwhile adds the namespace again.
            self.add_pending(namespace, waiting.iter().map(|(name, _)| name.clone()));
            let used = self.used(namespace, &waiting).await?;
            for (name, claim) in waiting.iter().filter(|(name, _)| !used.contains(name)) {
                let released = change(&self.claims, (namespace, name), claim, (Protection::Waiting, FINALIZER)).await;
                failure = failure.or(released.err());
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Adds the finalizer to a claim that lacks it. Returns the claim if it waits for the removal of the finalizer.
    async fn protect(&self, namespace: &Text, name: &Text) -> Result<Option<Value>, Status> {
        let Some(claim) = self.claims.get(namespace, name).await? else { return Ok(None) };
        match Protection::of(&claim, FINALIZER) {
            Some(Protection::Waiting) => Ok(Some(claim)),
            Some(needed) => change(&self.claims, (namespace, name), &claim, (needed, FINALIZER)).await.map(|()| None),
            None => Ok(None),
        }
    }

    fn add_pending(&self, namespace: &Text, names: impl IntoIterator<Item = Text>) {
        self.pending.lock().entry(namespace.clone()).or_default().extend(names);
    }

    /// Forgets a claim that is gone.
    fn forget(&self, namespace: &str, name: &str) {
        let mut pending = self.pending.lock();
        if let Some(names) = pending.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                pending.remove(namespace);
            }
        }
    }

    /// Returns those of the claims that a pod uses, of all pods that were acknowledged.
    async fn used(&self, namespace: &str, claims: &[(Text, Value)]) -> Result<HashSet<Text>, Status> {
        let claims: HashMap<&Text, &Value> = claims.iter().map(|(name, claim)| (name, claim)).collect();
        let mut used = HashSet::new();
        let mut page = self.pods.list(&Context::internal(namespace), &ListOptions::default()).await?;
        while let Some(chunk) = page.next_chunk() {
            for entry in chunk {
                let pod = self.pods.collection.decode_entry(&entry)?;
                let own = claims_of(&pod).filter(|own| {
                    let claim = claims.get(own.name());
                    claim.is_some_and(|claim| uses(&pod, own, claim))
                });
                used.extend(own.map(|own| own.name().clone()));
            }
            // Other tasks take their turns between the pods.
            tokio::task::yield_now().await;
        }
        Ok(used)
    }
}

/// A claim that a volume of a pod refers to.
enum PodClaim {
    Named(Text),
    /// One that is made for the pod.
    Ephemeral(Text),
}

impl PodClaim {
    fn name(&self) -> &Text {
        match self {
            Self::Named(name) | Self::Ephemeral(name) => name,
        }
    }
}

fn claims_of(pod: &Value) -> impl Iterator<Item = PodClaim> {
    let pod_name = metadata(pod).at(ObjectMeta::NAME).str();
    let volumes = FieldRef::<Pod>::root(pod).at(Pod::SPEC).at(PodSpec::VOLUMES).list();
    volumes.iter().filter_map(move |volume| {
        let volume = FieldRef::<Volume>::root(volume);
        let claim = volume.at(Volume::PERSISTENT_VOLUME_CLAIM);
        if claim.is_set() {
            return Some(PodClaim::Named(claim.at(PersistentVolumeClaimVolumeSource::CLAIM_NAME).str().into()));
        }
        let is_ephemeral = volume.at(Volume::EPHEMERAL).is_set();
        is_ephemeral.then(|| PodClaim::Ephemeral(format!("{pod_name}-{}", volume.at(Volume::NAME).str()).into()))
    })
}

/// Returns true if a pod uses a claim, to which one of its volumes refers. A pod without a node does not: a kubelet does
/// not start a pod whose claim is deleted.
fn uses(pod: &Value, own: &PodClaim, claim: &Value) -> bool {
    let is_scheduled = !FieldRef::<Pod>::root(pod).at(Pod::SPEC).at(PodSpec::NODE_NAME).str().is_empty();
    is_scheduled
        && match own {
            PodClaim::Named(_) => true,
            PodClaim::Ephemeral(_) => !is_shut_down(pod) && is_made_for(claim, pod),
        }
}

/// Returns true if a claim was made for this pod: it is its controller.
fn is_made_for(claim: &Value, pod: &Value) -> bool {
    let uid = metadata(pod).at(ObjectMeta::UID).str();
    metadata(claim).at(ObjectMeta::OWNER_REFERENCES).list().iter().any(|owner| {
        let owner = FieldRef::<OwnerReference>::root(owner);
        owner.at(OwnerReference::CONTROLLER).bool() && owner.at(OwnerReference::UID).str() == uid
    })
}

/// Returns true if the kubelet has finished with a pod, or the pod was deleted by force. A finalizer of the pod may wait
/// for its claims.
fn is_shut_down(pod: &Value) -> bool {
    is_deleting(pod) && deletion_grace(pod) == Some(0)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn scheduled_pods_use_their_claims() {
        let owner = value!({"kind": "Pod", "uid": "1", "controller": true});
        let own = value!({"metadata": {"name": "p-data", "ownerReferences": [owner]}});
        let other = value!({"metadata": {"name": "p-data"}});
        let named = value!({"name": "v", "persistentVolumeClaim": {"claimName": "p-data"}});
        let ephemeral = value!({"name": "data", "ephemeral": {}});
        let pod = |node: &str, volume: &Value| value!({"metadata": {"name": "p", "uid": "1"}, "spec": {"nodeName": node, "volumes": [(volume.clone())]}});
        let ended = |mut pod: Value| {
            let metadata = pod.make_at(&["metadata"]);
            metadata.insert("deletionTimestamp", "2026-01-01T00:00:00Z");
            metadata.insert("deletionGracePeriodSeconds", 0i64);
            pod
        };
        for (pod, claim, want) in [
            (pod("n", &named), &other, true),
            (pod("", &named), &other, false),
            (ended(pod("n", &named)), &other, true),
            (pod("n", &ephemeral), &own, true),
            (pod("n", &ephemeral), &other, false),
            (ended(pod("n", &ephemeral)), &own, false),
            (pod("n", &value!({"name": "x", "emptyDir": {}})), &own, false),
        ] {
            let used = claims_of(&pod).any(|own| own.name() == "p-data" && uses(&pod, &own, claim));
            assert_eq!(used, want, "{pod:?}");
        }
    }
}
