//! Seeded requests with the credentials of one logical cluster, by which nothing of another one or of the host may
//! become visible.

use std::net::SocketAddr;

use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Kubectl, Server, wait_until_blocking};

/// In the name or the data of all that must not be seen.
const NEEDLE: &str = "zqneedle";
/// The number of requests, which `BINNACLE_ATTACKS` overrides.
const REQUESTS: u64 = 2500;
/// As many requests have a worker of their own, up to a number of workers: some requests are watches of a second.
const REQUESTS_OF_WORKER: u64 = 300;
const MAX_WORKERS: u64 = 512;
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
/// The number of failed logins after which the server closes a connection is larger.
const REQUESTS_PER_CONNECTION: u64 = 8;

const PREFIXES: [&str; 18] = [
    "",
    "/clusters/a",
    "/clusters/b",
    "/clusters/B",
    "/clusters/%62",
    "/clusters/a%2Fb",
    "/clusters/a/../b",
    "/clusters/a/..",
    "/clusters/a/../..",
    "/clusters/a/%2e%2e/b",
    "/clusters/a/..%2fb",
    "/clusters/a/..%2f..",
    "/clusters/a//clusters/b",
    "/clusters/a/clusters/b",
    "//clusters/b",
    "/clusters//b",
    "/./clusters/b",
    "/clusters/b;a",
];
/// Further prefixes for a server that serves earlier revisions.
const PAST_PREFIXES: [&str; 7] = [
    "/at/VERSION",
    "/clusters/a@VERSION",
    "/clusters/b@VERSION",
    "/clusters/a/at/VERSION",
    "/clusters/a@VERSION/clusters/b",
    "/clusters/a/at/VERSION/at/VERSION",
    "/at/VERSION/clusters/b",
];
const PATHS: [&str; 22] = [
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/api/v1/namespaces/zqneedle-namespace",
    "/api/v1/namespaces/zqneedle-namespace/configmaps/zqneedle-map",
    "/api/v1/namespaces/zqneedle-namespace/configmaps",
    "/api/v1/secrets",
    "/api/v1/namespaces/logical-clusters/secrets/b-kubeconfig",
    "/api/v1/namespaces/logical-clusters/secrets/b-keys",
    "/apis/binnacle.dev/v1alpha1/logicalclusters",
    "/apis/binnacle.dev/v1alpha1/logicalclusters/b",
    "/apis/zqneedle.test/v1/namespaces/zqneedle-namespace/zqneedles",
    "/apis",
    "/apis/zqneedle.test",
    "/openapi/v2",
    "/openapi/v3",
    "/metrics",
    "/debug/pprof/heap",
    "/debug/flags/v",
    "/flagz",
    "/logs/",
    "/api/v1/nodes/zqneedle-node/proxy/pods",
    "/api/v1/namespaces/default/services/kubernetes:443/proxy/clusters/b/api/v1/namespaces",
];
const QUERIES: [&str; 12] = [
    "",
    "?limit=1",
    "?limit=500&continue=TOKEN",
    "?resourceVersion=0",
    "?resourceVersion=VERSION&resourceVersionMatch=Exact",
    "?resourceVersion=VERSION&resourceVersionMatch=NotOlderThan&limit=1",
    "?fieldSelector=metadata.namespace%3Dzqneedle-namespace",
    "?fieldSelector=metadata.name%21%3Dx",
    "?labelSelector=%21x",
    "?pretty=true",
    "?watch=1&timeoutSeconds=1&resourceVersion=VERSION",
    "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
];
const HEADERS: [(&str, &str); 12] = [
    ("accept", "application/json"),
    ("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    ("accept", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"),
    ("accept", "application/yaml"),
    ("accept", "application/vnd.kubernetes.protobuf"),
    ("impersonate-user", "system:apiserver"),
    ("impersonate-user", "kubernetes-admin"),
    ("x-remote-user", "kubernetes-admin"),
    ("x-remote-group", "system:masters"),
    ("x-original-url", "/clusters/b/api/v1/namespaces"),
    ("x-forwarded-prefix", "/clusters/b"),
    ("host", "b"),
];

/// A generator of pseudorandom numbers, the same in every run.
struct Dice(u64);

impl Dice {
    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        from[usize::try_from(self.0 % from.len() as u64).unwrap()]
    }
}

/// Fills a cluster with objects that nobody else may see. Returns a continue token and the version of its list.
fn fill(kubectl: &Kubectl, prefix: &str) -> (String, String) {
    kubectl.ok(&["create", "namespace", "zqneedle-namespace"]);
    for n in 0..3 {
        let name = if n == 0 { "zqneedle-map".to_owned() } else { format!("zqneedle-map-{n}") };
        kubectl.ok(&[
            "create",
            "configmap",
            &name,
            "--namespace=zqneedle-namespace",
            "--from-literal=a=zqneedle-value",
        ]);
    }
    kubectl.ok_with(
        &["create", "-f", "-"],
        r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "zqneedles.zqneedle.test"}, "spec": {"group": "zqneedle.test", "scope": "Namespaced",
            "names": {"plural": "zqneedles", "kind": "Zqneedle"}, "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object"}}}]}}"#,
    );
    let page = kubectl.ok(&["get", "--raw", &format!("{prefix}/api/v1/configmaps?limit=1")]);
    let page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let text = |field: &str| page["metadata"][field].as_str().unwrap().to_owned();
    (text("continue"), text("resourceVersion"))
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn credentials_of_a_cluster_reveal_nothing_of_others() {
    attack(&["--logical-clusters"], "{}", &PREFIXES).await;
}

