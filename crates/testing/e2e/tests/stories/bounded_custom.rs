//! Custom resources whose defaults, schemas and conversions need more work than a server allows: the client gets a
//! response, the server stays available and small, and the objects can be deleted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::{Hook, Server, wait_until};
use http::{Request, Response};
use serde_json::{Map, Value, json};

use crate::conversion_webhooks::{send, send_text};
use crate::list_forms::memory;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON: (&str, &str) = ("content-type", "application/json");
/// The maximum growth of the server's memory, in KiB.
const GROWTH: usize = 200 << 10;

/// Fails unless the server responds to others and is about as small as before.
async fn assert_well(server: &Server, before: usize, when: &str) {
    let (code, _) = send(server, "GET", "/api/v1/namespaces/default", &Value::Null).await;
    assert_eq!(code, 200, "{when}");
    let grown = memory(server).saturating_sub(before);
    assert!(grown < GROWTH, "{when}: {grown} KiB more");
}

fn place(group: &str, version: &str) -> String {
    format!("/apis/{group}/{version}/namespaces/default/things")
}

/// Returns a definition with these schemas of `v1`, `v2` and so on; the first is stored.
fn definition(group: &str, schemas: &[&Value]) -> Value {
    let versions = schemas.iter().enumerate().map(|(n, schema)| {
        let name = format!("v{}", n + 1);
        json!({"name": name, "served": true, "storage": n == 0, "schema": {"openAPIV3Schema": schema}})
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": versions.collect::<Vec<_>>(),
        },
    })
}

async fn define(server: &Server, definition: &Value) {
    let (code, made) = send(server, "POST", DEFINITIONS, definition).await;
    assert_eq!(code, 201, "{made}");
    let group = definition["spec"]["group"].as_str().unwrap();
    wait_until("the definition to be served", async || {
        (send(server, "GET", &place(group, "v1"), &Value::Null).await.0 == 200).then_some(())
    })
    .await;
}

/// Returns the schema of objects whose items have a member `d`, optionally with a default of this number of members.
fn wide(members: Option<usize>) -> Value {
    let mut d = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    if let Some(members) = members {
        let default: Map<String, Value> = (0..members).map(|n| (format!("k{n}"), json!(n))).collect();
        d["default"] = default.into();
    }
    let items = json!({"type": "object", "properties": {"d": d}});
    let list = json!({"type": "array", "items": items});
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"l": list}}}})
}

