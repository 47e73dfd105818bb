//! A cluster at work: the calls of the controller manager, the scheduler and many kubelets, concurrently and through
//! one or two servers, which are killed meanwhile. In the end the cluster has reached the desired state.
//!
//! `docs/cluster-story.md` describes the test. `BINNACLE_CLUSTER=full` runs it with 50 nodes and 1,000 pods, which
//! takes minutes with a debug build.

mod collector;
mod crew;
mod deployments;
mod informers;
mod kubelets;
mod mirror;
mod namespaces;
mod replica_sets;
mod scheduler;
mod slices;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::{Etcd, Server};
use futures::future::join_all;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use crew::{Tally, TaskSet};
use deployments::{replicas, replicas_of};
use informers::Informers;

/// The maximum time for the cluster to reach a desired state.
const TIMEOUT: Duration = Duration::from_secs(300);
const NAMESPACES: [&str; 2] = ["blue", "green"];

/// The size of the cluster.
struct Size {
    nodes: usize,
    /// Per namespace.
    deployments: usize,
    pods_each: i32,
}

impl Size {
    fn chosen() -> Self {
        match std::env::var("BINNACLE_CLUSTER").as_deref() {
            Ok("full") => Self { nodes: 50, deployments: 5, pods_each: 100 },
            _ => Self { nodes: 8, deployments: 4, pods_each: 10 },
        }
    }

    fn pods(&self) -> usize {
        NAMESPACES.len() * self.deployments * self.pods_each as usize
    }
}

struct Cluster {
    size: Size,
    servers: Vec<Server>,
    etcd: Option<Etcd>,
    clients: Vec<Client>,
    crew: TaskSet,
    tally: Arc<Tally>,
    bound: Vec<Arc<AtomicUsize>>,
    began: Instant,
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_a_cluster_on_the_embedded_store() {
    let server = Server::durable();
    story(Cluster::start(vec![server], None).await).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn runs_a_cluster_with_two_servers_on_etcd() {
    let etcd = Etcd::single();
    let servers = (0..2).map(|_| Server::durable_with(&[&etcd.servers()])).collect();
    story(Cluster::start(servers, Some(etcd)).await).await;
}

async fn story(mut cluster: Cluster) {
    let size = &cluster.size;
    let names: Vec<String> = (0..size.deployments).map(|n| format!("web-{n}")).collect();
    let everything =
        || NAMESPACES.iter().flat_map(|namespace| names.iter().map(move |name| (*namespace, name.as_str())));
    let client = cluster.clients[0].clone();
    for namespace in NAMESPACES {
        crate::namespace(&client, namespace).await;
    }
    join_all(everything().map(|(namespace, name)| deploy(&client, namespace, name, cluster.size.pods_each))).await;
    cluster.rolled_out("first rollout").await;
    let pods = cluster.check(cluster.size.pods()).await;
    assert!(pods.iter().all(|pod| image(pod) == "registry.test/web:1"));

    // All of them roll to another image while other clients write to the same objects, and servers are killed.
    let meddling = tokio::spawn(meddle(client.clone(), NAMESPACES[0], cluster.tally.clone()));
    for (namespace, name) in everything() {
        let template =
            json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "registry.test/web:2"}]}}}});
        insist(async || {
            let api: Api<Deployment> = Api::namespaced(client.clone(), namespace);
            api.patch(name, &PatchParams::default(), &Patch::Strategic(template.clone())).await
        })
        .await;
    }
    cluster.die().await;
    cluster.rolled_out("second rollout").await;
    meddling.abort();
    assert!(meddling.await.unwrap_err().is_cancelled(), "the meddler failed");
    let pods = cluster.check(cluster.size.pods()).await;
    assert!(pods.iter().all(|pod| image(pod) == "registry.test/web:2"));

    // Scales down and up through the scale subresource.
    let api: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACES[1]);
    for replicas in [1, cluster.size.pods_each] {
        let scale = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        insist(async || api.patch_scale("web-0", &PatchParams::default(), &scale).await).await;
        cluster.rolled_out("scaling").await;
        let missing = usize::try_from(cluster.size.pods_each - replicas).unwrap();
        cluster.check(cluster.size.pods() - missing).await;
        let scale = api.get_scale("web-0").await.unwrap();
        assert_eq!(scale.status.unwrap().replicas, replicas);
    }

    cluster.deletions().await;
    cluster.end().await;
}

