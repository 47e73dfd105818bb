//! The comparison of two servers: of a sample of requests while they are served (`--compare-with`), and by
//! `binnacle compare`.

use std::path::Path;

use binnacle_testkit::{Etcd, Kubectl, Server, TempDir, Tool, wait_until};
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRET: &str = "c2VjcmV0LXZhbHVl";

fn start(flags: &[&str]) -> Server {
    tokio::task::block_in_place(|| Server::durable_with(flags))
}

/// Starts a server that compares all its answers with another one, and writes the differences to a directory.
fn start_shadow(other: &Server, directory: &Path, flags: &[&str]) -> Server {
    let url = format!("--compare-with={}", other.url());
    let kubeconfig = format!("--compare-kubeconfig={}", other.kubeconfig().display());
    let directory = format!("--compare-dir={}", directory.display());
    start(&[&[&url, &kubeconfig, &directory, "--compare-rate=1"], flags].concat())
}

/// Returns the number of comparisons with these labels.
async fn count(server: &Server, labels: &str) -> u64 {
    let text = server.client().await.get("/metrics").await.unwrap().body;
    let series = text.lines().filter(|line| line.starts_with("binnacle_compare_total{") && line.contains(labels));
    let values = series.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a counter of this test")]
    let sum = values.sum::<f64>() as u64;
    sum
}

async fn wait_for(server: &Server, labels: &str, wanted: u64) {
    let what = format!("{wanted} comparisons with {labels}: {}", server.log());
    wait_until(&what, async || (count(server, labels).await >= wanted).then_some(())).await;
}

async fn get(server: &Server, path: &str) -> u16 {
    server.client().await.get(path).await.unwrap().status
}

