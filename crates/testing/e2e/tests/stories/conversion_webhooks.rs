//! Conversion webhooks of custom resources as in real clusters: invalid responses, unavailability, and objects that
//! cannot be converted.

use std::pin::pin;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::{Hook, Server, wait_until};
use futures::TryStreamExt;
use http::{Request, Response};
use kube::api::{Api, ApiResource, DynamicObject, WatchEvent, WatchParams};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A function that responds to a conversion review; `None` breaks the connection.
type Behavior = fn(&Value) -> Option<Value>;

/// Sends a request as administrator, with no body for null, and returns the status code and the document of the
/// response.
pub(crate) async fn send(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    send_text(server, method, path, body).await
}

/// Like [`send`], with arbitrary text as the body.
pub(crate) async fn send_text(server: &Server, method: &str, path: &str, body: String) -> (u16, Value) {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let answer = server.client().await.send(method, path, &[("content-type", kind)], body).await.unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap_or(Value::Null))
}

fn message(answer: &(u16, Value)) -> (u16, &str) {
    (answer.0, answer.1["message"].as_str().unwrap_or_default())
}

/// Returns the path of the objects of a version.
fn place(group: &str, version: &str) -> String {
    format!("/apis/{group}/{version}/namespaces/default/things")
}

fn thing(group: &str, version: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/{version}"), "kind": "Thing", "metadata": {"name": name}, "spec": {"n": 1, "replicas": 1}
    })
}

/// Creates a definition with a conversion webhook, and waits until it is served.
async fn define(server: &Server, group: &str, hook: &Hook) {
    let version = |name: &str, storage: bool| {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"n": {"type": "integer"}, "replicas": {"type": "integer"}}},
            "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
        }});
        let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
        json!({
            "name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": schema},
            "subresources": {"scale": scale},
        })
    };
    let client = json!({"url": format!("{}/convert", hook.url()), "caBundle": BASE64_STANDARD.encode(&hook.authority)});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {
                "strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client},
            },
        },
    });
    let made = send(server, "POST", DEFINITIONS, &definition).await;
    assert_eq!(made.0, 201, "{}", made.1);
    wait_until("the definition to be served", async || {
        (send(server, "GET", &place(group, "v1"), &Value::Null).await.0 == 200).then_some(())
    })
    .await;
}

/// Returns a review with all objects in the desired version.
fn converted(request: &Value) -> Value {
    let mut objects = request["objects"].clone();
    for object in objects.as_array_mut().unwrap() {
        object["apiVersion"] = request["desiredAPIVersion"].clone();
    }
    let response = json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response})
}

fn well(request: &Value) -> Option<Value> {
    Some(converted(request))
}

/// Starts a webhook whose response can be changed.
async fn scripted_webhook() -> (Hook, Arc<Mutex<Behavior>>) {
    let behavior: Arc<Mutex<Behavior>> = Arc::new(Mutex::new(well));
    let now = behavior.clone();
    let hook = Hook::start(move |request: Request<Vec<u8>>| {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let answer = (*now.lock())(&review["request"]);
        async move {
            match answer {
                Some(answer) => Response::new(answer.to_string().into_bytes()),
                None => Response::builder().status(500).body(b"away".to_vec()).unwrap(),
            }
        }
    })
    .await;
    (hook, behavior)
}

