//! Distributed claims: one provider authenticates users; another has their groups and is slow, malicious or
//! unavailable.

use std::sync::Arc;
use std::time::Duration;

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Hook, Server, TempDir, wait_until};
use http::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::authentication::{Provider, bearer, key};

/// The behavior of the provider that returns groups.
#[derive(Clone)]
enum Behavior {
    Answers(String),
    /// Holds the connection for longer than any timeout here.
    Holds,
    Fails,
}

#[tokio::test(flavor = "multi_thread")]
async fn resolves_distributed_claims() {
    let (users_key, directory_key, stranger) = (key(), key(), key());
    let users = Provider::start(&users_key).await;
    let own = Arc::new(Mutex::new(String::new()));
    let behavior = Arc::new(Mutex::new(Behavior::Fails));
    let keys = json!({"keys": [directory_key.public().to_jwk()]});
    let (named, now) = (own.clone(), behavior.clone());
    let directory = Hook::start(move |request| {
        let (issuer, keys, behavior) = (named.lock().clone(), keys.clone(), now.lock().clone());
        async move {
            let text = match request.uri().path() {
                "/.well-known/openid-configuration" => {
                    json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}).to_string()
                }
                "/keys" => keys.to_string(),
                _ => match behavior {
                    Behavior::Answers(token) => token,
                    Behavior::Holds => {
                        tokio::time::sleep(Duration::from_secs(600)).await;
                        String::new()
                    }
                    Behavior::Fails => return Response::builder().status(500).body(Vec::new()).unwrap(),
                },
            };
            Response::new(text.into_bytes())
        }
    })
    .await;
    let url = directory.url();
    own.lock().clone_from(&url);
    let temp = TempDir::new();
    let authorities = format!("{}{}", users.hook.authority, directory.authority);
    let arguments = [
        "--ephemeral".to_owned(),
        format!("--oidc-issuer-url={}", users.hook.url()),
        "--oidc-client-id=cluster".to_owned(),
        "--oidc-groups-claim=groups".to_owned(),
        "--oidc-signing-algs=ES256".to_owned(),
        format!("--oidc-ca-file={}", temp.file("authorities.crt", &authorities)),
    ];
    let server = Server::start(&arguments.each_ref().map(String::as_str));
    let name = format!("{}#jane", users.hook.url());
    let own_groups = users_key.sign(&users.claims(json!({"groups": ["own"]}))).unwrap();
    let known = (201, format!("{name} own,system:authenticated"));
    wait_until("the provider to be found", async || (bearer(&server, &own_groups).await.0 == 201).then_some(())).await;

    // Responses are cached by token, so each request uses another one.
    let mut count = 0;
    let mut with_directory = |access: &str| {
        count += 1;
        let claims = json!({
            "jti": count.to_string(), "_claim_names": {"groups": "directory"},
            "_claim_sources": {"directory": {"endpoint": format!("{url}/groups"), "access_token": access}}
        });
        users_key.sign(&users.claims(claims)).unwrap()
    };
    let said = |changes: Value| {
        let mut claims = users.claims(json!({"iss": url, "groups": ["dev", "ops"]}));
        for (claim, value) in changes.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        claims
    };
    let answers = |claims: Value| Behavior::Answers(directory_key.sign(&claims).unwrap());
    *behavior.lock() = answers(said(json!({})));
    let joined = (201, format!("{name} dev,ops,system:authenticated"));
    assert_eq!(bearer(&server, &with_directory("a")).await, joined);

    // Invalid responses.
    for (lie, answer) in [
        ("for somebody else", answers(said(json!({"aud": "another"})))),
        ("long ago", answers(said(json!({"exp": 1})))),
        ("in the name of the users' provider", answers(said(json!({"iss": users.hook.url()})))),
        ("in nobody's name", answers(said(json!({"iss": null})))),
        ("of something else", answers(said(json!({"groups": null, "iss": "https://127.0.0.1:1"})))),
        ("by another key", Behavior::Answers(stranger.sign(&said(json!({}))).unwrap())),
        ("garbage", Behavior::Answers("e30.e30".to_owned())),
        ("without end", Behavior::Answers("x".repeat(9 << 20))),
        ("not at all", Behavior::Fails),
    ] {
        *behavior.lock() = answer;
        assert_eq!(bearer(&server, &with_directory("a")).await.0, 401, "{lie}");
    }

    // A request that waits for the provider does not delay others.
    *behavior.lock() = Behavior::Holds;
    let token = with_directory("a");
    let mut waiting = server.connect(&Handshake::new(server.admin().authority)).await;
    let held = tokio::spawn(async move {
        let authorization = format!("Bearer {token}");
        waiting.send("GET", "/version", &[("authorization", authorization.as_str())], "").await
    });
    assert_eq!(bearer(&server, &own_groups).await, known);
    held.abort();

    // The provider must be available for new tokens, and users only have groups that it confirmed.
    *behavior.lock() = answers(said(json!({})));
    let before = with_directory("a");
    assert_eq!(bearer(&server, &before).await, joined);
    drop(directory);
    assert_eq!(bearer(&server, &with_directory("a")).await.0, 401);
    assert_eq!(bearer(&server, &own_groups).await, known);
}
