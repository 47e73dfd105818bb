//! Webhooks at `kubernetes.default.svc`: paths of this server, or of servers behind it, called as the server itself.

use http::HeaderMap;
use serde_json::{Value, json};

use super::*;
use crate::aggregation::register;
use crate::authorization::{Rig, until};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const MINE: &str = "/apis/mine.test/v2/namespaces/default/minions";

/// Requests to a webhook's server, with path and headers.
type Seen = Arc<Mutex<Vec<(String, HeaderMap)>>>;

/// Starts an extension server that judges objects at `/apis/ext.test/v1/admit` and converts them at
/// `/apis/ext.test/v1/convert`.
async fn extension() -> (Hook, Seen) {
    let seen = Seen::default();
    let noted = seen.clone();
    let hook = Hook::start(move |request: Request<Vec<u8>>| {
        let path = request.uri().path().to_owned();
        noted.lock().push((path.clone(), request.headers().clone()));
        async move {
            if path.ends_with("/admit") {
                return answer(request.body(), &|_| json!({"allowed": false, "status": {"message": "met"}}));
            }
            let document = if path.ends_with("/convert") { converted(request.body()) } else { resources() };
            let builder = Response::builder().header("content-type", "application/json");
            builder.body(document.to_string().into_bytes()).unwrap()
        }
    })
    .await;
    (hook, seen)
}

fn resources() -> Value {
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ext.test/v1", "resources": []})
}

fn converted(review: &[u8]) -> Value {
    let mut review: Value = serde_json::from_slice(review).unwrap();
    let mut objects = review["request"]["objects"].clone();
    for object in objects.as_array_mut().unwrap() {
        object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
    }
    review["response"] =
        json!({"uid": review["request"]["uid"], "result": {"status": "Success"}, "convertedObjects": objects});
    review
}

/// Returns a client configuration with this server's service.
fn by_service(path: &str) -> Value {
    json!({"service": {"namespace": "default", "name": "kubernetes", "path": path}})
}

/// Returns a client configuration with this server's URL.
fn by_url(path: &str) -> Value {
    json!({"url": format!("https://kubernetes.default.svc{path}")})
}

async fn define(rig: &Rig, client: &Value) {
    let schema = json!({"type": "object"});
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema}});
    let conversion = json!({
        "strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
    });
    let spec = json!({
        "group": "mine.test", "scope": "Namespaced", "names": {"plural": "minions", "kind": "Minion"},
        "versions": [version("v1", true), version("v2", false)], "conversion": conversion,
    });
    rig.make(DEFINITIONS, json!({"metadata": {"name": "minions.mine.test"}, "spec": spec})).await;
    until("the kind to be served", async || rig.code("root", "GET", MINE).await == 200).await;
}