/// A fork, of a cluster that is filled afterwards, and the past.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn credentials_of_a_fork_reveal_nothing_of_its_source() {
    let prefixes = [&PREFIXES[..], &PAST_PREFIXES].concat();
    attack(&["--logical-clusters", "--history-retention=1h"], r#"{"source": {"cluster": "b"}}"#, &prefixes).await;
}

/// Sends requests with credentials of the cluster `a`, which has this spec.
async fn attack(flags: &[&str], spec: &str, prefixes: &[&str]) {
    let (server, identities, (token, version)) = tokio::task::block_in_place(|| {
        let server = Server::durable_with(flags);
        let kubectl = Kubectl::new(&server);
        let administrator = |(name, spec): (&str, &str)| {
            let object = format!(
                r#"{{"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {{"name": "{name}"}},
                    "spec": {spec}}}"#
            );
            wait_until_blocking("the cluster", || {
                kubectl.run_with(&["create", "-f", "-"], &object).success.then_some(())
            });
            kubectl.ok(&[
                "wait",
                "--for=jsonpath={.status.phase}=Ready",
                &format!("logicalclusters/{name}"),
                "--timeout=30s",
            ]);
            let template = "--output=go-template={{.data.kubeconfig | base64decode}}";
            let secret = format!("{name}-kubeconfig");
            let text = kubectl.ok(&["get", "secret", &secret, "--namespace=logical-clusters", template]);
            let file = server.temp().path().join(format!("{name}.kubeconfig"));
            std::fs::write(&file, &text).unwrap();
            (kubectl.with_kubeconfig(file), text)
        };
        let [(b, _), (a, a_file)] = [("b", "{}"), ("a", spec)].map(administrator);
        a.ok(&["create", "serviceaccount", "robot", "--namespace=default"]);
        a.ok(&[
            "create",
            "clusterrolebinding",
            "robot",
            "--clusterrole=cluster-admin",
            "--serviceaccount=default:robot",
        ]);
        let robot = a.ok(&["create", "token", "robot", "--namespace=default"]).trim().to_owned();
        fill(&kubectl, "");
        let page = fill(&b, "/clusters/b");
        let certificate = Handshake::of_kubeconfig(&a_file).alpn(&["http/1.1"]);
        let nobody = binnacle_testkit::somebody(&server.temp().path().join("data"));
        (server, [(certificate, String::new()), (nobody.clone(), robot), (nobody, String::new())], page)
    });
    let requests = std::env::var("BINNACLE_ATTACKS").map_or(REQUESTS, |count| count.parse().unwrap());
    let workers = (requests / REQUESTS_OF_WORKER).clamp(1, MAX_WORKERS);
    let target = Target { address: server.address, token, version };
    let attacks = (0..workers).map(|worker| {
        let attacker = Attacker {
            target: &target,
            identities: &identities,
            prefixes,
            dice: Dice(SEED.wrapping_mul(2 * worker + 1)),
        };
        attacker.run(requests / workers)
    });
    let answered: u64 = futures::future::join_all(attacks).await.into_iter().sum();
    assert!(answered > requests / 2, "{answered} of {requests} requests have an answer");
}

/// A server, and what is known of the cluster `b`: a continue token and a version.
struct Target {
    address: SocketAddr,
    token: String,
    version: String,
}

struct Attacker<'a> {
    target: &'a Target,
    /// The ways to connect, with bearer tokens.
    identities: &'a [(Handshake, String)],
    prefixes: &'a [&'a str],
    dice: Dice,
}

impl Attacker<'_> {
    /// Sends this many requests, and returns the number of answers.
    async fn run(mut self, requests: u64) -> u64 {
        let (mut sent, mut answered) = (0, 0);
        while sent < requests {
            let (handshake, bearer) = &self.identities[self.dice.pick(&[0, 0, 1, 1, 2])];
            let mut client = Client::connect(self.target.address, handshake).await.unwrap();
            for _ in 0..REQUESTS_PER_CONNECTION {
                sent += 1;
                if !self.send(&mut client, bearer).await {
                    break;
                }
                answered += 1;
            }
        }
        answered
    }

    /// Sends a request, and checks the answer. Returns false if there is none.
    async fn send(&mut self, client: &mut Client, bearer: &str) -> bool {
        let (dice, Target { token, version, .. }) = (&mut self.dice, self.target);
        let (prefix, path) = (dice.pick(self.prefixes), dice.pick(&PATHS));
        let query = dice.pick(&QUERIES).replace("TOKEN", token).replace("VERSION", version);
        let method = dice.pick(&["GET", "GET", "GET", "GET", "HEAD", "OPTIONS", "DELETE", "POST"]);
        let target = format!("{}{path}{query}", prefix.replace("VERSION", version));
        let authorization = format!("Bearer {bearer}");
        let mut headers = vec![dice.pick(&HEADERS)];
        if !bearer.is_empty() {
            headers.push(("authorization", &authorization));
        }
        let Ok(answer) = client.send(method, &target, &headers, "{}").await else { return false };
        // Names in messages are those of the request.
        let body = path
            .split('/')
            .filter(|part| part.contains(NEEDLE))
            .fold(answer.body.clone(), |body, part| if answer.status < 300 { body } else { body.replace(part, "") });
        let body = if answer.status < 300 {
            body
        } else {
            body.replace("zqneedle-namespace", "").replace("zqneedle.test", "")
        };
        assert!(!body.contains(NEEDLE), "{method} {target} {headers:?}: {} {}", answer.status, answer.body);
        assert!(answer.status < 500 || answer.status == 503, "{method} {target}: {} {}", answer.status, answer.body);
        true
    }
}
