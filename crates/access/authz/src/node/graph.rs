//! The graph of objects that each node needs: from the pods on a node to the objects that they reference, and on
//! through claims and volumes. A query takes a few lookups, whatever the number of pods.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::Value;
use binnacle_work::{charge, pace};
use parking_lot::RwLock;
use tokio::sync::watch;

use super::references::{Referent, references_of_pod, secrets_of_volume};
use crate::by_name::{ByName, take};
use crate::{Metrics, Readiness};

/// The graph of a cluster.
pub struct NodeGraph {
    state: RwLock<State>,
    /// Ready once every kind has been read.
    pub ready: Readiness,
    requested: watch::Sender<bool>,
    metrics: Option<Arc<Metrics>>,
}

/// The kinds of objects that the graph is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GraphKind {
    Pod,
    PersistentVolume,
    VolumeAttachment,
    ResourceSlice,
    PodCertificateRequest,
}

/// The kinds of objects that the graph authorizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vertex {
    Pod,
    Named(Referent),
    PersistentVolume,
    VolumeAttachment,
    ResourceSlice,
    PodCertificateRequest,
}

/// The number of references that are changed in one step.
const CHUNK: usize = 64;
/// The cost of changing a reference, in steps.
const CHANGE: u64 = 50;

#[derive(Default)]
struct State {
    pods: ByName<Pod>,
    /// For each kind, the number of pods per node that need an object.
    needed: [ByName<HashMap<Text, u32>>; Referent::COUNT],
    volumes: HashMap<Text, Volume>,
    /// The volumes that need a secret.
    secret_volumes: ByName<imbl::HashSet<Text>>,
    /// The nodes of attachments and slices.
    attachments: HashMap<Text, Text>,
    slices: HashMap<Text, Text>,
    /// The nodes of PodCertificateRequests.
    certificate_requests: ByName<Text>,
}

#[derive(Clone, PartialEq, Eq)]
struct Pod {
    node: Text,
    references: Arc<[(Referent, Text)]>,
}

struct Volume {
    /// Namespace and name.
    claim: (Text, Text),
    secrets: Vec<(Text, Text)>,
}

impl GraphKind {
    pub const ALL: [Self; 5] =
        [Self::Pod, Self::PersistentVolume, Self::VolumeAttachment, Self::ResourceSlice, Self::PodCertificateRequest];

    /// Returns group, version and resource.
    pub fn resource(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Pod => ("", "v1", "pods"),
            Self::PersistentVolume => ("", "v1", "persistentvolumes"),
            Self::VolumeAttachment => ("storage.k8s.io", "v1", "volumeattachments"),
            Self::ResourceSlice => ("resource.k8s.io", "v1", "resourceslices"),
            Self::PodCertificateRequest => ("certificates.k8s.io", "v1beta1", "podcertificaterequests"),
        }
    }

    /// Returns the labels of the metrics.
    fn operations(self) -> (&'static str, &'static str) {
        match self {
            Self::Pod => ("AddPod", "DeletePod"),
            Self::PersistentVolume => ("AddPV", "DeletePV"),
            Self::VolumeAttachment => ("AddVolumeAttachment", "DeleteVolumeAttachment"),
            Self::ResourceSlice => ("AddResourceSlice", "DeleteResourceSlice"),
            Self::PodCertificateRequest => ("AddPodCertificateRequest", "DeletePodCertificateRequest"),
        }
    }
}

impl NodeGraph {
    pub fn new(metrics: Option<Arc<Metrics>>) -> Arc<Self> {
        let (state, ready) = (RwLock::default(), Readiness::new(GraphKind::ALL.len()));
        Arc::new(Self { state, ready, requested: watch::Sender::new(false), metrics })
    }

    /// Waits until a node makes a request, since a cluster without nodes needs no graph.
    pub async fn requested(&self) {
        // Cannot fail, since the sender lives as long as the graph.
        let _ = self.requested.subscribe().wait_for(|requested| *requested).await;
    }

    /// Requests the graph and waits for it, up to a timeout.
    pub(super) async fn request(&self) -> bool {
        if self.ready.is_ready() {
            return true;
        }
        self.requested.send_replace(true);
        self.ready.wait().await
    }