/// Each invalid response fails the requests that need a conversion, with kube-apiserver's message, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_responses_fail_only_requests_that_convert() {
    let server = Server::ephemeral();
    let (hook, behavior) = scripted_webhook().await;
    let behaviors: [(&str, Behavior, &str); 8] = [
        ("away", |_| None, "failed: an error on the server (\"away\") has prevented the request from succeeding"),
        (
            "null",
            |_| Some(Value::Null),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind=",
        ),
        (
            "list",
            |_| Some(json!([])),
            "failed: couldn't get version/kind; json parse error: json: cannot unmarshal array",
        ),
        (
            "uid",
            |request| {
                let mut review = converted(request);
                review["response"]["uid"] = json!("other");
                Some(review)
            },
            "failed: expected response.uid=",
        ),
        (
            "fewer",
            |request| {
                let mut review = converted(request);
                review["response"]["convertedObjects"].as_array_mut().unwrap().clear();
                Some(review)
            },
            "returned 0 objects, expected 1",
        ),
        (
            "renamed",
            |request| {
                let mut review = converted(request);
                review["response"]["convertedObjects"][0]["metadata"]["name"] = json!("other");
                Some(review)
            },
            "returned invalid object: must have the same name: one != other",
        ),
        (
            "same",
            |request| {
                let mut review = converted(request);
                review["response"]["convertedObjects"] = request["objects"].clone();
                Some(review)
            },
            "returned invalid object at index 0: invalid groupVersion",
        ),
        (
            "kindless",
            |request| {
                let mut review = converted(request);
                review["response"]["convertedObjects"][0].as_object_mut().unwrap().remove("kind");
                Some(review)
            },
            "Object 'Kind' is missing in '{\"apiVersion\":",
        ),
    ];
    for (name, bad, why) in behaviors {
        let group = format!("{name}.shop.test");
        *behavior.lock() = bad;
        define(&server, &group, &hook).await;
        let (v1, v2) = (place(&group, "v1"), place(&group, "v2"));
        // Errors of a list are those of its first object.
        for object in ["one", "two"] {
            assert_eq!(send(&server, "POST", &v1, &thing(&group, "v1", object)).await.0, 201, "{name}");
        }
        let change = json!({"spec": {"n": 2}});
        for (method, path, body) in [
            ("GET", format!("{v2}/one"), Value::Null),
            ("GET", v2.clone(), Value::Null),
            ("GET", format!("{v2}?limit=5"), Value::Null),
            ("PATCH", format!("{v2}/one"), change.clone()),
            ("PATCH", format!("{v2}/one/scale"), json!({"spec": {"replicas": 3}})),
            ("DELETE", format!("{v2}/one"), Value::Null),
            ("DELETE", v2.clone(), Value::Null),
        ] {
            let failed = send(&server, method, &path, &body).await;
            let (status, told) = message(&failed);
            assert!(status == 500 && told.contains(why), "{name} {method} {path}: {status} {told}");
        }
        for (method, path, body) in [
            ("GET", format!("{v1}/one"), Value::Null),
            ("GET", v1.clone(), Value::Null),
            ("PATCH", format!("{v1}/one"), change),
            ("DELETE", format!("{v1}/one"), Value::Null),
        ] {
            let done = send(&server, method, &path, &body).await;
            assert_eq!(done.0, 200, "{name} {method} {path}: {}", done.1);
        }
    }
}

