//! A read-only server beside one that writes: it serves what the other server writes, and writes nothing itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Authority, Etcd, EtcdTls, Extension, Kubectl, Reply, Server, wait_until};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Error};
use serde_json::{Value, json};

use crate::etcd_access::watches_everything;

const DEFINITION: &str = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.read.test"}, "spec": {"group": "read.test", "scope": "Namespaced",
    "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}}"#;

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

/// Everything in etcd: the revision and lease of each key, and the revision of the compaction.
fn contents(etcd: &Etcd) -> (BTreeMap<String, String>, String, String) {
    let all: Value = serde_json::from_str(&etcd.ctl(0, &["get", "", "--prefix", "--write-out=json"])).unwrap();
    let keys = all["kvs"].as_array().unwrap().iter().map(|kv| {
        (kv["key"].as_str().unwrap().to_owned(), format!("{} {} {}", kv["mod_revision"], kv["version"], kv["lease"]))
    });
    (keys.collect(), all["header"]["revision"].to_string(), etcd.ctl(0, &["lease", "list"]))
}

fn start(flags: &[String]) -> Server {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    tokio::task::block_in_place(|| Server::durable_with(&flags))
}

fn is_refused<T: std::fmt::Debug>(outcome: Result<T, Error>) -> bool {
    matches!(&outcome, Err(Error::Api(status)) if status.code == 405
        && status.reason == "MethodNotAllowed" && status.message.contains("read-only"))
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
async fn read_only_server_writes_nothing() {
    let etcd = tokio::task::block_in_place(Etcd::single);
    let mut writer = start(&[etcd.servers()]);
    let client = writer.kube().await;
    maps(&client).create(&PostParams::default(), &config_map("one")).await.unwrap();
    let kubectl = Kubectl::new(&writer);
    kubectl.ok_with(&["apply", "-f", "-"], DEFINITION);
    kubectl.ok(&["wait", "--for=condition=Established", "crd/things.read.test", "--timeout=30s"]);
    writer.terminate();

    let before = contents(&etcd);
    let mut reader =
        start(&[etcd.servers(), "--read-only".into(), "--etcd-compaction-interval=1s".into(), "--v=4".into()]);
    let client = reader.kube().await;
    assert_eq!(maps(&client).list(&ListParams::default()).await.unwrap().items.len(), 1);
    let kubectl = Kubectl::new(&reader);
    wait_until("the resource is served", async || kubectl.run(&["get", "things"]).success.then_some(())).await;
    let review =
        json!({"spec": {"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": "default"}}});
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &serde_json::from_value(review).unwrap()).await.unwrap();
    assert!(review.status.is_some_and(|status| status.allowed));

    assert!(is_refused(maps(&client).create(&PostParams::default(), &config_map("two")).await));
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    assert!(is_refused(maps(&client).create(&dry_run, &config_map("two")).await));
    assert!(is_refused(maps(&client).replace("one", &PostParams::default(), &config_map("one")).await));
    let patch = Patch::Merge(json!({"data": {"a": "b"}}));
    assert!(is_refused(maps(&client).patch("one", &PatchParams::default(), &patch).await));
    assert!(is_refused(maps(&client).delete("one", &DeleteParams::default()).await));
    assert!(is_refused(maps(&client).delete_collection(&DeleteParams::default(), &ListParams::default()).await));
    let mut raw = reader.client().await;
    let exec = raw.get("/api/v1/namespaces/default/pods/p/exec?command=ls").await.unwrap();
    assert_eq!(exec.status, 405, "{}", exec.body);

    // Longer than the intervals of all controllers that write, and of the compaction.
    tokio::time::sleep(Duration::from_secs(12)).await;
    reader.terminate();
    let (keys, revision, leases) = contents(&etcd);
    assert_eq!((keys, revision), (before.0, before.1), "the server wrote");
    // Those of the first server may expire meanwhile.
    let is_old = |line: &str| line.starts_with("found ") || before.2.contains(line);
    assert!(leases.lines().all(is_old), "the server made a lease: {leases}, before {}", before.2);
    let log = reader.log();
    assert!(!log.contains("the server is read-only"), "something tried to write: {log}");
}

