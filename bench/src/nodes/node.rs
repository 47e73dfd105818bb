//! One simulated node: what it watches and what it writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

/// The watches of a node, by agent. `{node}` is the node's name and `{namespace}` that of its pod. Eight are
/// selected by node.
const WATCHES: [&str; 18] = [
    // kubelet
    "/api/v1/pods?fieldSelector=spec.nodeName%3D{node}",
    "/api/v1/nodes?fieldSelector=metadata.name%3D{node}",
    SERVICES,
    "/apis/node.k8s.io/v1/runtimeclasses?",
    "/apis/storage.k8s.io/v1/csidrivers?",
    "/apis/storage.k8s.io/v1/csinodes?fieldSelector=metadata.name%3D{node}",
    "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3D{node}",
    "/api/v1/namespaces/{namespace}/configmaps?fieldSelector=metadata.name%3Dkube-root-ca.crt",
    "/api/v1/namespaces/{namespace}/secrets?fieldSelector=metadata.name%3Dpull",
    // kube-proxy
    "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fheadless%2C%21service.kubernetes.io%2Fservice-proxy-name",
    "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=%21service.kubernetes.io%2Fheadless",
    "/api/v1/nodes?fieldSelector=metadata.name%3D{node}",
    "/apis/networking.k8s.io/v1/servicecidrs?",
    // the network's agent
    "/api/v1/pods?fieldSelector=spec.nodeName%3D{node}",
    "/api/v1/nodes?fieldSelector=metadata.name%3D{node}",
    "/api/v1/namespaces?",
    "/apis/networking.k8s.io/v1/networkpolicies?",
    // an agent for logs
    "/api/v1/pods?fieldSelector=spec.nodeName%3D{node}",
];
const SERVICES: &str = "/api/v1/services?";
/// The watches that get each change of a service.
pub(crate) const OF_SERVICES: usize = 2;
pub(crate) const WATCHES_OF_NODE: usize = WATCHES.len();
pub(crate) const NAMESPACES: usize = 50;

/// A node's state, which outlives its connections.
pub(crate) struct Node {
    pub(crate) name: String,
    namespace: String,
    /// The version of its lease.
    pub(crate) lease: AtomicU64,
    /// The newest version that each watch has seen.
    seen: [AtomicU64; WATCHES_OF_NODE],
}

impl Node {
    pub(crate) fn new(n: usize) -> Arc<Self> {
        let namespace = format!("bench-{}", n % NAMESPACES);
        Arc::new(Self { name: format!("node-{n:06}"), namespace, lease: AtomicU64::new(0), seen: Default::default() })
    }

    /// Starts all watches at a version.
    pub(crate) fn begin_at(&self, version: u64) {
        self.seen.iter().for_each(|seen| seen.store(version, Ordering::Relaxed));
    }

    /// Starts a watch at a version.
    pub(crate) fn begin_watch_at(&self, at: usize, version: u64) {
        self.seen[at].store(version, Ordering::Relaxed);
    }

    /// Returns the path of what a watch selects.
    pub(crate) fn list(&self, at: usize) -> String {
        WATCHES[at].replace("{node}", &self.name).replace("{namespace}", &self.namespace)
    }

    /// Returns the path of a watch that continues where it was.
    pub(crate) fn watch(&self, at: usize) -> String {
        let path = self.list(at);
        let version = self.seen[at].load(Ordering::Relaxed);
        format!("{path}&watch=true&allowWatchBookmarks=true&timeoutSeconds=3000&resourceVersion={version}")
    }

    /// Notes the newest version in a piece of a watch. Returns the number of events of services.
    pub(crate) fn read(&self, at: usize, data: &[u8]) -> u64 {
        const VERSION: &[u8] = b"\"resourceVersion\":\"";
        if let Some(found) = memchr::memmem::rfind(data, VERSION) {
            let digits = data[found + VERSION.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            let version = digits.fold(0, |version, digit| version * 10 + u64::from(digit - b'0'));
            self.seen[at].fetch_max(version, Ordering::Relaxed);
        }
        if WATCHES[at].starts_with(SERVICES) {
            memchr::memmem::find_iter(data, b"\"MODIFIED\"").count() as u64
        } else {
            0
        }
    }

    pub(crate) fn object(&self) -> Value {
        json!({"metadata": {"name": self.name, "labels": {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux"}}})
    }

    /// Returns the patch of a status as a kubelet sends it every five minutes.
    pub(crate) fn status(&self, turn: usize) -> Value {
        let time = format!("2026-01-01T00:{:02}:{:02}Z", turn / 60 % 60, turn % 60);
        let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(|kind| {
            json!({
                "type": kind, "status": if kind == "Ready" { "True" } else { "False" }, "reason": "KubeletHasEnough",
                "message": "kubelet has enough of it", "lastHeartbeatTime": time, "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        });
        let images: Vec<Value> = (0..20)
            .map(
                |n| json!({"names": [format!("registry.example.com/team/image-{n}:1.0")], "sizeBytes": 52_428_800 + n}),
            )
            .collect();
        json!({"status": {"conditions": conditions, "images": images, "capacity": {"cpu": "64", "memory": "256Gi", "pods": "110"}}})
    }

    /// Returns the path and the body of the node's pod.
    pub(crate) fn pod(&self) -> (String, Value) {
        let spec = json!({
            "nodeName": self.name, "automountServiceAccountToken": false,
            "containers": [{"name": "web", "image": "registry.example.com/team/web:1.42.7"}],
        });
        let pod = json!({"metadata": {"name": format!("pod-{}", self.name), "labels": {"app": "web"}}, "spec": spec});
        (format!("/api/v1/namespaces/{}/pods", self.namespace), pod)
    }
}
