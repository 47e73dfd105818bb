//! Kubelets: they register their nodes, renew leases, run the pods that are bound to them, and remove terminating ones.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;

use super::crew::{Controller, Tally, TaskSet};
use super::mirror::{Mirror, follow};
use super::replica_sets::is_ready;

const WHO: &str = "kubelet";
pub(super) const LEASES: &str = "kube-node-lease";
/// The interval of lease renewals. A real kubelet renews every 10 seconds; here time is faster.
const HEARTBEAT: Duration = Duration::from_secs(1);

struct Kubelet {
    number: usize,
    name: String,
    client: Client,
    tally: Arc<Tally>,
    pods: Arc<Mirror<Pod>>,
    node: Option<Node>,
    lease: Option<Lease>,
    beat: Option<Instant>,
    /// Pods whose status is complete.
    running: HashSet<String>,
    removed: HashSet<String>,
    /// The address that each pod got when it was first seen.
    addresses: HashMap<String, u32>,
}

pub(super) fn node_name(number: usize) -> String {
    format!("node-{number:02}")
}

pub(super) fn start(crew: &mut TaskSet, number: usize, client: &Client, tally: &Arc<Tally>) {
    let changed = Arc::new(Notify::new());
    let name = node_name(number);
    let mine = watcher::Config::default().fields(&format!("spec.nodeName={name}"));
    let pods = follow(crew, Api::all(client.clone()), mine);
    pods.notify_changes(&changed);
    let kubelet = Kubelet {
        number,
        name,
        client: client.clone(),
        tally: tally.clone(),
        pods,
        node: None,
        lease: None,
        beat: None,
        running: HashSet::new(),
        removed: HashSet::new(),
        addresses: HashMap::new(),
    };
    crew.work(changed, kubelet);
}

impl Controller for Kubelet {
    async fn sync(&mut self) {
        if self.node.is_none() {
            self.register().await;
        }
        if self.node.is_some() && self.beat.is_none_or(|beat| beat.elapsed() > HEARTBEAT) {
            self.heartbeat().await;
        }
        if !self.pods.is_listed() {
            return;
        }
        let pods = self.pods.all();
        let (going, staying): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| pod.metadata.deletion_timestamp.is_some());
        let starting: Vec<_> = staying.into_iter().filter(|pod| !self.running.contains(&pod.uid().unwrap())).collect();
        for pod in &starting {
            let next = u32::try_from(self.addresses.len()).unwrap();
            self.addresses.entry(pod.uid().unwrap()).or_insert(next);
        }
        let started = join_all(starting.iter().map(|pod| self.run(pod, self.addresses[&pod.uid().unwrap()]))).await;
        let going: Vec<_> = going.into_iter().filter(|pod| !self.removed.contains(&pod.uid().unwrap())).collect();
        let removed = join_all(going.iter().map(|pod| self.remove(pod))).await;
        self.running.extend(started.into_iter().flatten());
        self.removed.extend(removed.into_iter().flatten());
    }
}

impl Kubelet {
    /// Registers the node as a kubelet does: creates it, or uses the existing one.
    async fn register(&mut self) {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let node = json!({
            "metadata": {"name": self.name, "labels": {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux"}},
            "status": {
                "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"},
                "addresses": [{"type": "Hostname", "address": self.name}],
                "nodeInfo": {
                    "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "fake://1", "kernelVersion": "6",
                    "kubeProxyVersion": "", "kubeletVersion": "v1.36.0", "machineID": "", "operatingSystem": "linux",
                    "osImage": "", "systemUUID": ""
                },
            },
        });
        let made = nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await;
        self.node = match made {
            Err(kube::Error::Api(status)) if status.code == 409 => self.tally.bear(WHO, nodes.get(&self.name).await),
            made => self.tally.bear(WHO, made),
        };
    }

    async fn heartbeat(&mut self) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let now = MicroTime(Timestamp::now());
        let written = match &self.lease {
            Some(lease) => {
                let mut lease = lease.clone();
                lease.spec.as_mut().unwrap().renew_time = Some(now);
                leases.replace(&self.name, &PostParams::default(), &lease).await
            }
            None => {
                let uid = self.node.as_ref().and_then(ResourceExt::uid);
                let lease = json!({
                    "metadata": {
                        "name": self.name,
                        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": uid}],
                    },
                    "spec": {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": now},
                });
                leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await
            }
        };
        let conflict = matches!(&written, Err(kube::Error::Api(status)) if status.code == 409);
        self.lease = self.tally.bear(WHO, written);
        if conflict {
            self.lease = self.tally.bear(WHO, leases.get(&self.name).await);
            return;
        }
        let condition = |kind: &str, holds: &str| {
            json!({"type": kind, "status": holds, "reason": "Said", "message": "", "lastHeartbeatTime": Timestamp::now(),
                "lastTransitionTime": self.node.as_ref().unwrap().metadata.creation_timestamp})
        };
        let status = json!({"status": {"conditions": [
            condition("MemoryPressure", "False"), condition("DiskPressure", "False"), condition("PIDPressure", "False"),
            condition("Ready", "True"),
        ]}});
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patched = nodes.patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(status)).await;
        if self.tally.bear(WHO, patched).is_some() && self.lease.is_some() {
            self.beat = Some(Instant::now());
        }
    }