/// Starts an etcd in which the user `root` may do everything, and `reader` may only read.
fn start_restricted(authority: &Authority) -> Etcd {
    let (certificate, key) = authority.issue("root");
    let etcd = Etcd::secure(&EtcdTls { ca: &authority.ca(), certificate: &certificate, key: &key });
    for command in [
        "user add root --no-password",
        "role add root",
        "user grant-role root root",
        "user add reader --no-password",
        "role add reader",
        "user grant-role reader reader",
        "auth enable",
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        assert!(!etcd.ctl(0, &words).trim().is_empty(), "{command}");
    }
    let grant = ["role", "grant-permission", "reader", "read"];
    let keys = if watches_everything(&etcd) { ["", "--from-key"] } else { ["/registry/", "/registry0"] };
    assert!(!etcd.ctl(0, &[&grant[..], &keys].concat()).trim().is_empty());
    etcd
}

/// Returns the flags of a server that is this user of an etcd.
fn flags_of(etcd: &Etcd, authority: &Authority, user: &str) -> Vec<String> {
    let (certificate, key) = authority.issue(user);
    vec![
        etcd.servers(),
        format!("--etcd-cafile={}", authority.ca().display()),
        format!("--etcd-certfile={}", certificate.display()),
        format!("--etcd-keyfile={}", key.display()),
    ]
}

/// An etcd user with read permission is enough, and changes by the other server are seen.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn read_only_server_needs_only_read_permission() {
    let authority = Authority::make();
    let etcd = tokio::task::block_in_place(|| start_restricted(&authority));
    let flags = |user| flags_of(&etcd, &authority, user);
    let writer = start(&flags("root"));
    let written = maps(&writer.kube().await);
    written.create(&PostParams::default(), &config_map("one")).await.unwrap();
    let reader = start(&[flags("reader"), vec!["--read-only".to_owned()]].concat());
    let read = maps(&reader.kube().await);
    let list = read.list(&ListParams::default()).await.unwrap();
    assert_eq!(list.items.len(), 1);
    let version = list.metadata.resource_version.unwrap();
    let mut watch = read.watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let created = written.create(&PostParams::default(), &config_map("two")).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(30), watch.try_next()).await;
    let event = event.unwrap_or_else(|_| panic!("no event comes: {}", reader.log())).unwrap();
    let Some(WatchEvent::Added(seen)) = event else { panic!("{event:?}") };
    assert_eq!(seen.metadata, created.metadata);
    // A list without a version is as new as the other server's last write.
    written.delete("one", &DeleteParams::default()).await.unwrap();
    assert_eq!(read.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

/// Returns a definition whose objects are stored in one of two versions.
fn widgets(storage: &str) -> String {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &str| json!({"name": name, "served": true, "storage": name == storage, "schema": schema.clone()});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.read.test"}, "spec": {"group": "read.test", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version("v1"), version("v2")]}})
    .to_string()
}

const ENCRYPTION: &str = "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n\
    - resources: [secrets, widgets.read.test]\n  providers: [{aesgcm: {keys: [{name: one, secret: \
    MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=}]}}, {identity: {}}]\n";

/// Creates objects with the program that serves them, in versions that a newer program stores differently.
async fn store_in_old_versions(writer: &Server) {
    let kubectl = Kubectl::new(writer);
    kubectl.ok(&["create", "secret", "generic", "sealed", "--from-literal=password=squeamish"]);
    kubectl.ok_with(
        &["apply", "-f", "-"],
        r#"{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "old.example.com"},
            "spec": {"selectors": [{"cel": {"expression": "true"}}]}}"#,
    );
    for (storage, name) in [("v1", "old"), ("v2", "new")] {
        kubectl.ok_with(&["apply", "-f", "-"], &widgets(storage));
        kubectl.ok(&["wait", "--for=condition=Established", "crd/widgets.read.test", "--timeout=30s"]);
        let widget = json!({"apiVersion": format!("read.test/{storage}"), "kind": "Widget",
            "metadata": {"name": name}, "spec": {"size": 1}});
        wait_until("the resource is served", async || {
            kubectl.run_with(&["apply", "-f", "-"], &widget.to_string()).success.then_some(())
        })
        .await;
    }
}

