//! The scheduler: chooses a node for every pod. Two of them run at once and race for each pod.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Binding, Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;

use super::crew::{Controller, Tally, TaskSet};
use super::mirror::{Mirror, follow};

const WHO: &str = "scheduler";
/// The number of pods bound at once.
const AT_ONCE: usize = 32;

struct Scheduler {
    client: Client,
    tally: Arc<Tally>,
    bound: Arc<AtomicUsize>,
    nodes: Arc<Mirror<Node>>,
    pods: Arc<Mirror<Pod>>,
    again: Arc<Notify>,
    /// True for the scheduler that takes pods from the end, so that two of them meet in the middle.
    backwards: bool,
    /// Pods that were bound and are not bound in the mirror yet.
    assumed: HashMap<String, String>,
}

/// Starts a scheduler. Returns the number of pods that it bound.
pub(super) fn start(crew: &mut TaskSet, client: &Client, tally: &Arc<Tally>, backwards: bool) -> Arc<AtomicUsize> {
    let changed = Arc::new(Notify::new());
    let (client, tally, bound) = (client.clone(), tally.clone(), Arc::<AtomicUsize>::default());
    let nodes = follow(crew, Api::all(client.clone()), Default::default());
    nodes.notify_changes(&changed);
    let alive = watcher::Config::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    let pods = follow(crew, Api::all(client.clone()), alive);
    pods.notify_changes(&changed);
    let work = Scheduler {
        client,
        tally,
        bound: bound.clone(),
        nodes,
        pods,
        again: changed.clone(),
        backwards,
        assumed: HashMap::new(),
    };
    crew.work(changed, work);
    bound
}

impl Controller for Scheduler {
    async fn sync(&mut self) {
        let nodes: Vec<_> =
            self.nodes.all().into_iter().filter(|node| is_ready(node)).map(|node| node.name_any()).collect();
        if !self.pods.is_listed() || nodes.is_empty() {
            return;
        }
        let mut pods = self.pods.all();
        if self.backwards {
            pods.reverse();
        }
        let known: HashSet<_> = pods.iter().map(|pod| pod.uid().unwrap()).collect();
        let mut load: HashMap<&str, usize> = nodes.iter().map(|node| (node.as_str(), 0)).collect();
        let assigned = |pod: &Pod| pod.spec.as_ref().unwrap().node_name.clone();
        self.assumed.retain(|uid, _| known.contains(uid));
        for pod in &pods {
            let uid = pod.uid().unwrap();
            if assigned(pod).is_some() {
                self.assumed.remove(&uid);
            }
            let node = assigned(pod).or_else(|| self.assumed.get(&uid).cloned());
            if let Some(count) = node.and_then(|node| load.get_mut(node.as_str())) {
                *count += 1;
            }
        }
        let mut bindings = Vec::new();
        for pod in pods.iter().filter(|pod| assigned(pod).is_none() && pod.metadata.deletion_timestamp.is_none()) {
            if self.assumed.contains_key(&pod.uid().unwrap()) {
                continue;
            }
            let node = nodes.iter().min_by_key(|node| load[node.as_str()]).unwrap();
            *load.get_mut(node.as_str()).unwrap() += 1;
            bindings.push((pod.clone(), node.clone()));
            if bindings.len() == AT_ONCE {
                self.again.notify_one();
                break;
            }
        }
        let answers = join_all(bindings.iter().map(|(pod, node)| self.bind(pod, node))).await;
        for ((pod, node), bound) in bindings.into_iter().zip(answers) {
            if bound {
                self.assumed.insert(pod.uid().unwrap(), node);
            }
        }
    }
}

impl Scheduler {
    /// Binds a pod. Returns true if this scheduler bound it.
    async fn bind(&self, pod: &Pod, node: &str) -> bool {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap());
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": pod.name_any(), "namespace": pod.namespace(), "uid": pod.uid()},
            "target": {"kind": "Node", "name": node},
        });
        let binding: Binding = serde_json::from_value(binding).unwrap();
        let answer: Result<Status, _> =
            api.create_subresource("binding", &pod.name_any(), &PostParams::default(), &binding).await;
        if self.tally.bear(WHO, answer).is_none() {
            return false;
        }
        self.bound.fetch_add(1, Ordering::Relaxed);
        let events: Api<Event> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap());
        let event = json!({
            "metadata": {"name": format!("{}.{:x}", pod.name_any(), Timestamp::now().as_nanosecond())},
            "involvedObject": pod.object_ref(&()),
            "type": "Normal", "reason": "Scheduled", "source": {"component": WHO},
            "message": format!("Successfully assigned {} to {node}", pod.name_any()),
        });
        let event = events.create(&PostParams::default(), &serde_json::from_value(event).unwrap()).await;
        self.tally.bear(WHO, event);
        true
    }
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && node.spec.as_ref().is_none_or(|spec| spec.unschedulable != Some(true))
}