/// Returns all recorded cases as text, by name of file.
fn files(directory: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let read = |path: std::path::PathBuf| {
        (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read_to_string(&path).unwrap())
    };
    entries.map(read).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn differences_are_counted_logged_once_and_recorded() {
    let other = start(&["--runtime-config=batch/v1=false"]);
    let folder = TempDir::new();
    let directory = folder.path().join("differences");
    let server = start_shadow(&other, &directory, &[]);
    for _ in 0..5 {
        assert_eq!(get(&server, "/apis").await, 200);
        assert_eq!(get(&server, "/apis/batch/v1").await, 200);
        assert_eq!(get(&server, "/version").await, 200);
        assert_eq!(get(&server, "/api/v1").await, 200);
    }
    wait_for(&server, r#"resource="/apis",result="different""#, 10).await;
    wait_for(&server, r#"resource="/version",result="equal""#, 5).await;
    wait_for(&server, r#"resource="/api",result="equal""#, 5).await;
    for result in ["skew", "skipped", "failed", "dropped"] {
        let label = format!("result=\"{result}\"");
        assert_eq!(count(&server, &format!("resource=\"/api\",{label}")).await, 0, "{result}");
    }
    let log = server.log();
    let logged = |cause: &str| log.matches(&format!("the response differs from the other server's: {cause}")).count();
    // One list has the group, the other does not; and its document does not exist there.
    assert_eq!((logged("get /apis: status 404 and 200"), logged("get /apis: /body/groups")), (1, 1), "{log}");
    let files = files(&directory);
    assert_eq!(files.len(), 6, "three for each cause: {files:?}");
    let document = files.iter().find(|(_, text)| text.contains("\"path\": \"/apis/batch/v1\"")).unwrap();
    let case: Value = serde_json::from_str(&document.1).unwrap();
    assert_eq!(case.pointer("/cases/0/steps/0/expect/status"), Some(&json!(404)), "{}", document.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_differences_contain_no_secrets() {
    // Only the other server accepts objects in a namespace that does not exist.
    let other = start(&["--disable-admission-plugins=NamespaceLifecycle"]);
    let folder = TempDir::new();
    let server = start_shadow(&other, folder.path(), &["--compare-dry-run"]);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"password": SECRET}});
    let mut client = server.client().await;
    let headers = [("content-type", "application/json")];
    let path = "/api/v1/namespaces/missing/secrets?dryRun=All";
    let answer = client.send("POST", path, &headers, secret.to_string()).await.unwrap();
    assert_eq!(answer.status, 404, "{}", answer.body);
    // A write that is no dry run is not repeated.
    let real = path.replace("missing", "default").replace("?dryRun=All", "");
    assert_eq!(client.send("POST", &real, &headers, secret.to_string()).await.unwrap().status, 201);
    // A resource whose responses were only 404 so far has no series of its own.
    wait_for(&server, r#"resource="other",result="different",verb="create""#, 1).await;
    assert_eq!(count(&server, r#"verb="create""#).await, 1);
    assert_eq!(get(&other, "/api/v1/namespaces/default/secrets/s").await, 404);
    let files = files(folder.path());
    assert_eq!(files.len(), 1);
    let text = &files[0].1;
    assert!(text.contains("<masked>") && text.contains("/secrets?dryRun=All"), "{text}");
    for secret in [SECRET, "Bearer", "Authorization"] {
        assert!(!text.contains(secret) && !server.log().contains(SECRET), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_get_answers_while_the_other_server_never_answers() {
    let other = start(&[]);
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let accepting = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = silent.accept().await {
            held.push(connection);
        }
    });
    let url = format!("--compare-with=https://127.0.0.1:{port}");
    let kubeconfig = format!("--compare-kubeconfig={}", other.kubeconfig().display());
    let server = start(&[&url, &kubeconfig, "--compare-rate=1"]);
    let mut client = server.client().await;
    // More than the workers and the queue take.
    for _ in 0..600 {
        let answer = client.get("/version").await.unwrap();
        assert_eq!(answer.status, 200);
        assert!(answer.body.contains("gitVersion"), "{}", answer.body);
    }
    wait_for(&server, r#"resource="/version",result="dropped""#, 1).await;
    for result in ["equal", "different", "skew"] {
        assert_eq!(count(&server, &format!("result=\"{result}\"")).await, 0);
    }
    accepting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_the_other_server_are_logged_once() {
    let mut other = start(&[]);
    let folder = TempDir::new();
    let server = start_shadow(&other, folder.path(), &[]);
    other.terminate();
    for _ in 0..3 {
        assert_eq!(get(&server, "/version").await, 200);
    }
    wait_for(&server, r#"resource="/version",result="failed""#, 3).await;
    assert_eq!(server.log().matches("gave no usable response").count(), 1, "{}", server.log());
    assert_eq!(files(folder.path()).len(), 0);
}

/// The motivating use: a read-only server beside the one that writes, on the same etcd.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
async fn answers_about_one_etcd_are_equal() {
    let etcd = tokio::task::block_in_place(Etcd::single);
    let servers = etcd.servers();
    let writer = start(&[&servers]);
    let folder = TempDir::new();
    let reader = start_shadow(&writer, folder.path(), &[&servers, "--read-only"]);
    let mut client = writer.client().await;
    let list: Value = serde_json::from_str(&client.get(CONFIG_MAPS).await.unwrap().body).unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    for number in 0..20 {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"a": "b"}}).to_string();
        let headers = [("content-type", "application/json")];
        assert_eq!(client.send("POST", CONFIG_MAPS, &headers, map).await.unwrap().status, 201);
    }
    let kubectl = Kubectl::new(&reader);
    let mut client = reader.client().await;
    for accept in ["application/json", "application/vnd.kubernetes.protobuf"] {
        for path in [CONFIG_MAPS, "/api/v1/configmaps?limit=3", "/api/v1/namespaces/default/configmaps/m7"] {
            let answer = client.open("GET", path, &[("accept", accept)], "").await.unwrap();
            assert_eq!(answer.status(), 200, "{path}");
            drop(http_body_util::BodyExt::collect(answer.into_body()).await.unwrap());
        }
    }
    kubectl.ok(&["get", "configmaps,namespaces,services", "--all-namespaces"]);
    kubectl.ok(&["auth", "can-i", "create", "pods"]);
    let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={version}");
    for accept in ["application/json", "application/vnd.kubernetes.protobuf;stream=watch"] {
        let answer = client.send("GET", &watch, &[("accept", accept)], "").await.unwrap();
        assert!(answer.status == 200 && answer.body.contains("m19"), "{}", answer.body);
    }
    // The state at the start of such a watch may differ.
    assert_eq!(get(&reader, &format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1")).await, 200);
    wait_for(&reader, r#"resource="configmaps",result="equal",verb="watch""#, 2).await;
    assert_eq!(count(&reader, r#"verb="watch""#).await, 2);
    wait_for(&reader, r#"resource="configmaps",result="equal",verb="list""#, 5).await;
    wait_for(&reader, r#"resource="configmaps",result="equal",verb="get""#, 2).await;
    wait_for(&reader, r#"resource="selfsubjectaccessreviews.authorization.k8s.io",result="equal""#, 1).await;
    assert_eq!(count(&reader, r#"result="different""#).await, 0, "{:?}", files(folder.path()));
    assert_eq!(count(&reader, r#"result="failed""#).await, 0, "{}", reader.log());
}

/// Of two stores, the second one has other events after the same version.
#[tokio::test(flavor = "multi_thread")]
async fn events_of_watches_are_compared() {
    let other = start(&[]);
    let folder = TempDir::new();
    let server = start_shadow(&other, folder.path(), &[]);
    let mut client = server.client().await;
    let list: Value = serde_json::from_str(&client.get(CONFIG_MAPS).await.unwrap().body).unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let headers = [("content-type", "application/json")];
    let map = |name: &str| json!({"metadata": {"name": name}}).to_string();
    let mut writes = other.client().await;
    for number in 0..200 {
        let map = map(&format!("there-{number}"));
        assert_eq!(writes.send("POST", CONFIG_MAPS, &headers, map).await.unwrap().status, 201);
    }
    assert_eq!(client.send("POST", CONFIG_MAPS, &headers, map("here")).await.unwrap().status, 201);
    let watch = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={version}");
    assert!(client.get(&watch).await.unwrap().body.contains("here"));
    wait_for(&server, r#"resource="configmaps",result="different",verb="watch""#, 1).await;
    let files = files(folder.path());
    assert!(files.iter().any(|(_, text)| text.contains(&watch) && text.contains("there-")), "{files:?}");
}

/// The other server allows one user more than this one does.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_compared() {
    const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
    let other = start(&[]);
    let folder = TempDir::new();
    let server = start_shadow(&other, folder.path(), &[]);
    let json = [("content-type", "application/json")];
    let role =
        json!({"metadata": {"name": "r"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]});
    let binding = json!({"metadata": {"name": "b"}, "subjects": [{"kind": "User", "name": "jane"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"}});
    let mut admin = other.client().await;
    for (resource, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let answer = admin.send("POST", &format!("{RBAC}/{resource}"), &json, object.to_string()).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    let mut client = server.client().await;
    let as_jane = [("content-type", "application/json"), ("impersonate-user", "jane")];
    let map = json!({"metadata": {"name": "m"}}).to_string();
    for (method, path, body) in [
        ("POST", CONFIG_MAPS, &*map),
        ("GET", "/api/v1/secrets", ""),
        ("DELETE", "/api/v1/nodes/n", ""),
        ("BREW", "/metrics", ""),
    ] {
        let answer = client.send(method, path, &as_jane, body).await.unwrap();
        assert_eq!(answer.status, 403, "{method} {path}: {}", answer.body);
    }
    for result in ["equal\",verb=\"list", "equal\",verb=\"delete", "equal\",verb=\"other"] {
        wait_for(&server, &format!("resource=\"other\",result=\"{result}\""), 1).await;
    }
    wait_for(&server, r#"resource="other",result="different",verb="create""#, 1).await;
    assert_eq!(get(&other, &format!("{CONFIG_MAPS}/m")).await, 404, "writes are not repeated");
    let files = files(folder.path());
    assert_eq!(files.len(), 1, "{files:?}");
    let (_, text) = &files[0];
    assert!(text.contains("create configmaps: /body/status/allowed") && text.contains("jane"), "{text}");
    assert_eq!(count(&server, r#"result="failed""#).await, 0, "{}", server.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_logs_are_replayed_against_two_servers() {
    let folder = TempDir::new();
    let policy = folder.file("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request}]\n");
    let log = folder.join("audit.log");
    let (policy, path) = (format!("--audit-policy-file={policy}"), format!("--audit-log-path={log}"));
    let first = start(&[&policy, &path]);
    let second = start(&["--runtime-config=batch/v1=false"]);
    assert_eq!(get(&first, CONFIG_MAPS).await, 200);
    assert_eq!(get(&first, "/apis/batch/v1").await, 200);
    let map = json!({"metadata": {"name": "m"}}).to_string();
    let headers = [("content-type", "application/json")];
    assert_eq!(first.client().await.send("POST", CONFIG_MAPS, &headers, map).await.unwrap().status, 201);
    assert_eq!(get(&first, &format!("{CONFIG_MAPS}?watch=1&resourceVersion=0&timeoutSeconds=1")).await, 200);
    wait_until("the write and the end of the watch are in the log", async || {
        let text = std::fs::read_to_string(&log).ok()?;
        let is_end = |line: &str| line.contains("\"verb\":\"watch\"") && line.contains("ResponseComplete");
        let is_watch = |line: &str| is_end(line) && line.contains("configmaps?watch=1");
        (text.contains("\"requestObject\"") && text.lines().any(is_watch)).then_some(())
    })
    .await;
    let path = |name: &str| folder.join(name);
    let (html, json) = (path("report.html"), path("report.json"));
    let [a, b] = [&first, &second].map(|server| server.kubeconfig().display().to_string());
    let arguments =
        ["compare", "--from", &log, &first.url(), &second.url(), "--kubeconfig-a", &a, "--kubeconfig-b", &b];
    let arguments = [&arguments[..], &["--dry-run", "--html", &html, "--json", &json]].concat();
    let outcome = tokio::task::block_in_place(|| Tool::run(&arguments));
    assert_eq!(outcome.code, Some(1), "a difference is found: {outcome:?}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["failed"], 0, "{report}");
    assert!(report["causes"]["get /apis: status 200 and 404"]["count"] == 1, "{report}");
    // Both creations ran as dry runs: the name is in use on the first server only.
    assert!(report["causes"]["create configmaps: status 409 and 201"]["count"] == 1, "{report}");
    // The event of the object is missing on the second server.
    assert!(report["causes"]["watch configmaps: /body/events/*"]["count"] == 1, "{report}");
    assert_eq!(get(&second, "/api/v1/namespaces/default/configmaps/m").await, 404);
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("Unexplained differences") && page.contains("get /apis: status 200 and 404"), "{page}");
}