/// All of it at once: encrypted values, objects in the storage versions of an older release and of an older definition,
/// and an etcd user that may only read.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
async fn read_only_server_reads_encrypted_and_old_objects() {
    let authority = Authority::make();
    let etcd = tokio::task::block_in_place(|| start_restricted(&authority));
    let temp = binnacle_testkit::TempDir::new();
    let encryption = format!("--encryption-provider-config={}", temp.file("encryption.yaml", ENCRYPTION));
    let old = [flags_of(&etcd, &authority, "root"), vec![encryption.clone(), "--emulated-version=1.34".into()]];
    let mut writer = start(&old.concat());
    store_in_old_versions(&writer).await;
    writer.terminate();
    let has = |key: &str, text: &str| {
        let value = etcd.value(key);
        let found = value.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(found, "{key} has no {text}: {}", String::from_utf8_lossy(&value));
    };
    has("/registry/secrets/default/sealed", "k8s:enc:aesgcm:v1:one:");
    has("/registry/read.test/widgets/default/old", "k8s:enc:aesgcm:v1:one:");
    has("/registry/deviceclasses/old.example.com", "resource.k8s.io/v1beta2");

    let before = contents(&etcd);
    let flags = [flags_of(&etcd, &authority, "reader"), vec![encryption, "--read-only".into()]];
    let mut reader = start(&flags.concat());
    let kubectl = Kubectl::new(&reader);
    wait_until("the resource is served", async || kubectl.run(&["get", "widgets"]).success.then_some(())).await;
    let mut client = reader.client().await;
    for (path, pointer, want) in [
        ("/api/v1/namespaces/default/secrets/sealed", "/data/password", "c3F1ZWFtaXNo"),
        ("/api/v1/namespaces/default/secrets", "/items/0/data/password", "c3F1ZWFtaXNo"),
        ("/api/v1/secrets?limit=1", "/items/0/metadata/name", "sealed"),
        ("/apis/resource.k8s.io/v1/deviceclasses/old.example.com", "/spec/selectors/0/cel/expression", "true"),
        ("/apis/resource.k8s.io/v1/deviceclasses", "/items/0/metadata/name", "old.example.com"),
        ("/apis/read.test/v1/namespaces/default/widgets/new", "/apiVersion", "read.test/v1"),
        ("/apis/read.test/v2/namespaces/default/widgets/old", "/apiVersion", "read.test/v2"),
        ("/apis/read.test/v2/widgets", "/items/0/metadata/name", "new"),
        ("/apis/read.test/v2/widgets", "/items/1/apiVersion", "read.test/v2"),
    ] {
        let answer = client.get(path).await.unwrap();
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(body.pointer(pointer), Some(&json!(want)), "{path} {pointer}: {} {body}", answer.status);
    }
    let path = "/api/v1/namespaces/default/secrets?watch=1&resourceVersion=0&timeoutSeconds=1";
    let watched = client.get(path).await.unwrap().body;
    assert!(watched.contains("c3F1ZWFtaXNo"), "{watched}");
    reader.terminate();
    let after = contents(&etcd);
    assert_eq!((after.0, after.1), (before.0, before.1), "the server wrote");
}