/// A webhook that converts only the first object of a review gets one object per review. A GET calls the webhook each
/// time, so that the result is what a write would convert.
#[tokio::test(flavor = "multi_thread")]
async fn repaired_webhooks_take_effect_at_once() {
    const GROUP: &str = "repaired.example.com";
    let server = Server::ephemeral();
    let (hook, behavior) = scripted_webhook().await;
    define(&server, GROUP, &hook).await;
    assert_eq!(send(&server, "POST", &place(GROUP, "v1"), &thing(GROUP, "v1", "a")).await.0, 201);
    let path = format!("{}/a", place(GROUP, "v2"));
    // The cache is filled.
    assert_eq!(send(&server, "GET", &place(GROUP, "v2"), &Value::Null).await.0, 200);
    let broken: Behavior = |request| {
        let mut review = converted(request);
        review["response"]["convertedObjects"][0]["spec"]["n"] = json!(7);
        Some(review)
    };
    for (now, want) in [(well as Behavior, 1), (broken, 7), (well, 1)] {
        *behavior.lock() = now;
        let (code, read) = send(&server, "GET", &path, &Value::Null).await;
        assert_eq!((code, &read["spec"]["n"]), (200, &json!(want)), "{read}");
    }
    *behavior.lock() = |_| None;
    assert_eq!(send(&server, "GET", &path, &Value::Null).await.0, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn falls_back_to_one_object_per_review() {
    let server = Server::ephemeral();
    let (hook, behavior) = scripted_webhook().await;
    *behavior.lock() = |request| {
        let mut review = converted(request);
        review["response"]["convertedObjects"].as_array_mut().unwrap().truncate(1);
        Some(review)
    };
    let group = "single.shop.test";
    define(&server, group, &hook).await;
    for name in ["one", "two", "three"] {
        assert_eq!(send(&server, "POST", &place(group, "v1"), &thing(group, "v1", name)).await.0, 201, "{name}");
    }
    let (status, list) = send(&server, "GET", &place(group, "v2"), &Value::Null).await;
    assert_eq!((status, list["items"].as_array().map(Vec::len)), (200, Some(3)), "{list}");
}

/// Connections that break before or during a response, and an endless response.
#[tokio::test(flavor = "multi_thread")]
async fn reports_broken_connections() {
    let server = Server::ephemeral();
    let half_closed = Hook::half_closed().await;
    let cut = Hook::cut().await;
    let endless = Hook::raw(&["http/1.1"], |mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"a\":\"").await;
        let piece = vec![b'x'; 1 << 16];
        while stream.write_all(&piece).await.is_ok() {}
    })
    .await;
    let redirecting = Hook::start(|_| async {
        let builder = Response::builder().status(307).header("location", "https://127.0.0.1:1/elsewhere");
        builder.body(Vec::new()).unwrap()
    })
    .await;
    for (name, hook, why) in [
        ("half", &half_closed, "EOF"),
        ("cut", &cut, "Original error: unexpected EOF"),
        ("endless", &endless, "Original error: length limit exceeded"),
        ("redirect", &redirecting, "the server responded with the status code 307 but did not return more information"),
    ] {
        let group = format!("{name}.shop.test");
        define(&server, &group, hook).await;
        assert_eq!(send(&server, "POST", &place(&group, "v1"), &thing(&group, "v1", "one")).await.0, 201);
        let failed = send(&server, "GET", &format!("{}/one", place(&group, "v2")), &Value::Null).await;
        let (status, told) = message(&failed);
        assert!(status == 500 && told.ends_with(why), "{name}: {status} {told}");
        assert_eq!(send(&server, "GET", &place(&group, "v1"), &Value::Null).await.0, 200, "{name}");
    }
}

