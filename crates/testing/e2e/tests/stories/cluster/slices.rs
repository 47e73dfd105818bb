//! The endpoint slice controller: lists the pods of services.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointSlice};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;

use super::crew::{Controller, TaskSet};
use super::informers::Informers;
use super::mirror::{controlled_by, version};
use super::replica_sets::is_ready;

const WHO: &str = "endpoint slice controller";
pub(super) const SERVICE: &str = "kubernetes.io/service-name";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The maximum number of endpoints in a slice, the controller manager's default.
const MOST: usize = 100;
/// The longest wait for a written slice to appear in the mirror.
const TIMEOUT: Duration = Duration::from_secs(5);

struct Slices {
    known: Informers,
    /// The version and time of the last slice written for a service.
    written: HashMap<String, (u64, Instant)>,
}

pub(super) fn start(crew: &mut TaskSet, known: &Informers) {
    let changed = Arc::new(Notify::new());
    known.services.notify_changes(&changed);
    known.pods.notify_changes(&changed);
    known.slices.notify_changes(&changed);
    crew.work(changed, Slices { known: known.clone(), written: HashMap::new() });
}

impl Controller for Slices {
    async fn sync(&mut self) {
        if !self.known.are_listed() {
            return;
        }
        let mut placed: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
        for pod in self.known.pods.all() {
            placed.entry(pod.namespace().unwrap()).or_default().push(pod);
        }
        let slices = self.known.slices.all();
        let services: Vec<_> = self
            .known
            .services
            .all()
            .into_iter()
            .filter(|service| service.metadata.deletion_timestamp.is_none() && selector(service).is_some())
            .filter(|service| {
                let written = self.written.get(&service.uid().unwrap());
                written.is_none_or(|(version, at)| self.known.slices.has_seen(*version) || at.elapsed() > TIMEOUT)
            })
            .collect();
        let none = Vec::new();
        let work = services.iter().map(|service| {
            let namespace = service.namespace().unwrap();
            let pods = placed.get(&namespace).unwrap_or(&none);
            let slices = slices.iter().filter(|slice| is_of(slice, service)).cloned().collect();
            self.reconcile(service, pods, slices)
        });
        let written = join_all(work).await;
        for (service, version) in services.iter().zip(written) {
            if version > 0 {
                self.written.insert(service.uid().unwrap(), (version, Instant::now()));
            }
        }
    }
}

impl Slices {
    /// Returns the version of the last slice that was written, 0 if none was.
    async fn reconcile(&self, service: &Service, pods: &[Arc<Pod>], slices: Vec<Arc<EndpointSlice>>) -> u64 {
        let api: Api<EndpointSlice> = Api::namespaced(self.known.client.clone(), &service.namespace().unwrap());
        let selector = selector(service).unwrap();
        let mut wanted: BTreeMap<String, Endpoint> = pods
            .iter()
            .filter(|pod| selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value)))
            .filter_map(|pod| Some((pod.uid().unwrap(), endpoint(pod)?)))
            .collect();
        // Endpoints stay in their slices.
        let mut plans: Vec<(Option<Arc<EndpointSlice>>, Vec<Endpoint>)> = Vec::new();
        for slice in slices {
            let kept = slice.endpoints.iter().flatten().filter_map(|endpoint| wanted.remove(&uid(endpoint)?)).collect();
            plans.push((Some(slice), kept));
        }
        for endpoint in wanted.into_values() {
            match plans.iter_mut().find(|(_, endpoints)| endpoints.len() < MOST) {
                Some((_, endpoints)) => endpoints.push(endpoint),
                None => plans.push((None, vec![endpoint])),
            }
        }
        let mut last = 0;
        for (slice, endpoints) in plans {
            let answer = match slice {
                Some(slice) if endpoints.is_empty() => {
                    let answer = api.delete(&slice.name_any(), &DeleteParams::default()).await;
                    self.known.tally.bear(WHO, answer);
                    continue;
                }
                Some(slice) if slice.endpoints.as_ref() == Some(&endpoints) => continue,
                Some(slice) => {
                    let changed = EndpointSlice { endpoints: Some(endpoints), ..(*slice).clone() };
                    api.replace(&slice.name_any(), &PostParams::default(), &changed).await
                }
                None => api.create(&PostParams::default(), &new_slice(service, endpoints)).await,
            };
            let written = self.known.tally.bear(WHO, answer);
            last = written.as_ref().map_or(0, version).max(last);
        }
        last
    }
}

fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    service.spec.as_ref()?.selector.as_ref()
}

fn is_of(slice: &EndpointSlice, service: &Service) -> bool {
    slice.namespace() == service.namespace()
        && slice.labels().get(SERVICE) == Some(&service.name_any())
        && slice.labels().get(MANAGED_BY).is_some_and(|manager| manager == MANAGER)
}

/// Returns the uid of the pod of an endpoint.
pub(super) fn uid(endpoint: &Endpoint) -> Option<String> {
    endpoint.target_ref.as_ref()?.uid.clone()
}

fn endpoint(pod: &Pod) -> Option<Endpoint> {
    let status = pod.status.as_ref()?;
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return None;
    }
    let (ready, terminating) = (is_ready(pod), pod.metadata.deletion_timestamp.is_some());
    Some(Endpoint {
        addresses: vec![status.pod_ip.clone()?],
        conditions: Some(EndpointConditions {
            ready: Some(ready && !terminating),
            serving: Some(ready),
            terminating: Some(terminating),
        }),
        node_name: pod.spec.as_ref()?.node_name.clone(),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.namespace(),
            name: Some(pod.name_any()),
            uid: pod.uid(),
            ..ObjectReference::default()
        }),
        ..Endpoint::default()
    })
}

fn new_slice(service: &Service, endpoints: Vec<Endpoint>) -> EndpointSlice {
    let slice = json!({
        "metadata": {
            "generateName": format!("{}-", service.name_any()),
            "namespace": service.namespace(),
            "labels": {SERVICE: service.name_any(), MANAGED_BY: MANAGER},
            "ownerReferences": [controlled_by(service)],
        },
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        "endpoints": endpoints,
    });
    serde_json::from_value(slice).unwrap()
}