/// Returns the objects that register the group `tides.test` of a server on this machine.
fn registration(port: u16) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "tides", "namespace": "default"},
         "spec": {"type": "ExternalName", "externalName": "localhost"}},
        {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": "v1.tides.test"},
         "spec": {"group": "tides.test", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
                  "insecureSkipTLSVerify": true,
                  "service": {"name": "tides", "namespace": "default", "port": port}}}]})
    .to_string()
}

fn tides(head: &str) -> Reply {
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path.split('?').next().unwrap_or_default() {
        "/apis/tides.test/v1" => Reply::json(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "tides.test/v1",
            "resources": [{"name": "tides", "singularName": "tide", "namespaced": true, "kind": "Tide",
                           "verbs": ["create", "delete", "get", "list"]}]
        })),
        "/apis/tides.test/v1/namespaces/default/tides/one" => {
            Reply::json(&json!({"apiVersion": "tides.test/v1", "kind": "Tide", "metadata": {"name": "one"}}))
        }
        _ => Reply::of(404, "text/plain", "no"),
    }
}

/// Reads of an aggregated API are forwarded, with their discovery; writes never reach its server.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
async fn read_only_server_forwards_reads_of_aggregated_apis() {
    let extension = Extension::start(tides).await;
    let etcd = tokio::task::block_in_place(Etcd::single);
    let mut writer = start(&[etcd.servers()]);
    let kubectl = Kubectl::new(&writer);
    kubectl.ok_with(&["apply", "-f", "-"], &registration(extension.address.port()));
    kubectl.ok(&["wait", "--for=condition=Available", "apiservice/v1.tides.test", "--timeout=30s"]);
    writer.terminate();

    let before = contents(&etcd);
    let mut reader = start(&[etcd.servers(), "--read-only".into()]);
    let kubectl = Kubectl::new(&reader);
    wait_until("the API is served", async || kubectl.run(&["get", "tides", "one"]).success.then_some(())).await;
    assert!(kubectl.ok(&["api-resources", "--api-group=tides.test"]).contains("Tide"));
    let mut raw = reader.client().await;
    let path = "/apis/tides.test/v1/namespaces/default/tides";
    let headers = [("content-type", "application/json")];
    for (method, path) in [("POST", path.to_owned()), ("DELETE", format!("{path}/one")), ("PUT", format!("{path}/one"))]
    {
        let answer = raw.send(method, &path, &headers, "{}".to_owned()).await.unwrap();
        assert_eq!(answer.status, 405, "{method} {path}: {}", answer.body);
        assert!(answer.body.contains("read-only"), "{}", answer.body);
    }
    let seen = extension.seen();
    assert!(seen.iter().all(|head| head.starts_with("GET ")), "{seen:?}");
    assert!(seen.iter().any(|head| head.to_lowercase().contains("x-remote-user: ")), "{seen:?}");
    reader.terminate();
    let after = contents(&etcd);
    assert_eq!((after.0, after.1), (before.0, before.1), "the server wrote");
}