    /// Writes the creation of the containers, then that they run. Returns the uid once all of it is written.
    async fn run(&self, pod: &Pod, address: u32) -> Option<String> {
        if is_ready(pod) {
            // The pod was already running when this kubelet first saw it.
            return pod.uid();
        }
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let start = pod.metadata.creation_timestamp.clone();
        let host = format!("192.168.{}.{}", self.number / 250, self.number % 250 + 1);
        let address = format!("10.{}.{}.{}", 128 + self.number, address / 250 % 256, address % 250 + 1);
        let container = |state: serde_json::Value, ready: bool| {
            json!({"name": container.name, "image": container.image, "imageID": "", "restartCount": 0, "ready": ready,
                "started": ready, "state": state})
        };
        let conditions = |ready: &str| {
            ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"].map(|kind| {
                let always = matches!(kind, "Initialized" | "PodScheduled");
                json!({"type": kind, "status": if always { "True" } else { ready }, "lastProbeTime": null,
                    "lastTransitionTime": Timestamp::now(), "observedGeneration": pod.metadata.generation})
            })
        };
        let waiting = json!({"waiting": {"reason": "ContainerCreating"}});
        let creating = json!({
            "phase": "Pending", "hostIP": host, "hostIPs": [{"ip": host}], "startTime": start,
            "observedGeneration": pod.metadata.generation,
            "conditions": conditions("False"), "containerStatuses": [container(waiting, false)],
        });
        self.status(pod, creating).await?;
        let running = json!({
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "observedGeneration": pod.metadata.generation,
            "conditions": conditions("True"),
            "containerStatuses": [container(json!({"running": {"startedAt": Timestamp::now()}}), true)],
        });
        self.status(pod, running).await?;
        pod.uid()
    }

    /// Writes the end of the containers, then deletes the pod. Returns the uid once all of it is written.
    async fn remove(&self, pod: &Pod) -> Option<String> {
        let container = &pod.spec.as_ref().unwrap().containers[0];
        let ended = json!({
            "phase": "Succeeded",
            "conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}],
            "containerStatuses": [{
                "name": container.name, "image": container.image, "imageID": "", "restartCount": 0, "ready": false,
                "state": {"terminated": {"exitCode": 0, "finishedAt": Timestamp::now()}, "running": null, "waiting": null},
            }],
        });
        self.status(pod, ended).await?;
        let this = Preconditions { uid: pod.uid(), resource_version: None };
        let now = DeleteParams::default().grace_period(0).preconditions(this);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap());
        self.tally.bear(WHO, pods.delete(&pod.name_any(), &now).await)?;
        pod.uid()
    }

    /// Patches the status. The uid in the patch identifies the pod: another one of the same name is a conflict.
    async fn status(&self, pod: &Pod, status: serde_json::Value) -> Option<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &pod.namespace().unwrap());
        let found = self.tally.bear(WHO, pods.get(&pod.name_any()).await)?;
        if found.uid() != pod.uid() {
            return None;
        }
        let patch = Patch::Strategic(json!({"metadata": {"uid": pod.uid()}, "status": status}));
        self.tally.bear(WHO, pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await)
    }
}