/// An unavailable webhook ends no watch: the events arrive once it is back.
#[tokio::test(flavor = "multi_thread")]
async fn watches_survive_an_unavailable_webhook() {
    let server = Server::ephemeral();
    let (hook, behavior) = scripted_webhook().await;
    let group = "watched.shop.test";
    define(&server, group, &hook).await;
    let v1 = place(group, "v1");
    assert_eq!(send(&server, "POST", &v1, &thing(group, "v1", "one")).await.0, 201);
    let resource = ApiResource {
        group: group.to_owned(),
        version: "v2".to_owned(),
        api_version: format!("{group}/v2"),
        kind: "Thing".to_owned(),
        plural: "things".to_owned(),
    };
    let things: Api<DynamicObject> = Api::namespaced_with(server.kube().await, "default", &resource);
    let begin = things.list(&Default::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = pin!(things.watch(&WatchParams::default(), &begin).await.unwrap());

    *behavior.lock() = |_| None;
    assert_eq!(send(&server, "POST", &v1, &thing(group, "v1", "two")).await.0, 201);
    wait_until("the webhook to have failed", async || {
        let read = send(&server, "GET", &format!("{}/two", place(group, "v2")), &Value::Null).await;
        (read.0 == 500).then_some(())
    })
    .await;
    // A list that may be stale is served from the cache.
    let old = send(&server, "GET", &format!("{}?resourceVersion=0", place(group, "v2")), &Value::Null).await;
    assert_eq!((old.0, old.1["items"].as_array().map(Vec::len)), (200, Some(1)), "{}", old.1);

    *behavior.lock() = well;
    match events.try_next().await.unwrap() {
        Some(WatchEvent::Added(thing)) => {
            let types = thing.types.clone().unwrap();
            assert_eq!((thing.metadata.name.as_deref(), types.api_version), (Some("two"), format!("{group}/v2")));
        }
        other => panic!("{other:?}"),
    }
}

/// An object that cannot be converted does not prevent others from being read, changed or deleted in that version.
#[tokio::test(flavor = "multi_thread")]
async fn one_bad_object_does_not_affect_others() {
    let server = Server::ephemeral();
    let (hook, behavior) = scripted_webhook().await;
    *behavior.lock() = |request| {
        let objects = request["objects"].as_array().unwrap();
        if !objects.iter().any(|object| object["metadata"]["name"] == "bad") {
            return Some(converted(request));
        }
        let mut review = converted(request);
        review["response"]["result"] = json!({"status": "Failure", "message": "this one is bad"});
        Some(review)
    };
    let group = "mixed.shop.test";
    define(&server, group, &hook).await;
    let (v1, v2) = (place(group, "v1"), place(group, "v2"));
    for name in ["bad", "good"] {
        assert_eq!(send(&server, "POST", &v1, &thing(group, "v1", name)).await.0, 201);
    }
    assert_eq!(send(&server, "GET", &format!("{v2}/good"), &Value::Null).await.0, 200);
    let change = json!({"spec": {"n": 7}});
    assert_eq!(send(&server, "PATCH", &format!("{v2}/good"), &change).await.0, 200);
    for path in [v2.clone(), format!("{v2}/bad")] {
        let failed = send(&server, "GET", &path, &Value::Null).await;
        let (status, told) = message(&failed);
        assert!(status == 500 && told.ends_with("failed: this one is bad"), "{path}: {status} {told}");
    }
    // In its stored version it can be deleted.
    assert_eq!(send(&server, "DELETE", &format!("{v1}/bad"), &Value::Null).await.0, 200);
    wait_until("the rest to be listed", async || {
        let listed = send(&server, "GET", &v2, &Value::Null).await;
        (listed.0 == 200 && listed.1["items"].as_array().map(Vec::len) == Some(1)).then_some(())
    })
    .await;
}

/// A field manager of one version still owns its fields after the object was scaled in another version.
#[tokio::test(flavor = "multi_thread")]
async fn keeps_field_ownership_when_scaled_in_another_version() {
    let server = Server::ephemeral();
    let (hook, _) = scripted_webhook().await;
    let group = "scaled.shop.test";
    define(&server, group, &hook).await;
    let (v1, v2) = (place(group, "v1"), place(group, "v2"));
    assert_eq!(send(&server, "POST", &v1, &thing(group, "v1", "one")).await.0, 201);
    let scaled = send(&server, "PATCH", &format!("{v2}/one/scale"), &json!({"spec": {"replicas": 3}})).await;
    assert_eq!((scaled.0, &scaled.1["spec"]["replicas"]), (200, &json!(3)), "{}", scaled.1);
    let (_, one) = send(&server, "GET", &format!("{v1}/one"), &Value::Null).await;
    let owners: Vec<(&str, Option<&str>, &Value)> = one["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|owner| {
            let version = owner["apiVersion"].as_str().unwrap().rsplit('/').next().unwrap();
            (version, owner["subresource"].as_str(), &owner["fieldsV1"]["f:spec"])
        })
        .collect();
    let (rest, replicas) = (json!({".": {}, "f:n": {}}), json!({"f:replicas": {}}));
    assert!(owners.contains(&("v1", None, &rest)) && owners.contains(&("v2", Some("scale"), &replicas)), "{one}");
}