impl Cluster {
    async fn start(servers: Vec<Server>, etcd: Option<Etcd>) -> Self {
        let began = Instant::now();
        let size = Size::chosen();
        let mut crew = TaskSet::default();
        let tally = Arc::new(Tally::default());
        let clients = join_all(servers.iter().map(Server::kube)).await;
        let of = |n: usize| &clients[n % clients.len()];
        let known = Informers::start(&mut crew, of(0), &tally);
        deployments::start(&mut crew, &known);
        replica_sets::start(&mut crew, &known);
        slices::start(&mut crew, &known);
        namespaces::start(&mut crew, &known);
        collector::start(&mut crew, of(1), &tally).await;
        let bound = (0..2).map(|n| scheduler::start(&mut crew, of(n), &tally, n == 1)).collect();
        for n in 0..size.nodes {
            // Each kubelet has its own connection.
            let client = servers[n % servers.len()].kube().await;
            kubelets::start(&mut crew, n, &client, &tally);
        }
        Self { size, servers, etcd, clients, crew, tally, bound, began }
    }

    /// Kills and restarts every server, and etcd as well.
    async fn die(&mut self) {
        let pause = Duration::from_millis(300);
        for server in &mut self.servers {
            tokio::time::sleep(pause).await;
            tokio::task::block_in_place(|| server.restart());
        }
        if let Some(etcd) = &mut self.etcd {
            tokio::time::sleep(pause).await;
            tokio::task::block_in_place(|| etcd.restart(0));
        }
    }

