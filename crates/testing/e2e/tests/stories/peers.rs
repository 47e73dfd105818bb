//! Servers of one cluster that serve different resources, as during an upgrade: they forward requests to each other.

use std::path::Path;

use binnacle_testkit::https::{Answer, Handshake};
use binnacle_testkit::{Authority, Etcd, Port, Server, TempDir};
use serde_json::{Value, json};

use crate::authorization::until;
use crate::egress::{Proxy, config};

const TOKENS: &str = "root,root,0,system:masters\nalice,alice,1,team\n";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A server of a cluster.
struct Member {
    server: Server,
    authority: String,
    _files: TempDir,
    _port: Port,
}

impl Member {
    /// Starts a server with this name among those of a cluster.
    fn start(etcd: &Etcd, authority: &Authority, name: &str, more: &[&str]) -> Self {
        let files = TempDir::new();
        std::fs::write(files.path().join("tokens"), TOKENS).unwrap();
        let (certificate, key) = authority.issue("front");
        let shown = |path: &Path| path.display().to_string();
        let port = Port::claim();
        let free = port.number();
        let mut arguments = vec![
            etcd.servers(),
            format!("--data-dir={}", files.join("data")),
            format!("--token-auth-file={}", files.join("tokens")),
            format!("--secure-port={free}"),
            format!("--hostname-override={name}"),
            format!("--tls-cert-file={}", shown(&certificate)),
            format!("--tls-private-key-file={}", shown(&key)),
            format!("--proxy-client-cert-file={}", shown(&certificate)),
            format!("--proxy-client-key-file={}", shown(&key)),
            format!("--requestheader-client-ca-file={}", shown(&authority.ca())),
            "--requestheader-allowed-names=front".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
            format!("--peer-ca-file={}", shown(&authority.ca())),
            "--peer-advertise-ip=127.0.0.1".to_owned(),
            format!("--peer-advertise-port={free}"),
        ];
        arguments.extend(more.iter().map(ToString::to_string));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let server = Server::start(&arguments);
        Self { server, authority: std::fs::read_to_string(authority.ca()).unwrap(), _files: files, _port: port }
    }

