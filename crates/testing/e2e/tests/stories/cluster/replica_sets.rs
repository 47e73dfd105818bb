//! The replica set controller: creates and deletes pods until there are as many as desired.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use tokio::sync::Notify;

use super::crew::{Controller, TaskSet};
use super::deployments::replicas;
use super::informers::Informers;
use super::mirror::{controlled_by, controller, version};

const WHO: &str = "replica set controller";
/// The longest wait for writes to appear in the mirror.
const EXPECTATIONS: Duration = Duration::from_secs(5);
/// The most pods that are created or deleted for a set in one sync.
const BURST: usize = 500;

struct ReplicaSets {
    known: Informers,
    /// The writes for each set that must be in the mirror before its next sync.
    expected: HashMap<String, PendingWrites>,
}

struct PendingWrites {
    /// The version of the last created pod.
    version: u64,
    deleted: HashSet<String>,
    since: Instant,
}

pub(super) fn start(crew: &mut TaskSet, known: &Informers) {
    let changed = Arc::new(Notify::new());
    known.replica_sets.notify_changes(&changed);
    known.pods.notify_changes(&changed);
    crew.work(changed, ReplicaSets { known: known.clone(), expected: HashMap::new() });
}

impl Controller for ReplicaSets {
    async fn sync(&mut self) {
        if !self.known.are_listed() {
            return;
        }
        let mut owned: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in self.known.pods.all() {
            if let Some(uid) = controller(&*pod).filter(|_| is_active(&pod)) {
                owned.entry(uid.to_owned()).or_default().push(pod);
            }
        }
        let sets = self.known.replica_sets.all();
        let ready: Vec<_> = sets
            .into_iter()
            .map(|set| {
                let pods = owned.remove(set.uid().unwrap().as_str()).unwrap_or_default();
                let seen = self.expectations_met(&set.uid().unwrap(), &pods);
                (set, pods, seen)
            })
            .collect();
        let work = ready.iter().map(|(set, pods, seen)| self.reconcile(set, pods, *seen));
        let done = join_all(work).await;
        for ((set, ..), expected) in ready.iter().zip(done) {
            if let Some(expected) = expected {
                self.expected.insert(set.uid().unwrap(), expected);
            }
        }
    }
}

impl ReplicaSets {
    fn expectations_met(&self, set: &str, pods: &[Arc<Pod>]) -> bool {
        let Some(expected) = self.expected.get(set) else { return true };
        let gone = || !pods.iter().any(|pod| expected.deleted.contains(&pod.uid().unwrap()));
        expected.since.elapsed() > EXPECTATIONS || (self.known.pods.has_seen(expected.version) && gone())
    }

    async fn reconcile(&self, set: &ReplicaSet, pods: &[Arc<Pod>], seen: bool) -> Option<PendingWrites> {
        let api: Api<Pod> = Api::namespaced(self.known.client.clone(), &set.namespace().unwrap());
        let wanted = usize::try_from(replicas(set)).unwrap();
        let mut expected = None;
        if seen && set.metadata.deletion_timestamp.is_none() && pods.len() != wanted {
            let mut done = PendingWrites { version: 0, deleted: HashSet::new(), since: Instant::now() };
            if pods.len() < wanted {
                done.version = self.create(&api, set, (wanted - pods.len()).min(BURST)).await;
            } else {
                // The least useful pods are deleted first.
                let mut pods: Vec<_> = pods.iter().collect();
                pods.sort_by_key(|pod| (is_ready(pod), pod.spec.as_ref().unwrap().node_name.is_some()));
                let surplus = &pods[..(pods.len() - wanted).min(BURST)];
                join_all(surplus.iter().map(|pod| self.delete(&api, pod))).await;
                done.deleted = surplus.iter().map(|pod| pod.uid().unwrap()).collect();
            }
            expected = Some(done);
        }
        self.status(set, pods).await;
        expected
    }

    /// Creates one pod, then two, then four and so on, so that refusals stay few. Returns the version of the last one.
    async fn create(&self, api: &Api<Pod>, set: &ReplicaSet, count: usize) -> u64 {
        let template = set.spec.as_ref().unwrap().template.clone().unwrap();
        let mut pod = Pod { metadata: template.metadata.unwrap(), spec: template.spec, status: None };
        pod.metadata.generate_name = Some(format!("{}-", set.name_any()));
        pod.metadata.owner_references = Some(vec![controlled_by(set)]);
        let (mut made, mut batch, mut last) = (0, 1, 0);
        while made < count {
            let size = batch.min(count - made);
            let parameters = PostParams::default();
            let answers = join_all((0..size).map(|_| api.create(&parameters, &pod))).await;
            let answers: Vec<_> = answers.into_iter().filter_map(|answer| self.known.tally.bear(WHO, answer)).collect();
            last = answers.iter().map(version).max().unwrap_or(0).max(last);
            if answers.len() < size {
                break;
            }
            (made, batch) = (made + size, batch * 2);
        }
        last
    }

    async fn delete(&self, api: &Api<Pod>, pod: &Pod) {
        let this = Preconditions { uid: pod.uid(), resource_version: None };
        let answer = api.delete(&pod.name_any(), &DeleteParams::default().preconditions(this)).await;
        self.known.tally.bear(WHO, answer);
    }

    async fn status(&self, set: &ReplicaSet, pods: &[Arc<Pod>]) {
        let old = set.status.clone().unwrap_or_default();
        let count = |number: usize| i32::try_from(number).unwrap();
        let ready = pods.iter().filter(|pod| is_ready(pod)).count();
        let some = |number: usize| Some(count(number)).filter(|number| *number > 0);
        let status = ReplicaSetStatus {
            replicas: count(pods.len()),
            fully_labeled_replicas: some(pods.len()),
            ready_replicas: some(ready),
            available_replicas: some(ready),
            observed_generation: set.metadata.generation,
            ..old.clone()
        };
        if status == old {
            return;
        }
        let api: Api<ReplicaSet> = Api::namespaced(self.known.client.clone(), &set.namespace().unwrap());
        let changed = ReplicaSet { status: Some(status), ..set.clone() };
        self.known.tally.bear(WHO, api.replace_status(&set.name_any(), &PostParams::default(), &changed).await);
    }
}

fn is_active(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
