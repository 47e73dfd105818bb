//! The deployment controller: a replica set for each template, rolling from the old ones to the new one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;

use super::crew::{Controller, TaskSet};
use super::informers::Informers;
use super::mirror::{controlled_by, controller};

pub(super) const HASH: &str = "pod-template-hash";
pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const WHO: &str = "deployment controller";

struct Deployments {
    known: Informers,
}

pub(super) fn start(crew: &mut TaskSet, known: &Informers) {
    let changed = Arc::new(Notify::new());
    known.deployments.notify_changes(&changed);
    known.replica_sets.notify_changes(&changed);
    crew.work(changed, Deployments { known: known.clone() });
}

impl Controller for Deployments {
    async fn sync(&mut self) {
        if !self.known.are_listed() {
            return;
        }
        let mut owned: BTreeMap<String, Vec<Arc<ReplicaSet>>> = BTreeMap::new();
        for set in self.known.replica_sets.all() {
            if let Some(uid) = controller(&*set) {
                owned.entry(uid.to_owned()).or_default().push(set);
            }
        }
        let work = self.known.deployments.all().into_iter().map(|deployment| {
            let sets = owned.remove(deployment.uid().unwrap().as_str()).unwrap_or_default();
            self.reconcile(deployment, sets)
        });
        futures::future::join_all(work).await;
    }
}

impl Deployments {
    async fn reconcile(&self, deployment: Arc<Deployment>, sets: Vec<Arc<ReplicaSet>>) {
        if deployment.metadata.deletion_timestamp.is_some() {
            return;
        }
        let hash = template_hash(&deployment);
        let api: Api<ReplicaSet> = Api::namespaced(self.known.client.clone(), &deployment.namespace().unwrap());
        let wanted = replicas_of(&deployment);
        let (surge, unavailable) = bounds(&deployment, wanted);
        let total: i32 = sets.iter().map(|set| replicas(set)).sum();
        let (new, old): (Vec<_>, Vec<_>) = sets.iter().partition(|set| set.labels().get(HASH) == Some(&hash));
        let Some(new) = new.first() else {
            let revision = sets.iter().map(|set| revision(set)).max().unwrap_or(0) + 1;
            let size = wanted.min((wanted + surge - total).max(0));
            let set = replica_set(&deployment, &hash, revision, size);
            // A create based on an outdated mirror fails because the name is used.
            self.known.tally.bear(WHO, api.create(&PostParams::default(), &set).await);
            return;
        };
        let settled = |set: &ReplicaSet| {
            set.status.as_ref().and_then(|status| status.observed_generation) == set.metadata.generation
        };
        let size = replicas(new);
        if size > wanted {
            self.scale(&api, new, wanted).await;
        } else if size < wanted && total < wanted + surge {
            self.scale(&api, new, wanted.min(size + wanted + surge - total)).await;
        } else if sets.iter().all(|set| settled(set)) {
            // Unready pods are deleted first, then as many as may be unavailable.
            let available_total: i32 = sets.iter().map(|set| available(set)).sum();
            let mut spare = total - (wanted - unavailable) - (size - available(new));
            let mut missed = available_total - (wanted - unavailable);
            for set in old.iter().filter(|set| replicas(set) > 0) {
                let broken = (replicas(set) - available(set)).min(spare).max(0);
                let working = (replicas(set) - broken).min(missed).min(spare - broken).max(0);
                if broken + working > 0 {
                    self.scale(&api, set, replicas(set) - broken - working).await;
                    (spare, missed) = (spare - broken - working, missed - working);
                }
            }
        }
        self.status(&deployment, new, &sets).await;
    }

    async fn scale(&self, api: &Api<ReplicaSet>, set: &ReplicaSet, size: i32) {
        let mut set = set.clone();
        set.spec.as_mut().unwrap().replicas = Some(size);
        self.known.tally.bear(WHO, api.replace(&set.name_any(), &PostParams::default(), &set).await);
    }