    async fn send(&self, token: &str, method: &str, path: &str, more: &[(&str, &str)], body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("authorization", bearer.as_str()), ("content-type", "application/json")];
        headers.extend(more);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut client = self.server.connect(&Handshake::new(self.authority.clone())).await;
        client.send(method, path, &headers, body).await.unwrap()
    }

    async fn get(&self, path: &str, more: &[(&str, &str)]) -> Answer {
        self.send("root", "GET", path, more, &Value::Null).await
    }

    /// Returns the names of the groups in the aggregated form of `/apis`.
    async fn groups(&self, accept: &str) -> Vec<String> {
        let document = self.get("/apis", &[("accept", accept)]).await;
        let document: Value = serde_json::from_str(&document.body).unwrap();
        let items = document["items"].as_array().unwrap().iter();
        items.map(|group| group["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Returns the lines of a family of metrics.
    async fn metrics(&self, family: &str) -> Vec<String> {
        let text = self.get("/metrics", &[]).await.body;
        text.lines().filter(|line| line.starts_with(family)).map(str::to_owned).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn reaches_peers_through_the_control_plane_proxy() {
    let etcd = Etcd::single();
    let (temp, authority) = (TempDir::new(), Authority::make());
    let (proxy, address) = Proxy::start().await;
    let egress = format!("--egress-selector-config-file={}", config(&temp, "controlplane", address));
    let old = Member::start(&etcd, &authority, "old", &["--runtime-config=batch/v1=false", &egress]);
    let new = Member::start(&etcd, &authority, "new", &[]);
    until("jobs are found elsewhere", async || old.get(JOBS, &[]).await.status == 200).await;
    let other = new.server.url().replace("https://", "");
    assert!(proxy.asked().contains(&other), "{other} in {:?}", proxy.asked());
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn proxies_unknown_groups_to_peers() {
    let etcd = Etcd::single();
    let authority = Authority::make();
    let old = Member::start(&etcd, &authority, "old", &["--runtime-config=batch/v1=false,autoscaling/v1=false"]);
    let new = Member::start(&etcd, &authority, "new", &["--runtime-config=policy/v1=false"]);

    // Before peers are found, and for requests from a peer, the resource does not exist.
    until("jobs are found elsewhere", async || old.get(JOBS, &[]).await.status == 200).await;
    assert_eq!(old.get(JOBS, &[("x-kubernetes-peer-proxied", "true")]).await.status, 404);
    assert_eq!(old.get(JOBS, &[("x-kubernetes-peer-proxied", "1")]).await.status, 200);
    let job = json!({"metadata": {"name": "there"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let made = old.send("root", "POST", JOBS, &[("x-remote-user", "somebody")], &job).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(new.get(&format!("{JOBS}/there"), &[]).await.status, 200);
    // A watch is forwarded, and its events arrive while it is open.
    let watched = old.get(&format!("{JOBS}?watch=true&resourceVersion=0&timeoutSeconds=2"), &[]).await;
    assert!(watched.body.contains("\"ADDED\"") && watched.body.contains("\"there\""), "{}", watched.body);
    // The peer authorizes each caller under its own name.
    let refused = old.send("alice", "GET", JOBS, &[], &Value::Null).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    // Requests are forwarded in the other direction, too.
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    until("budgets are found elsewhere", async || new.get(budgets, &[]).await.status == 200).await;
    // No server has these.
    assert_eq!(old.get("/apis/batch/v7/namespaces/default/jobs", &[]).await.status, 404);
    assert_eq!(old.get("/apis/batch/v1", &[]).await.status, 404);

    // Discovery lists the groups of all servers, unless the client requests those of one.
    let (all, alone) = (old.groups(V2).await, old.groups(&format!("{V2};profile=nopeer")).await);
    assert!(all.iter().any(|name| name == "batch") && all.iter().any(|name| name == "policy"), "{all:?}");
    assert!(!alone.iter().any(|name| name == "batch") && alone.iter().any(|name| name == "policy"), "{alone:?}");
    until("both tell the same", async || old.groups(V2).await == new.groups(V2).await).await;

    let code = |code: &str| {
        format!("apiserver_rerouted_request_total{{code=\"{code}\",group=\"batch\",resource=\"jobs\",version=\"v1\"}}")
    };
    let rerouted = old.metrics("apiserver_rerouted_request_total").await;
    for want in [code("200"), code("201")] {
        assert!(rerouted.iter().any(|line| line.starts_with(&want)), "{want} in {rerouted:?}");
    }
    assert!(rerouted.iter().any(|line| line.contains("group=\"\",resource=\"\",version=\"\"")), "{rerouted:?}");
    let family = "aggregator_discovery_";
    for (name, least) in [("nopeer_requests_total", 1), ("peer_aggregated_cache_misses_total", 1)] {
        let lines = old.metrics(&format!("{family}{name}")).await;
        let count: u64 = lines[0].rsplit(' ').next().unwrap().parse().unwrap();
        assert!(count >= least, "{lines:?}");
    }
    let health = old.get("/readyz?verbose", &[]).await.body;
    for name in ["mixed-version-proxy-handler", "local-discovery-cache-sync", "peer-discovery-workers"] {
        assert!(health.contains(&format!("[+]poststarthook/{name} ok")), "{health}");
    }

    // A stopped server gets no more requests.
    drop(new);
    let gone = old.get(JOBS, &[]).await;
    assert!(gone.status == 503 && gone.body.starts_with("error trying to reach service: "), "{}", gone.body);
}

/// The CAs of a cluster change while its servers run; a file without certificates changes nothing.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn reloads_peer_authorities() {
    let etcd = Etcd::single();
    let (authority, stranger) = (Authority::make(), Authority::make());
    let folder = TempDir::new();
    let believed = folder.path().join("peers.crt");
    let put = |pem: &str| std::fs::write(&believed, pem).unwrap();
    let pem = |of: &Authority| std::fs::read_to_string(of.ca()).unwrap();
    put(&pem(&stranger));
    let flag = format!("--peer-ca-file={}", believed.display());
    let old = Member::start(&etcd, &authority, "old", &["--runtime-config=batch/v1=false", &flag]);
    let _new = Member::start(&etcd, &authority, "new", &[]);
    let failed = async || !old.metrics("apiserver_peer_discovery_sync_errors_total").await.is_empty();
    until("the other server is not believed", failed).await;
    assert_eq!(old.get(JOBS, &[]).await.status, 404);
    put(&pem(&authority));
    until("jobs are found elsewhere", async || old.get(JOBS, &[]).await.status == 200).await;
    put("nothing");
    assert_eq!(old.get(JOBS, &[]).await.status, 200);
    put(&pem(&stranger));
    until("the other server is not believed again", async || old.get(JOBS, &[]).await.status == 503).await;
}

/// A definition is the same for all servers: a resource that was removed from it is not requested from another server,
/// which may not have noticed the removal.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn does_not_proxy_custom_resources_to_peers() {
    let etcd = Etcd::single();
    let authority = Authority::make();
    let first = Member::start(&etcd, &authority, "first", &[]);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.peer.test"},
        "spec": {"group": "peer.test", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(first.send("root", "POST", definitions, &[], &definition).await.status, 201);
    until("things are served", async || first.get("/apis/peer.test/v1/things", &[]).await.status == 200).await;
    let second = Member::start(&etcd, &authority, "second", &[]);
    until("both know each other", async || {
        let lines = second.metrics("apiserver_rerouted_request_total{code=\"200\"").await;
        lines.iter().any(|line| line.contains("group=\"\""))
    })
    .await;
    let deleted = first.send("root", "DELETE", &format!("{definitions}/things.peer.test"), &[], &Value::Null).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    until("they are gone", async || second.get("/apis/peer.test/v1/things", &[]).await.status == 404).await;
    assert!(second.metrics("apiserver_rerouted_request_total").await.iter().all(|line| !line.contains("peer.test")));
    assert!(!second.groups(V2).await.iter().any(|name| name == "peer.test"));
}