    /// Adds or replaces an object, in the version of [`GraphKind::resource`].
    pub fn put(&self, kind: GraphKind, object: &Value) {
        let namespace = object.str_at(&["metadata", "namespace"]);
        let name = object.str_at(&["metadata", "name"]);
        let began = std::time::Instant::now();
        let changed = match kind {
            GraphKind::Pod => {
                let node = Text::from(object.str_at(&["spec", "nodeName"]));
                let references = if node.is_empty() { Vec::new() } else { references_of_pod(object) };
                self.put_pod(namespace, name, Pod { node, references: references.into() })
            }
            GraphKind::PersistentVolume => {
                let claim = object.get("spec").and_then(|spec| spec.get("claimRef")).filter(|claim| !claim.is_null());
                let volume = claim.map(|claim| Volume {
                    claim: (claim.str_at(&["namespace"]).into(), claim.str_at(&["name"]).into()),
                    secrets: secrets_of_volume(object),
                });
                self.state.write().put_volume(name, volume);
                true
            }
            GraphKind::VolumeAttachment => {
                set_node(&mut self.state.write().attachments, name, object.str_at(&["spec", "nodeName"]))
            }
            GraphKind::ResourceSlice => {
                set_node(&mut self.state.write().slices, name, object.str_at(&["spec", "nodeName"]))
            }
            GraphKind::PodCertificateRequest => {
                let mut state = self.state.write();
                let requests = state.certificate_requests.entry(namespace.into()).or_default();
                set_node(requests, name, object.str_at(&["spec", "nodeName"]))
            }
        };
        if changed && let Some(metrics) = &self.metrics {
            metrics.graph_action(kind.operations().0, began.elapsed());
        }
    }

    /// Removes a deleted object.
    pub fn remove(&self, kind: GraphKind, namespace: &str, name: &str) {
        let began = std::time::Instant::now();
        self.remove_object(kind, namespace, name);
        if let Some(metrics) = &self.metrics {
            metrics.graph_action(kind.operations().1, began.elapsed());
        }
    }

    /// Removes the objects for whose namespace and name `keep` returns false.
    pub fn retain(&self, kind: GraphKind, keep: impl Fn(&str, &str) -> bool) {
        let names = self.state.read().names(kind);
        for (namespace, name) in names {
            pace(10);
            if !keep(&namespace, &name) {
                self.remove_object(kind, &namespace, &name);
            }
        }
    }

    /// Returns true if a node needs one of the volumes. There may be many, since all volumes of a storage system may
    /// use the same secret.
    fn needs_any(&self, volumes: &imbl::HashSet<Text>, node: &str) -> bool {
        let mut volumes = volumes.iter().peekable();
        while volumes.peek().is_some() {
            if charge(CHANGE * CHUNK as u64).is_err() {
                return false;
            }
            let state = self.state.read();
            if volumes.by_ref().take(CHUNK).any(|volume| state.needs_volume(volume, node)) {
                return true;
            }
        }
        false
    }

    /// Adds a pod. Returns true if the graph changes. Pods without a node are not part of it.
    fn put_pod(&self, namespace: &str, name: &str, pod: Pod) -> bool {
        let old = self.state.read().pods.get(namespace).and_then(|pods| pods.get(name)).cloned();
        if old.as_ref() == Some(&pod) {
            return false;
        }
        // Additions come first and removals last, so that the node never loses access to what it still needs.
        let is_new = !pod.node.is_empty();
        if is_new {
            let node = &pod.node;
            self.change_in_chunks(&pod, |state, referent, name| state.add_need(referent, namespace, name, node));
            self.state.write().pods.entry(namespace.into()).or_default().insert(name.into(), pod.clone());
        } else {
            take(&mut self.state.write().pods, namespace, name);
        }
        if let Some(old) = &old {
            self.remove_references(namespace, old);
        }
        old.is_some() || is_new
    }

    fn remove_object(&self, kind: GraphKind, namespace: &str, name: &str) {
        if kind != GraphKind::Pod {
            return self.state.write().remove(kind, namespace, name);
        }
        let pod = take(&mut self.state.write().pods, namespace, name);
        if let Some(pod) = pod {
            self.remove_references(namespace, &pod);
        }
    }

    /// Removes the references of a pod.
    fn remove_references(&self, namespace: &str, pod: &Pod) {
        self.change_in_chunks(pod, |state, referent, name| state.remove_need(referent, namespace, name, &pod.node));
    }

    /// Changes references in chunks. A pod may have any number of them, so the lock is released between chunks.
    fn change_in_chunks(&self, pod: &Pod, mut change: impl FnMut(&mut State, Referent, &Text)) {
        for chunk in pod.references.chunks(CHUNK) {
            pace(CHANGE * chunk.len() as u64);
            let mut state = self.state.write();
            chunk.iter().for_each(|(referent, name)| change(&mut state, *referent, name));
        }
    }

