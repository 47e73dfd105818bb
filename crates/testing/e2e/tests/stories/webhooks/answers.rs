//! Webhooks with invalid responses: the server reports the error, and forbidden changes have no effect.

use std::time::Duration;

use binnacle_testkit::Server;
use http::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Each response with its result for `failurePolicy: Fail`. With `Ignore` the request continues, unless the patch is
/// invalid.
#[tokio::test(flavor = "multi_thread")]
async fn handles_every_response_of_a_webhook() {
    let server = Server::ephemeral();
    let bomb: Vec<Value> = std::iter::once(json!({"op": "add", "path": "/data/a0", "value": "x".repeat(100_000)}))
        .chain((0..60).map(|i| json!({"op": "copy", "from": "/data", "path": format!("/data/b{i}")})))
        .collect();
    let other_uid = json!({"uid": "other"});
    let no_metadata = patch(&json!([{"op": "remove", "path": "/metadata"}]));
    let no_such_path = patch(&json!([{"op": "remove", "path": "/data/nope"}]));
    for (name, response, status, message, ignored) in [
        ("uid", other_uid, 500, "expected response.uid=", 201),
        ("bomb", patch(&json!(bomb)), 500, "the accumulated size increase of copy is", 500),
        ("required", no_metadata, 422, "metadata.name: Required value: name or generateName is required", 422),
        (
            "path",
            no_such_path,
            500,
            "error in remove for path: '/data/nope': Unable to remove nonexistent key: nope: missing value",
            500,
        ),
        ("patch", json!({"patch": "W10="}), 500, "webhook returned response.patch but not response.patchType", 201),
    ] {
        let hook = allowing(move |_| response.clone()).await;
        for (policy, status) in [("Fail", status), ("Ignore", ignored)] {
            configure(&server, Kind::Mutating, "m", vec![webhook(name, &hook, json!({"failurePolicy": policy}))]).await;
            let tried = try_config_map(&server, "").await;
            assert_eq!(tried.status, status, "{name} {policy}: {}", tried.body);
            if policy == "Fail" {
                let told = tried.body["message"].as_str().unwrap();
                assert!(told.contains(message), "{name}: {told}");
            }
        }
    }
    send(&server, "DELETE", &format!("{}/m", path(Kind::Mutating)), &Value::Null).await;

    let elsewhere = allowing(|_| panic!("nobody is sent elsewhere")).await;
    let there = elsewhere.url();
    let redirecting = Hook::start(move |_| {
        let there = there.clone();
        async move {
            let builder = Response::builder().status(StatusCode::TEMPORARY_REDIRECT).header("location", there);
            builder.body(Vec::new()).unwrap()
        }
    })
    .await;
    let huge = Hook::start(|_| async { Response::new(vec![b' '; 64 << 20]) }).await;
    for (name, hook, message) in [
        ("redirect", &redirecting, "the server responded with the status code 307 but did not return more information"),
        (
            "huge",
            &huge,
            "unexpected error when reading response body. Please retry. Original error: length limit exceeded",
        ),
    ] {
        configure(&server, Kind::Validating, "v", vec![webhook(name, hook, json!({}))]).await;
        let tried = try_config_map(&server, "").await;
        assert_eq!((tried.status, &tried.body["reason"]), (500, &json!("InternalError")));
        let told = tried.body["message"].as_str().unwrap();
        assert!(told.ends_with(message), "{told}");
    }

    // A certificate of an unknown CA.
    let stranger = webhook("stranger", &redirecting, json!({"clientConfig": {"url": redirecting.url()}}));
    configure(&server, Kind::Validating, "v", vec![stranger]).await;
    let tried = try_config_map(&server, "").await;
    let told = tried.body["message"].as_str().unwrap();
    assert!(
        told.ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{told}"
    );
}

/// Connections that break before or during a response, and an endless response.
#[tokio::test(flavor = "multi_thread")]
async fn reports_broken_connections() {
    let server = Server::ephemeral();
    let half_closed = Hook::half_closed().await;
    let cut = Hook::cut().await;
    let endless = Hook::raw(&["http/1.1"], |mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(Hook::LONG_HEAD).await;
        while stream.write_all(b" ").await.is_ok() && stream.flush().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    let seconds = |seconds: u32| json!({"timeoutSeconds": seconds});
    for (name, hook, more, message) in [
        ("half-closed", &half_closed, seconds(10), "EOF"),
        ("cut", &cut, seconds(10), "Original error: unexpected EOF"),
        ("endless", &endless, seconds(1), "context deadline exceeded"),
    ] {
        configure(&server, Kind::Validating, "v", vec![webhook(name, hook, more.clone())]).await;
        let tried = try_config_map(&server, "").await;
        let told = tried.body["message"].as_str().unwrap();
        assert!(tried.status == 500 && told.ends_with(message), "{name}: {told}");
        let mut more = more;
        more["failurePolicy"] = json!("Ignore");
        configure(&server, Kind::Validating, "v", vec![webhook(name, hook, more)]).await;
        assert_eq!(try_config_map(&server, "").await.status, 201, "{name}");
    }
}

/// A webhook's server gets a certificate of another CA: with the new bundle it is called again.
#[tokio::test(flavor = "multi_thread")]
async fn calls_a_webhook_with_a_rotated_certificate() {
    let server = Server::ephemeral();
    let (old, new) = (allowing(|_| json!({})).await, allowing(|_| json!({})).await);
    let mut at_new = webhook("rotated", &old, json!({}));
    at_new["clientConfig"]["url"] = json!(new.url());
    configure(&server, Kind::Validating, "v", vec![at_new]).await;
    let tried = try_config_map(&server, "").await;
    assert!(
        tried.body["message"].as_str().unwrap().contains("x509: certificate signed by unknown authority"),
        "{}",
        tried.body
    );
    configure(&server, Kind::Validating, "v", vec![webhook("rotated", &new, json!({}))]).await;
    assert_eq!(try_config_map(&server, "").await.status, 201);
}

/// A restarted server becomes ready even if a webhook rejects all of its own writes, so that the webhook can be
/// removed.
#[tokio::test(flavor = "multi_thread")]
async fn restarts_with_a_webhook_that_denies_everything() {
    let hook = allowing(|_| json!({"allowed": false})).await;
    let mut server = Server::durable();
    let everything = json!({"rules": [{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"],
    }]});
    configure(&server, Kind::Validating, "v", vec![webhook("w", &hook, everything)]).await;
    server.restart();
    let ready = server.client().await.get("/readyz").await.unwrap();
    assert_eq!(ready.status, 200, "{}", ready.body);
    assert_eq!(try_config_map(&server, "").await.status, 400);
    let gone = send(&server, "DELETE", &format!("{}/v", path(Kind::Validating)), &Value::Null).await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    wait_until("the webhook to be gone", async || (try_config_map(&server, "").await.status == 201).then_some(()))
        .await;
}