const ANN_MAY_CREATE: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "ann", "namespace": "default"},
     "rules": [{"apiGroups": [""], "resources": ["configmaps", "pods/exec"], "verbs": ["create", "get"]}]},
    {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
     "metadata": {"name": "ann", "namespace": "default"},
     "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "ann"},
     "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}]}]}"#;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Starts a server that writes and accepts the identities that a front proxy names, and a read-only one that forwards
/// to it; the second one has the token of the user ann.
fn start_pair(etcd: &Etcd, authority: &Authority) -> (Server, Server) {
    let (certificate, key) = authority.issue("front");
    let temp = authority.ca().parent().unwrap().to_owned();
    std::fs::write(
        temp.join("policy.yaml"),
        r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
        "rules": [{"level": "Metadata"}]}"#,
    )
    .unwrap();
    std::fs::write(temp.join("tokens"), "secret,ann,1\n").unwrap();
    let audit = |name: &str| {
        let (policy, log) = (temp.join("policy.yaml"), temp.join(name));
        [format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())]
    };
    let writes = vec![
        etcd.servers(),
        format!("--requestheader-client-ca-file={}", authority.ca().display()),
        "--requestheader-allowed-names=front".into(),
        "--requestheader-username-headers=X-Remote-User".into(),
        "--requestheader-group-headers=X-Remote-Group".into(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".into(),
    ];
    let writer = start(&[writes, audit("writer.log").to_vec()].concat());
    let reads = vec![
        etcd.servers(),
        "--read-only".into(),
        format!("--forward-writes-to={}", writer.url()),
        format!("--forward-writes-ca-file={}/pki/ca-bundle.crt", writer.temp().join("data")),
        format!("--proxy-client-cert-file={}", certificate.display()),
        format!("--proxy-client-key-file={}", key.display()),
        format!("--token-auth-file={}", temp.join("tokens").display()),
    ];
    let reader = start(&[reads, audit("reader.log").to_vec()].concat());
    (writer, reader)
}

/// Returns the requests of a user: verb, resource and audit ID.
fn audit_ids(log: &std::path::Path, user: &str) -> BTreeSet<(String, String)> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let events = events.filter(|event| event["user"]["username"] == user && event["stage"] == "ResponseComplete");
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    events
        .map(|event| {
            let request = format!("{} {}", word(&event["verb"]), word(&event["objectRef"]["resource"]));
            (request, word(&event["auditID"]))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
async fn read_only_server_forwards_writes_as_the_caller() {
    let etcd = tokio::task::block_in_place(Etcd::single);
    let authority = Authority::make();
    let (mut writer, reader) = start_pair(&etcd, &authority);
    let client = reader.kube().await;
    maps(&client).create(&PostParams::default(), &config_map("one")).await.unwrap();
    // A read after the write sees it.
    assert_eq!(maps(&client).list(&ListParams::default()).await.unwrap().items.len(), 1);
    assert!(maps(&writer.kube().await).get("one").await.is_ok());
    Kubectl::new(&reader).ok_with(&["apply", "-f", "-"], ANN_MAY_CREATE);

    let mut raw = reader.connect(&Handshake::new(reader.admin().authority)).await;
    let ann = ("authorization", "Bearer secret");
    let json = ("content-type", "application/json");
    let body = r#"{"metadata": {"name": "of-ann"}}"#.to_owned();
    let made = raw.send("POST", MAPS, &[ann, json], body.clone()).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.body);
    // Headers of the caller give no rights, neither here nor there.
    let secrets = "/api/v1/namespaces/default/secrets";
    let masters = [ann, json, ("x-remote-user", "root"), ("x-remote-group", "system:masters")];
    assert_eq!(raw.send("POST", secrets, &masters, body.clone()).await.unwrap().status, 403);
    let impersonating = [ann, json, ("impersonate-user", "root")];
    assert_eq!(raw.send("POST", MAPS, &impersonating, body.clone()).await.unwrap().status, 403);
    let exec = raw.send("GET", "/api/v1/namespaces/default/pods/p/exec?command=ls", &[ann], String::new()).await;
    let exec = exec.unwrap();
    assert_eq!(exec.status, 404, "{}", exec.body);

    let logs = authority.ca().parent().unwrap().to_owned();
    // Each server writes its log at its own pace.
    wait_until("both servers audited the requests, with the same IDs", async || {
        let [here, there] = ["reader.log", "writer.log"].map(|name| audit_ids(&logs.join(name), "ann"));
        (there.len() == 2 && there.is_subset(&here)).then_some(())
    })
    .await;

    writer.terminate();
    let refused = raw.send("POST", MAPS, &[ann, json], body).await.unwrap();
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.body.contains("cannot be reached"), "{}", refused.body);
    assert_eq!(maps(&client).list(&ListParams::default()).await.unwrap().items.len(), 2);
}