/// Returns an object with this number of empty items.
fn thing(group: &str, name: &str, items: usize) -> String {
    let items = vec!["{}"; items].join(",");
    format!(r#"{{"apiVersion":"{group}/v1","kind":"Thing","metadata":{{"name":"{name}"}},"spec":{{"l":[{items}]}}}}"#)
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_the_size_of_defaults() {
    const GROUP: &str = "wide.example.com";
    let server = Server::ephemeral();
    define(&server, &definition(GROUP, &[&wide(Some(300))])).await;
    assert_eq!(send_text(&server, "POST", &place(GROUP, "v1"), thing(GROUP, "small", 3)).await.0, 201);
    let before = memory(&server);
    for method in ["POST", "PATCH", "PUT"] {
        let path = match method {
            "POST" => place(GROUP, "v1"),
            _ => format!("{}/small", place(GROUP, "v1")),
        };
        let (code, status) = send_text(&server, method, &path, thing(GROUP, "small", 40_000)).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(code == 413 && message.contains("the limit is"), "{method}: {code} {message}");
        assert_well(&server, before, method).await;
    }
}

/// Objects that were valid when stored are unreadable under a later schema; no other objects are affected.
#[tokio::test(flavor = "multi_thread")]
async fn later_defaults_make_objects_unreadable() {
    const GROUP: &str = "later.example.com";
    let mut server = Server::durable();
    define(&server, &definition(GROUP, &[&wide(None)])).await;
    let things = place(GROUP, "v1");
    for name in ["deadly-1", "deadly-2", "deadly-3", "held"] {
        let (code, _) = send_text(&server, "POST", &things, thing(GROUP, name, 40_000)).await;
        assert_eq!(code, 201, "{name}");
    }
    let finalizers = json!({"metadata": {"finalizers": ["example.com/held"]}});
    assert_eq!(send(&server, "PATCH", &format!("{things}/held"), &finalizers).await.0, 200);
    // An object whose items have a megabyte of defaults is readable.
    for (name, items) in [("small", 3), ("large", 300)] {
        assert_eq!(send_text(&server, "POST", &things, thing(GROUP, name, items)).await.0, 201);
    }
    let before = memory(&server);
    let newer = definition(GROUP, &[&wide(Some(300))]);
    let path = format!("{DEFINITIONS}/things.{GROUP}");
    let (code, changed) = send(&server, "PATCH", &path, &json!({"spec": newer["spec"]})).await;
    assert_eq!(code, 200, "{changed}");
    wait_until("the new schema", async || {
        let (_, small) = send(&server, "GET", &format!("{things}/small"), &Value::Null).await;
        (small["spec"]["l"][2]["d"]["k299"] == 299).then_some(())
    })
    .await;
    for round in ["served", "restarted"] {
        let (code, status) = send(&server, "GET", &format!("{things}/deadly-1"), &Value::Null).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(code == 500 && message.contains("than the server"), "{round}: {code} {status}");
        let (code, status) = send(&server, "GET", &things, &Value::Null).await;
        assert_eq!((code, &status["kind"]), (500, &json!("Status")), "{round}: {status}");
        let (code, large) = send(&server, "GET", &format!("{things}/large"), &Value::Null).await;
        assert_eq!((code, &large["spec"]["l"][299]["d"]["k299"]), (200, &json!(299)), "{round}");
        assert_well(&server, before, round).await;
        if round == "served" {
            tokio::task::block_in_place(|| server.restart());
        }
    }
    for name in ["deadly-1", "deadly-2", "deadly-3"] {
        let (code, status) = send(&server, "DELETE", &format!("{things}/{name}"), &Value::Null).await;
        assert_eq!(code, 200, "{status}");
    }
    // The last one is deleted with its finalizer, which requires a harmless schema first.
    let (code, status) = send(&server, "DELETE", &format!("{things}/held"), &Value::Null).await;
    assert_eq!(code, 200, "{status}");
    let older = definition(GROUP, &[&wide(None)]);
    assert_eq!(send(&server, "PATCH", &path, &json!({"spec": older["spec"]})).await.0, 200);
    let none = json!({"metadata": {"finalizers": null}});
    wait_until("the held object to go", async || {
        let (code, _) = send(&server, "PATCH", &format!("{things}/held"), &none).await;
        (code == 200 || code == 404).then_some(())
    })
    .await;
    let left = wait_until("a list", async || {
        let (code, list) = send(&server, "GET", &things, &Value::Null).await;
        (code == 200).then_some(list)
    })
    .await;
    assert_eq!(left["items"].as_array().unwrap().len(), 2);
}

/// The definition of unreadable objects can be deleted together with them.
#[tokio::test(flavor = "multi_thread")]
async fn deletes_definitions_of_unreadable_objects() {
    const GROUP: &str = "gone.example.com";
    let server = Server::ephemeral();
    define(&server, &definition(GROUP, &[&wide(None)])).await;
    let things = place(GROUP, "v1");
    assert_eq!(send_text(&server, "POST", &things, thing(GROUP, "deadly", 40_000)).await.0, 201);
    let newer = definition(GROUP, &[&wide(Some(300))]);
    let path = format!("{DEFINITIONS}/things.{GROUP}");
    assert_eq!(send(&server, "PATCH", &path, &json!({"spec": newer["spec"]})).await.0, 200);
    wait_until("the new schema", async || {
        (send(&server, "GET", &format!("{things}/deadly"), &Value::Null).await.0 == 500).then_some(())
    })
    .await;
    assert_eq!(send(&server, "DELETE", &path, &Value::Null).await.0, 200);
    wait_until("the definition to go", async || {
        (send(&server, "GET", &path, &Value::Null).await.0 == 404).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_the_work_of_schema_alternatives() {
    const GROUP: &str = "choices.example.com";
    let server = Server::ephemeral();
    // Only the last one matches, so that no error ends the walk early.
    let mut choices: Vec<Value> = (0..4000).map(|n| json!({"required": [format!("x{n}")]})).collect();
    choices.push(json!({}));
    let items = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "anyOf": choices});
    let list = json!({"type": "array", "items": items});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"l": list}}}});
    define(&server, &definition(GROUP, &[&schema])).await;
    let before = memory(&server);
    let (things, body) = (place(GROUP, "v1"), thing(GROUP, "a", 26_000));
    let two = tokio::join!(
        send_text(&server, "POST", &things, body.clone()),
        send_text(&server, "POST", &things, body.clone())
    );
    for (code, status) in [two.0, two.1] {
        let message = status["message"].as_str().unwrap_or_default();
        assert!(matches!(code, 413 | 422) && message.contains("the limit is"), "{code} {message}");
    }
    assert_well(&server, before, "after").await;
}