/// Admission and conversion webhooks of a server behind this one, by service and by URL: it sees this server as the
/// caller, and gets no credentials of it. Other certificates are rejected, with any bundle.
#[tokio::test(flavor = "multi_thread")]
async fn calls_webhooks_behind_this_server_with_its_own_credentials() {
    let (hook, seen) = extension().await;
    let stranger = allowing(|_| panic!("nobody calls a stranger")).await;
    let rig = Rig::start(TempDir::new(), &[]);
    register(&rig, "ext.test", hook.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    let document = "/apis/ext.test/v1";
    until("requests are handed on", async || rig.code("root", "GET", document).await == 200).await;

    for (name, mut client) in
        [("service", by_service("/apis/ext.test/v1/admit")), ("url", by_url("/apis/ext.test/v1/admit"))]
    {
        client["caBundle"] = json!(BASE64_STANDARD.encode(&stranger.authority));
        let judge = webhook(name, &stranger, json!({"clientConfig": client}));
        configure(&rig.server, Kind::Validating, "v", vec![judge]).await;
        let refused = try_config_map(&rig.server, "").await;
        let why = format!("admission webhook \"{name}.hooks.test\" denied the request: met");
        assert_eq!(refused.body["message"], json!(why), "{}", refused.body);
    }
    let page = rig.send("root", "GET", "/debug/admission_webhooks", &Value::Null).await;
    let line = "validating, v, url.hooks.test, https://kubernetes.default.svc/apis/ext.test/v1/admit, closed, 0, 0, \n";
    assert!(page.status == 200 && page.body.contains(line), "{}", page.body);
    assert_eq!(rig.code("alice", "GET", "/debug/admission_webhooks").await, 403);
    send(&rig.server, "DELETE", &format!("{}/v", path(Kind::Validating)), &Value::Null).await;

    for client in [by_service("/apis/ext.test/v1/convert"), by_url("/apis/ext.test/v1/convert")] {
        define(&rig, &client).await;
        let old = json!({"apiVersion": "mine.test/v1", "kind": "Minion", "metadata": {"name": "m"}});
        rig.make(&MINE.replace("v2", "v1"), old).await;
        let new = rig.send("root", "GET", &format!("{MINE}/m"), &Value::Null).await;
        assert!(new.status == 200 && new.body.contains("mine.test/v2"), "{}", new.body);
        let definition = format!("{DEFINITIONS}/minions.mine.test");
        assert_eq!(rig.code("root", "DELETE", &definition).await, 200);
        until("the definition to be gone", async || rig.code("root", "GET", &definition).await == 404).await;
    }

    let seen = seen.lock().clone();
    let asked =
        |end: &'static str| seen.iter().filter(move |(path, _)| path.ends_with(end)).map(|(_, headers)| headers);
    assert!(asked("/admit").count() >= 2 && asked("/convert").count() >= 2);
    for headers in asked("/admit").chain(asked("/convert")) {
        let told = |name: &str| headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(
            (told("x-remote-user"), told("x-remote-group")),
            (vec!["system:apiserver"], vec!["system:authenticated", "system:masters"])
        );
        assert_eq!(headers.get("authorization"), None);
    }
}

/// A webhook at a path that is no webhook creates and reveals nothing: reviews are no objects of other kinds. Only the
/// exact port, service and name are called as this server.
#[tokio::test(flavor = "multi_thread")]
async fn calls_to_other_paths_create_and_reveal_nothing() {
    let (hook, seen) = extension().await;
    let server = Server::ephemeral();
    let elsewhere = |client: Value| webhook("w", &hook, json!({"clientConfig": client, "timeoutSeconds": 5}));
    let core = "/api/v1/namespaces/default";
    let wrong = "AdmissionReview in version \"v1\" cannot be handled as a";
    let port = json!({"service": {"namespace": "default", "name": "kubernetes", "port": 6443}});
    for (client, why) in [
        (by_service(&format!("{core}/configmaps")), wrong),
        (by_url(&format!("{core}/serviceaccounts")), wrong),
        (by_url("/api/v1/namespaces"), wrong),
        (by_service("/apis/nobody.test/v1/admit"), "the server could not find the requested resource"),
        (by_url("/healthz"), "couldn't get version/kind"),
        (port, "no service port 6443 found for service \"kubernetes\""),
        (json!({"service": {"namespace": "default", "name": "other"}}), "service \"other\" not found"),
        (json!({"url": "https://KUBERNETES.default.svc/apis"}), "no such host"),
        (json!({"url": "https://kubernetes.default.svc.cluster.invalid/apis"}), "no such host"),
    ] {
        configure(&server, Kind::Validating, "v", vec![elsewhere(client.clone())]).await;
        let failed = try_config_map(&server, "").await;
        let told = failed.body["message"].as_str().unwrap();
        assert!(failed.status == 500 && told.contains(why), "{client}: {told}");
    }
    // A foreign certificate is rejected even if dialed under this server's name.
    assert!(seen.lock().is_empty());
    let maps =
        send(&server, "GET", &format!("{core}/configmaps?fieldSelector=metadata.name=tried"), &Value::Null).await;
    assert_eq!(maps.body["items"], json!([]));
}