    /// Polls until the result is true; fails if a controller failed.
    async fn until(&mut self, what: &str, mut done: impl AsyncFnMut(&Client) -> Result<bool, kube::Error>) {
        let began = Instant::now();
        loop {
            self.crew.check();
            let answer = done(&self.clients[0]).await;
            if self.tally.bear(what, answer) == Some(true) {
                break;
            }
            assert!(began.elapsed() < TIMEOUT, "waited in vain: {what}, {:?}", self.tally);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        println!("{:?} {what}: took {:?}", self.began.elapsed(), began.elapsed());
    }

    /// Waits until the status of every deployment is complete.
    async fn rolled_out(&mut self, what: &str) {
        self.until(what, async |client| {
            let deployments: Api<Deployment> = Api::all(client.clone());
            let deployments = deployments.list(&ListParams::default()).await?;
            Ok(deployments.items.iter().all(|deployment| {
                let status = deployment.status.clone().unwrap_or_default();
                let wanted = Some(replicas_of(deployment));
                let counts =
                    [status.replicas, status.updated_replicas, status.ready_replicas, status.available_replicas];
                status.observed_generation == deployment.metadata.generation
                    && counts.iter().all(|count| *count == wanted)
            }))
        })
        .await;
    }

    /// Checks that exactly the desired objects exist, in every kind of list.
    async fn check(&mut self, count: usize) -> Vec<Pod> {
        let client = self.clients[0].clone();
        // Replaced ones are deleted later.
        self.until("pods", async |client| {
            let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await?;
            Ok(pods.items.iter().all(|pod| pod.metadata.deletion_timestamp.is_none()) && pods.items.len() == count)
        })
        .await;
        let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
        let nodes: BTreeSet<_> = nodes.iter().map(ResourceExt::name_any).collect();
        assert_eq!(nodes.len(), self.size.nodes);
        let sets = Api::<ReplicaSet>::all(client.clone()).list(&ListParams::default()).await.unwrap().items;
        let mut owned: BTreeMap<&str, i32> = BTreeMap::new();
        for pod in &pods {
            let status = pod.status.as_ref().unwrap();
            let name = pod.name_any();
            assert_eq!(status.phase.as_deref(), Some("Running"), "{name}");
            assert!(replica_sets::is_ready(pod), "{name}");
            assert!(nodes.contains(pod.spec.as_ref().unwrap().node_name.as_ref().unwrap()), "{name}");
            let bindings = status.conditions.iter().flatten().filter(|condition| condition.type_ == "PodScheduled");
            assert_eq!(bindings.count(), 1, "{name}");
            *owned.entry(mirror::controller(pod).unwrap()).or_default() += 1;
        }
        for set in &sets {
            let uid = set.uid().unwrap();
            assert_eq!(owned.remove(uid.as_str()).unwrap_or(0), replicas(set), "{}", set.name_any());
        }
        assert!(owned.is_empty(), "pods of no replica set: {owned:?}");
        // The indexed lists that kubelets read agree with the full list.
        for node in &nodes {
            let here = ListParams::default().fields(&format!("spec.nodeName={node}"));
            let here = Api::<Pod>::all(client.clone()).list(&here).await.unwrap().items;
            let of_node = |pod: &&Pod| pod.spec.as_ref().unwrap().node_name.as_ref() == Some(node);
            let names = |pods: Vec<&Pod>| pods.iter().map(|pod| mirror::key(*pod)).collect::<Vec<_>>();
            assert_eq!(names(here.iter().collect()), names(pods.iter().filter(of_node).collect()), "{node}");
        }
        self.slices(&pods).await;
        self.leases(&nodes).await;
        pods
    }

    /// Checks that each ready pod is in exactly one slice of its service, once.
    async fn slices(&mut self, pods: &[Pod]) {
        let mut want: BTreeMap<(String, String), BTreeMap<String, String>> = BTreeMap::new();
        for pod in pods {
            let address = pod.status.as_ref().unwrap().pod_ip.clone().unwrap();
            let service = (pod.namespace().unwrap(), pod.labels()["app"].clone());
            want.entry(service).or_default().insert(pod.uid().unwrap(), address);
        }
        self.until("endpoint slices", async |client| {
            let managed = ListParams::default().labels(slices::SERVICE);
            let slices = Api::<EndpointSlice>::all(client.clone()).list(&managed).await?.items;
            let mut found: BTreeMap<(String, String), BTreeMap<String, String>> = BTreeMap::new();
            let mut count = 0;
            for slice in slices.iter().filter(|slice| NAMESPACES.contains(&slice.namespace().unwrap().as_str())) {
                let service = (slice.namespace().unwrap(), slice.labels()[slices::SERVICE].clone());
                for endpoint in slice.endpoints.iter().flatten() {
                    let conditions = endpoint.conditions.as_ref().unwrap();
                    if conditions.ready == Some(true) {
                        count += 1;
                        let uid = slices::uid(endpoint).unwrap();
                        found.entry(service.clone()).or_default().insert(uid, endpoint.addresses[0].clone());
                    } else {
                        count += 1_000_000;
                    }
                }
            }
            Ok(found == want && count == pods.len())
        })
        .await;
    }

    /// Checks that every node has a lease that is being renewed.
    async fn leases(&mut self, nodes: &BTreeSet<String>) {
        let read = async |client: &Client| {
            let leases =
                Api::<Lease>::namespaced(client.clone(), kubelets::LEASES).list(&ListParams::default()).await?;
            let renewed =
                leases.items.into_iter().map(|lease| (lease.name_any(), lease.spec.unwrap().renew_time.unwrap()));
            Ok::<_, kube::Error>(renewed.collect::<BTreeMap<_, _>>())
        };
        let before = read(&self.clients[0]).await.unwrap();
        assert!(before.keys().eq(nodes));
        self.until("leases are renewed", async |client| {
            let now = read(client).await?;
            Ok(now.keys().eq(before.keys()) && now.iter().all(|(node, time)| before[node] < *time))
        })
        .await;
    }

    /// Deletes owners with each of the three propagation policies.
    async fn deletions(&mut self) {
        let client = self.clients[0].clone();
        let namespace = NAMESPACES[0];
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        let sets: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let labels = |name: &str| ListParams::default().labels(&format!("app={name}"));
        let ways = [
            ("web-0", DeleteParams::background()),
            ("web-1", DeleteParams::foreground()),
            ("web-2", DeleteParams::orphan()),
        ];
        for (name, way) in &ways {
            deployments.delete(name, way).await.unwrap();
        }
        assert!(deployments.get_opt("web-0").await.unwrap().is_none());
        self.until("the foreground deletion", async |_| {
            let gone = deployments.get_opt("web-1").await?.is_none();
            if gone {
                let left = sets.list(&labels("web-1")).await?.items.len();
                assert_eq!(left, 0, "the owner went before its replica sets");
            }
            Ok(gone)
        })
        .await;
        self.until("the orphaning", async |_| Ok(deployments.get_opt("web-2").await?.is_none())).await;
        for set in sets.list(&labels("web-2")).await.unwrap() {
            assert!(set.owner_references().is_empty() && set.metadata.deletion_timestamp.is_none());
        }
        self.until("dependents are gone", async |_| {
            let mut left = 0;
            for name in ["web-0", "web-1"] {
                left += sets.list(&labels(name)).await?.items.len() + pods.list(&labels(name)).await?.items.len();
            }
            Ok(left == 0)
        })
        .await;
        let each = usize::try_from(self.size.pods_each).unwrap();
        self.check(self.size.pods() - 2 * each).await;
    }

    /// Deletes namespaces with everything in them, and nodes with their leases, and checks that nothing is left.
    async fn end(mut self) {
        let client = self.clients[0].clone();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for namespace in NAMESPACES {
            namespaces.delete(namespace, &DeleteParams::default()).await.unwrap();
        }
        self.until("the namespaces are gone", async |client| {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            let left = namespaces.list(&ListParams::default()).await?;
            Ok(!left.items.iter().any(|namespace| NAMESPACES.contains(&namespace.name_any().as_str())))
        })
        .await;
        for resource in namespaces::namespaced(&client).await.unwrap() {
            for namespace in NAMESPACES {
                let api: Api<kube::api::DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
                let left = api.list_metadata(&ListParams::default()).await.unwrap().items;
                assert!(left.is_empty(), "{namespace} still has {} {}", left.len(), resource.plural);
            }
        }
        assert!(collector::orphans(&client).await.is_empty(), "{:?}", collector::orphans(&client).await);
        let bound: usize = self.bound.iter().map(|bound| bound.load(Ordering::Relaxed)).sum();
        assert!(bound >= self.size.pods());
        println!("{bound} bindings, {:?}, {:?} in all", self.tally, self.began.elapsed());
    }
}

/// Creates a deployment and its service.
async fn deploy(client: &Client, namespace: &str, name: &str, replicas: i32) {
    let labels = json!({"app": name});
    let deployment = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "web", "image": "registry.test/web:1", "ports": [{"containerPort": 8080}],
                    "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                }]},
            },
        },
    });
    let service =
        json!({"metadata": {"name": name}, "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]}});
    let parameters = PostParams::default();
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    deployments.create(&parameters, &serde_json::from_value(deployment).unwrap()).await.unwrap();
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    services.create(&parameters, &serde_json::from_value(service).unwrap()).await.unwrap();
}

/// Writes to objects that controllers also write, so that these get conflicts.
async fn meddle(client: Client, namespace: &str, tally: Arc<Tally>) {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let sets: Api<ReplicaSet> = Api::namespaced(client, namespace);
    for turn in 0_u64.. {
        let note = Patch::Merge(json!({"metadata": {"annotations": {"example.com/turn": turn.to_string()}}}));
        let parameters = PatchParams::default();
        let found = deployments.list_metadata(&ListParams::default()).await;
        for object in tally.bear("meddler", found).map(|list| list.items).unwrap_or_default() {
            tally.bear("meddler", deployments.patch_metadata(&object.name_any(), &parameters, &note).await);
        }
        let found = sets.list_metadata(&ListParams::default()).await;
        for object in tally.bear("meddler", found).map(|list| list.items).unwrap_or_default() {
            tally.bear("meddler", sets.patch_metadata(&object.name_any(), &parameters, &note).await);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Retries until a server responds, as a person would.
async fn insist<T>(mut ask: impl AsyncFnMut() -> Result<T, kube::Error>) -> T {
    let began = Instant::now();
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(began.elapsed() < TIMEOUT, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn image(pod: &Pod) -> &str {
    pod.spec.as_ref().unwrap().containers[0].image.as_deref().unwrap()
}