    /// Returns true if a node needs an object.
    pub(super) fn relates(&self, node: &str, vertex: Vertex, namespace: &str, name: &str) -> bool {
        let state = self.state.read();
        match vertex {
            Vertex::Pod => {
                state.pods.get(namespace).and_then(|pods| pods.get(name)).is_some_and(|pod| pod.node == node)
            }
            Vertex::Named(Referent::Secret) => {
                if state.needs(Referent::Secret, namespace, name, node) {
                    return true;
                }
                let volumes = state.secret_volumes.get(namespace).and_then(|secrets| secrets.get(name)).cloned();
                drop(state);
                volumes.is_some_and(|volumes| self.needs_any(&volumes, node))
            }
            Vertex::Named(referent) => state.needs(referent, namespace, name, node),
            Vertex::PersistentVolume => state.needs_volume(name, node),
            Vertex::VolumeAttachment => state.attachments.get(name).is_some_and(|owner| owner == node),
            Vertex::ResourceSlice => state.slices.get(name).is_some_and(|owner| owner == node),
            Vertex::PodCertificateRequest => {
                let requests = state.certificate_requests.get(namespace);
                requests.and_then(|requests| requests.get(name)).is_some_and(|owner| owner == node)
            }
        }
    }
}

impl State {
    /// Adds a pod to the count of those on a node that need an object.
    fn add_need(&mut self, referent: Referent, namespace: &str, name: &Text, node: &Text) {
        let needed = self.needed[referent as usize].entry(namespace.into()).or_default();
        *needed.entry(name.clone()).or_default().entry(node.clone()).or_default() += 1;
    }

    fn remove_need(&mut self, referent: Referent, namespace: &str, name: &Text, node: &Text) {
        let needed = &mut self.needed[referent as usize];
        let Some(nodes) = needed.get_mut(namespace).and_then(|named| named.get_mut(name)) else { return };
        if let Some(count) = nodes.get_mut(node) {
            *count -= 1;
            if *count == 0 {
                nodes.remove(node);
            }
        }
        if nodes.is_empty() {
            take(needed, namespace, name);
        }
    }

    fn put_volume(&mut self, name: &str, volume: Option<Volume>) {
        self.remove(GraphKind::PersistentVolume, "", name);
        // A volume without a claim is not needed by any node.
        let Some(volume) = volume else { return };
        for (namespace, secret) in &volume.secrets {
            let volumes = self.secret_volumes.entry(namespace.clone()).or_default().entry(secret.clone()).or_default();
            volumes.insert(name.into());
        }
        self.volumes.insert(name.into(), volume);
    }

    fn remove(&mut self, kind: GraphKind, namespace: &str, name: &str) {
        match kind {
            // Pods are removed in chunks.
            GraphKind::Pod => {}
            GraphKind::PersistentVolume => {
                let Some(volume) = self.volumes.remove(name) else { return };
                for (namespace, secret) in &volume.secrets {
                    let volumes = self.secret_volumes.get_mut(namespace).and_then(|named| named.get_mut(secret));
                    let Some(volumes) = volumes else { continue };
                    volumes.remove(name);
                    if volumes.is_empty() {
                        take(&mut self.secret_volumes, namespace, secret);
                    }
                }
            }
            GraphKind::VolumeAttachment => drop(self.attachments.remove(name)),
            GraphKind::ResourceSlice => drop(self.slices.remove(name)),
            GraphKind::PodCertificateRequest => drop(take(&mut self.certificate_requests, namespace, name)),
        }
    }

    fn names(&self, kind: GraphKind) -> Vec<(Text, Text)> {
        let cluster =
            |names: &mut dyn Iterator<Item = &Text>| names.map(|name| (Text::default(), name.clone())).collect();
        match kind {
            GraphKind::Pod => namespaced(&self.pods),
            GraphKind::PersistentVolume => cluster(&mut self.volumes.keys()),
            GraphKind::VolumeAttachment => cluster(&mut self.attachments.keys()),
            GraphKind::ResourceSlice => cluster(&mut self.slices.keys()),
            GraphKind::PodCertificateRequest => namespaced(&self.certificate_requests),
        }
    }

    fn needs(&self, referent: Referent, namespace: &str, name: &str, node: &str) -> bool {
        let nodes = self.needed[referent as usize].get(namespace).and_then(|named| named.get(name));
        nodes.is_some_and(|nodes| nodes.contains_key(node))
    }

    fn needs_volume(&self, volume: &str, node: &str) -> bool {
        let claim = self.volumes.get(volume).map(|volume| &volume.claim);
        claim.is_some_and(|(namespace, name)| self.needs(Referent::Claim, namespace, name, node))
    }
}

/// Returns the namespace and name of each object.
fn namespaced<T>(objects: &ByName<T>) -> Vec<(Text, Text)> {
    let names = |(namespace, named): (&Text, &HashMap<Text, T>)| -> Vec<(Text, Text)> {
        named.keys().map(|name| (namespace.clone(), name.clone())).collect()
    };
    objects.iter().flat_map(names).collect()
}

/// Sets the node of an entry. Returns true if it changed.
fn set_node(map: &mut HashMap<Text, Text>, name: &str, node: &str) -> bool {
    if node.is_empty() {
        return map.remove(name).is_some();
    }
    map.insert(name.into(), node.into()).is_none_or(|old| old != node)
}
