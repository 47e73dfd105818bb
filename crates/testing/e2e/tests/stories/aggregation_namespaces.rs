//! Namespaces that are deleted by the server's own controllers, with objects of an extension API server in them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binnacle_testkit::{Extension, Reply, TempDir};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::aggregation::{condition, register};
use crate::authorization::{Rig, until};

const GROUP: &str = "ext.test";

/// The objects of the extension API server, as `namespace/plural/name`.
#[derive(Default)]
struct Objects {
    names: Mutex<BTreeSet<String>>,
    /// True while objects named `kept` have a finalizer, and stay.
    is_kept: AtomicBool,
}

impl Objects {
    fn answer(&self, head: &str) -> Reply {
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split('?').next().unwrap_or_default();
        if path.ends_with("/ext.test/v1") {
            let resource = |name: &str, verbs: &[&str]| json!({"name": name, "singularName": "", "namespaced": true, "kind": name, "verbs": verbs});
            return Reply::json(
                &json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ext.test/v1", "resources": [
                    resource("things", &["create", "delete", "deletecollection", "get", "list"]),
                    resource("parts", &["delete", "list"]),
                    resource("readings", &["get", "list"]),
                ]}),
            );
        }
        let Some(path) = path.strip_prefix("/apis/ext.test/v1/namespaces/") else {
            return Reply::of(404, "text/plain", "no");
        };
        let mut names = self.names.lock();
        let below = |name: &String| name.starts_with(&format!("{path}/")) || name == path;
        if method.ends_with("DELETE") {
            let is_kept = self.is_kept.load(Ordering::Relaxed);
            names.retain(|name| !below(name) || is_kept && name.ends_with("/kept"));
            // The body of the request is not read.
            return Reply::Last(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{\"kind\":\"Status\"}"
                    .to_vec(),
            );
        }
        let item = |name: &String| {
            let name = name.rsplit('/').next().unwrap_or_default();
            let finalizers = if name == "kept" { json!(["ext.test/keep"]) } else { json!([]) };
            json!({"metadata": {"name": name, "finalizers": finalizers}})
        };
        let items: Vec<Value> = names.iter().filter(|name| below(name)).map(item).collect();
        Reply::json(
            &json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": items}),
        )
    }
}

/// As with kube-controller-manager: the namespace stays until the other server has nothing in it any more.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_other_servers_are_deleted_with_their_namespace() {
    let objects = Arc::new(Objects::default());
    for name in ["team/things/one", "team/things/kept", "team/parts/a", "team/parts/b", "other/things/one"] {
        objects.names.lock().insert(name.to_owned());
    }
    objects.is_kept.store(true, Ordering::Relaxed);
    let served = objects.clone();
    let extension = Extension::start(move |head| served.answer(head)).await;
    let temp = TempDir::new();
    let policy = temp.file("policy.yaml", "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n");
    let log = temp.join("audit.log");
    let auditing = [format!("--audit-policy-file={policy}"), format!("--audit-log-path={log}")];
    let rig = Rig::start(temp, &[&["--run-controllers=*".to_owned()], &auditing[..]].concat());
    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, GROUP, "True").await;
    let things = "/apis/ext.test/v1/namespaces/team/things";
    until("requests are handed on", async || rig.code("root", "GET", things).await == 200).await;
    rig.make_namespace("team").await;
    let namespace = "/api/v1/namespaces/team";
    rig.code("root", "DELETE", namespace).await;
    let mut conditions = Value::Null;
    until("one object remains", async || {
        let found: Value = serde_json::from_str(&rig.send("root", "GET", namespace, &Value::Null).await.body).unwrap();
        conditions = found["status"]["conditions"].clone();
        conditions[3]["status"] == "True" && objects.names.lock().len() == 2
    })
    .await;
    assert_eq!(conditions[3]["message"], "Some resources are remaining: things.ext.test has 1 resource instances");
    assert_eq!(
        conditions[4]["message"],
        "Some content in the namespace has finalizers remaining: ext.test/keep in 1 resource instances"
    );
    objects.is_kept.store(false, Ordering::Relaxed);
    until("the namespace is gone", async || rig.code("root", "GET", namespace).await == 404).await;
    assert_eq!(*objects.names.lock(), BTreeSet::from(["other/things/one".to_owned()]));
    // The controller sends only requests that the server supports.
    let seen = extension.seen();
    let deletions: Vec<&String> = seen.iter().filter(|head| head.contains("DELETE ")).collect();
    assert!(
        deletions.iter().any(|head| head.contains("/things "))
            && !deletions.iter().any(|head| head.contains("/parts "))
    );
    let account = "x-remote-user: system:serviceaccount:kube-system:namespace-controller";
    assert!(deletions.iter().all(|head| head.to_lowercase().contains(account)), "{deletions:?}");
    assert!(!seen.iter().any(|head| head.contains("/readings")));
    let audited = std::fs::read_to_string(&log).unwrap();
    let events = audited.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_parts = |event: &Value| event["verb"] == "delete" && event["objectRef"]["resource"] == "parts";
    let deleted: BTreeSet<String> =
        events.filter(of_parts).map(|event| event["objectRef"]["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(deleted, BTreeSet::from(["a".to_owned(), "b".to_owned()]));
}

/// The objects of a server that does not answer are unknown: the namespace stays, and its condition shows the reason.
#[tokio::test(flavor = "multi_thread")]
async fn namespaces_wait_for_servers_that_do_not_answer() {
    let extension = Extension::start(|_| Reply::of(500, "text/plain", "broken")).await;
    let rig = Rig::start(TempDir::new(), &["--run-controllers=*".to_owned()]);
    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, GROUP, "False").await;
    rig.make_namespace("team").await;
    let namespace = "/api/v1/namespaces/team";
    rig.code("root", "DELETE", namespace).await;
    let mut condition = Value::Null;
    until("the condition", async || {
        let found: Value = serde_json::from_str(&rig.send("root", "GET", namespace, &Value::Null).await.body).unwrap();
        condition = found["status"]["conditions"][0].clone();
        condition["status"] == "True"
    })
    .await;
    assert_eq!(
        (&condition["type"], &condition["reason"], &condition["message"]),
        (
            &json!("NamespaceDeletionDiscoveryFailure"),
            &json!("DiscoveryFailed"),
            &json!(
                "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: \
                 ext.test/v1: stale GroupVersion discovery: ext.test/v1"
            )
        )
    );
    rig.code("root", "DELETE", &format!("{}/v1.{GROUP}", crate::aggregation::API_SERVICES)).await;
    until("the namespace is gone", async || rig.code("root", "GET", namespace).await == 404).await;
}
