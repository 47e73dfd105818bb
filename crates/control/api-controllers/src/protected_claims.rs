//! The protection of persistent volume claims: a deleted claim goes when no scheduled pod uses it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

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

struct Controller {
    claims: Objects,
    pods: Arc<Resource>,
    /// Namespaces and names of claims.
    queue: Queue<(Text, Text)>,
    /// The deleted claims that pods may use, by namespace. Changes of pods elsewhere are not decoded.
    waiting: Mutex<HashMap<Text, BTreeSet<Text>>>,
}

pub(crate) async fn run(context: ClusterContext) {
    let Ok(claims) = context.objects(ACCOUNT, ("", "v1", "persistentvolumeclaims")) else { return };
    let Ok(pods) = context.resources.require("", "v1", "pods") else { return };
    let queue = Queue::new(context.queues.queue("pvcprotection"));
    let controller = Controller { claims, pods, queue, waiting: Mutex::default() };
    let ClusterContext { leadership, shutdown, .. } = &context;
    let (positions, all) = ([Position::default(), Position::default()], ListOptions::default());
    let (of_claims, of_pods) = (ChangedClaims(&controller), ChangedPods(&controller));
    tokio::join!(
        follow(controller.claims.resource(), &all, &of_claims, &positions[0], shutdown),
        follow(&controller.pods, &all, &of_pods, &positions[1], shutdown),
        controller.queue.work(NAME, WORKERS, leadership, shutdown, |(namespace, name)| {
            let controller = &controller;
            async move { controller.sync(&namespace, &name).await.into() }
        }),
    );
}

struct ChangedClaims<'a>(&'a Controller);

impl Receiver for ChangedClaims<'_> {
    fn changed(&self, _: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(entry) = new else { return };
        let Ok(claim) = self.0.claims.decode(entry) else { return };
        if Protection::of(&claim, FINALIZER).is_some() {
            self.0.queue.add((entry.namespace().into(), entry.name().into()));
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {}
}

struct ChangedPods<'a>(&'a Controller);

impl Receiver for ChangedPods<'_> {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(entry) = new.or(old) else { return };
        let Some(waiting) = self.0.waiting.lock().get(entry.namespace()).cloned() else { return };
        let Ok(pod) = self.0.pods.collection.decode_entry(entry) else { return };
        if new.is_some() && !is_shut_down(&pod) {
            return;
        }
        for name in waiting {
            if claims_of(&pod).any(|claim| *claim.name() == name) {
                self.0.queue.add((entry.namespace().into(), name));
            }
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {
        // Deletions may have been missed.
        for (namespace, names) in &*self.0.waiting.lock() {
            names.iter().for_each(|name| self.0.queue.add((namespace.clone(), name.clone())));
        }
    }
}

impl Controller {
    async fn sync(&self, namespace: &Text, name: &Text) -> Result<(), Status> {
        let claim = self.claims.get(namespace, name).await?;
        let needed = claim.as_ref().and_then(|claim| Protection::of(claim, FINALIZER));
        let (Some(claim), Some(needed)) = (claim, needed) else {
            self.forget(namespace, name);
            return Ok(());
        };
        if needed == Protection::Waiting {
            // Before the pods are read: one that goes meanwhile adds the claim again.
            self.waiting.lock().entry(namespace.clone()).or_default().insert(name.clone());
            if self.is_used(namespace, name, &claim).await? {
                return Ok(());
            }
        }
        change(&self.claims, (namespace, name), &claim, (needed, FINALIZER)).await?;
        self.forget(namespace, name);
        Ok(())
    }

    fn forget(&self, namespace: &Text, name: &Text) {
        let mut waiting = self.waiting.lock();
        if let Some(names) = waiting.get_mut(namespace) {
            names.remove(name);
            if names.is_empty() {
                waiting.remove(namespace);
            }
        }
    }

    /// Returns true if a pod, of all that were acknowledged, uses the claim.
    async fn is_used(&self, namespace: &str, name: &str, claim: &Value) -> Result<bool, Status> {
        let mut page = self.pods.list(&Context::internal(namespace), &ListOptions::default()).await?;
        while let Some(chunk) = page.next_chunk() {
            for entry in chunk {
                if uses(&self.pods.collection.decode_entry(&entry)?, name, claim) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
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
    let spec = FieldRef::<Pod>::root(pod).at(Pod::SPEC).value();
    FieldRef::<PodSpec>::root(spec).at(PodSpec::VOLUMES).list().iter().filter_map(move |volume| {
        let volume = FieldRef::<Volume>::root(volume);
        let claim = volume.at(Volume::PERSISTENT_VOLUME_CLAIM);
        if claim.is_set() {
            return Some(PodClaim::Named(claim.at(PersistentVolumeClaimVolumeSource::CLAIM_NAME).str().into()));
        }
        let is_ephemeral = volume.at(Volume::EPHEMERAL).is_set();
        is_ephemeral.then(|| PodClaim::Ephemeral(format!("{pod_name}-{}", volume.at(Volume::NAME).str()).into()))
    })
}

/// Returns true if a pod uses a claim. A pod without a node does not: a kubelet does not start a pod whose claim is
/// deleted.
fn uses(pod: &Value, name: &str, claim: &Value) -> bool {
    let spec = FieldRef::<Pod>::root(pod).at(Pod::SPEC).value();
    if FieldRef::<PodSpec>::root(spec).at(PodSpec::NODE_NAME).str().is_empty() {
        return false;
    }
    claims_of(pod).any(|own| match own {
        PodClaim::Named(own) => own == name,
        PodClaim::Ephemeral(own) => own == name && !is_shut_down(pod) && is_made_for(claim, pod),
    })
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
            assert_eq!(uses(&pod, "p-data", claim), want, "{pod:?}");
        }
    }
}