    async fn status(&self, deployment: &Deployment, new: &ReplicaSet, sets: &[Arc<ReplicaSet>]) {
        let count = |count: fn(&ReplicaSet) -> i32| Some(sets.iter().map(|set| count(set)).sum());
        let wanted = replicas_of(deployment);
        let (_, unavailable) = bounds(deployment, wanted);
        let old = deployment.status.clone().unwrap_or_default();
        let available = sets.iter().map(|set| available(set)).sum::<i32>();
        let mut status = DeploymentStatus {
            observed_generation: deployment.metadata.generation,
            replicas: count(|set| set.status.as_ref().map_or(0, |status| status.replicas)),
            updated_replicas: new.status.as_ref().map(|status| status.replicas),
            ready_replicas: count(|set| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0)),
            available_replicas: Some(available),
            unavailable_replicas: Some((replicas_total(sets) - available).max(0)),
            ..old.clone()
        };
        let enough = available >= wanted - unavailable;
        set_condition(
            &mut status,
            "Available",
            enough,
            if enough { "MinimumReplicasAvailable" } else { "MinimumReplicasUnavailable" },
        );
        let complete =
            status.updated_replicas == Some(wanted) && status.replicas == Some(wanted) && available == wanted;
        set_condition(
            &mut status,
            "Progressing",
            true,
            if complete { "NewReplicaSetAvailable" } else { "ReplicaSetUpdated" },
        );
        drop_zeros(&mut status);
        if status == old {
            return;
        }
        let api: Api<Deployment> = Api::namespaced(self.known.client.clone(), &deployment.namespace().unwrap());
        let changed = Deployment { status: Some(status), ..deployment.clone() };
        self.known.tally.bear(WHO, api.replace_status(&deployment.name_any(), &PostParams::default(), &changed).await);
    }
}

pub(super) fn replicas_of(deployment: &Deployment) -> i32 {
    deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap()
}

pub(super) fn replicas(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap()
}

fn replicas_total(sets: &[Arc<ReplicaSet>]) -> i32 {
    sets.iter().map(|set| replicas(set)).sum()
}

fn available(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

fn revision(set: &ReplicaSet) -> u32 {
    set.annotations().get(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Returns the hash of a template. It covers the template as the server returns it, so that defaults that change
/// between two reads would show as a rollout.
fn template_hash(deployment: &Deployment) -> String {
    let mut hasher = DefaultHasher::new();
    serde_json::to_string(&deployment.spec.as_ref().unwrap().template).unwrap().hash(&mut hasher);
    format!("{:x}", hasher.finish() as u32)
}

/// Returns the number of pods allowed beyond the desired ones, and the number of desired ones that may be unavailable.
fn bounds(deployment: &Deployment, wanted: i32) -> (i32, i32) {
    let rolling = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref()?.rolling_update.clone()).unwrap();
    let resolve = |bound: Option<IntOrString>, up: bool| match bound.unwrap() {
        IntOrString::Int(number) => number,
        IntOrString::String(percent) => {
            let share = percent.trim_end_matches('%').parse::<i32>().unwrap() * wanted;
            if up { (share + 99) / 100 } else { share / 100 }
        }
    };
    let (surge, unavailable) = (resolve(rolling.max_surge, true), resolve(rolling.max_unavailable, false));
    (surge, if surge == 0 { unavailable.max(1) } else { unavailable })
}

fn replica_set(deployment: &Deployment, hash: &str, revision: u32, size: i32) -> ReplicaSet {
    let spec = deployment.spec.as_ref().unwrap();
    let mut set = json!({
        "metadata": {
            "name": format!("{}-{hash}", deployment.name_any()),
            "namespace": deployment.namespace(),
            "annotations": {REVISION: revision.to_string()},
            "ownerReferences": [controlled_by(deployment)],
        },
        "spec": {"replicas": size, "selector": spec.selector, "template": spec.template},
    });
    let mut labels = serde_json::to_value(spec.template.metadata.as_ref().unwrap().labels.clone()).unwrap();
    labels[HASH] = hash.into();
    set["metadata"]["labels"] = labels.clone();
    set["spec"]["selector"]["matchLabels"][HASH] = hash.into();
    set["spec"]["template"]["metadata"]["labels"] = labels;
    serde_json::from_value(set).unwrap()
}

fn set_condition(status: &mut DeploymentStatus, kind: &str, holds: bool, reason: &str) {
    let text = if holds { "True" } else { "False" };
    let conditions = status.conditions.get_or_insert_default();
    let same = conditions.iter().any(|condition| {
        condition.type_ == kind && condition.status == text && condition.reason.as_deref() == Some(reason)
    });
    if same {
        return;
    }
    conditions.retain(|condition| condition.type_ != kind);
    let now = Some(Time(Timestamp::now()));
    conditions.push(DeploymentCondition {
        type_: kind.to_owned(),
        status: text.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(String::new()),
        last_update_time: now.clone(),
        last_transition_time: now,
    });
}

/// Removes zeros from a status: the server omits them, so that the status would always look changed.
fn drop_zeros(status: &mut DeploymentStatus) {
    let numbers = [
        &mut status.replicas,
        &mut status.updated_replicas,
        &mut status.ready_replicas,
        &mut status.available_replicas,
        &mut status.unavailable_replicas,
    ];
    for number in numbers {
        number.take_if(|number| *number == 0);
    }
}