/// A webhook whose responses become large once the flag is set.
async fn growing() -> (Hook, Arc<AtomicBool>) {
    let large = Arc::new(AtomicBool::new(false));
    let now = large.clone();
    let hook = Hook::start(move |request: Request<Vec<u8>>| {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let request = &review["request"];
        let mut objects = request["objects"].clone();
        for object in objects.as_array_mut().unwrap() {
            object["apiVersion"] = request["desiredAPIVersion"].clone();
            object["spec"] = json!({"l": "LIST"});
        }
        let response = json!({"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects});
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response});
        // Almost the maximum size of a response, for the first object.
        let items = if now.load(Ordering::Relaxed) { vec!["{}"; 2_700_000].join(",") } else { String::new() };
        let text = review.to_string().replacen("\"LIST\"", &format!("[{items}]"), 1).replace("\"LIST\"", "[]");
        async move { Response::new(text.into_bytes()) }
    })
    .await;
    (hook, large)
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_the_size_of_conversions() {
    const GROUP: &str = "convert.example.com";
    // Enough to grow too much if each one were kept; a debug build takes a second for each.
    const OBJECTS: usize = 10;
    let server = Server::ephemeral();
    let (hook, large) = growing().await;
    let list = json!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"l": list}}}});
    let mut definition = definition(GROUP, &[&schema, &schema]);
    let client = json!({"url": format!("{}/convert", hook.url()), "caBundle": BASE64_STANDARD.encode(&hook.authority)});
    definition["spec"]["conversion"] =
        json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}});
    define(&server, &definition).await;
    large.store(true, Ordering::Relaxed);
    let before = memory(&server);
    for n in 0..OBJECTS {
        let made = send_text(&server, "POST", &place(GROUP, "v1"), thing(GROUP, &format!("t{n}"), 1)).await;
        assert_eq!(made.0, 201, "{}", made.1);
    }
    let (_, status) = wait_until("the objects to be converted", async || {
        let got = send(&server, "GET", &format!("{}/t0", place(GROUP, "v2")), &Value::Null).await;
        // The cache: until then it does not have the latest revision.
        (![404, 429, 504].contains(&got.0)).then_some(got)
    })
    .await;
    let message = status["message"].as_str().unwrap_or_default();
    assert!(status["kind"] == "Status" && message.contains("more than"), "{status}");
    assert_well(&server, before, "converted").await;
    // The stored version is unaffected.
    let (code, list) = send(&server, "GET", &place(GROUP, "v1"), &Value::Null).await;
    assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(OBJECTS)));
    for n in 0..OBJECTS {
        // Objects can be deleted in both versions.
        let version = if n % 2 == 0 { "v1" } else { "v2" };
        let (code, status) = send(&server, "DELETE", &format!("{}/t{n}", place(GROUP, version)), &Value::Null).await;
        assert_eq!(code, 200, "{version}: {status}");
    }
    assert_well(&server, before, "deleted").await;
}

/// An accepted object can be read, listed and written again. Its managed fields are nested as deeply as the object, and
/// are part of it.
#[tokio::test(flavor = "multi_thread")]
async fn accepted_deep_objects_stay_readable() {
    const GROUP: &str = "deep.example.com";
    let server = Server::ephemeral();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    define(&server, &definition(GROUP, &[&open])).await;
    let path = format!("{}/a", place(GROUP, "v1"));
    let mut client = server.client().await;
    let mut accepted = 0;
    for depth in 240..=256 {
        let spec = format!("{}1{}", r#"{"a":"#.repeat(depth - 1), "}".repeat(depth - 1));
        let thing = format!(r#"{{"apiVersion":"{GROUP}/v1","kind":"Thing","metadata":{{"name":"a"}},"spec":{spec}}}"#);
        // The JSON parser of the tests supports half of this depth.
        let made = client.send("POST", &place(GROUP, "v1"), &[JSON], thing).await.unwrap();
        if made.status == 201 {
            accepted = depth;
            let read = client.get(&path).await.unwrap();
            assert_eq!((read.status, &read.body), (200, &made.body), "{depth}");
            assert_eq!(client.send("PUT", &path, &[JSON], made.body).await.unwrap().status, 200, "{depth}");
            assert_eq!(client.send("DELETE", &path, &[JSON], String::new()).await.unwrap().status, 200, "{depth}");
        } else {
            assert!(made.status == 413 && made.body.contains("the limit is 256 levels"), "{depth}: {}", made.body);
        }
        assert_eq!(send(&server, "GET", &place(GROUP, "v1"), &Value::Null).await.0, 200, "{depth}");
    }
    assert!((245..256).contains(&accepted), "{accepted}");
}
