//! Distributed claims: one provider authenticates users; another has their groups and is slow, malicious or
//! unavailable.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use binnacle_jwt::PrivateKey;
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

/// The provider that returns groups. It ends with the hook that [`Directory::start`] returns.
struct Directory {
    url: String,
    key: PrivateKey,
    behavior: Arc<Mutex<Behavior>>,
}

impl Directory {
    async fn start() -> (Self, Hook) {
        let key = key();
        let own = Arc::new(Mutex::new(String::new()));
        let behavior = Arc::new(Mutex::new(Behavior::Fails));
        let keys = json!({"keys": [key.public().to_jwk()]});
        let (named, now) = (own.clone(), behavior.clone());
        let hook = Hook::start(move |request| {
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
        let url = hook.url();
        own.lock().clone_from(&url);
        (Self { url, key, behavior }, hook)
    }

    fn behaves(&self, behavior: Behavior) {
        *self.behavior.lock() = behavior;
    }
}

/// A server with the provider of users.
struct Rig {
    server: Server,
    users: Provider,
    users_key: PrivateKey,
    directory: Directory,
    /// The name of the user.
    name: String,
    /// The number of tokens that refer to the directory.
    count: Cell<u32>,
    _temp: TempDir,
}

impl Rig {
    /// Starts the server, which trusts this authority of the directory.
    async fn start(directory: Directory, authority: &str) -> Self {
        let users_key = key();
        let users = Provider::start(&users_key).await;
        let temp = TempDir::new();
        let authorities = format!("{}{authority}", users.hook.authority);
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
        Self { server, users, users_key, directory, name, count: Cell::new(0), _temp: temp }
    }

    /// Returns a token that contains its groups.
    fn own_groups(&self) -> String {
        self.users_key.sign(&self.users.claims(json!({"groups": ["own"]}))).unwrap()
    }

    /// Returns what a request with [`Rig::own_groups`] results in.
    fn known(&self) -> (u16, String) {
        (201, format!("{} own,system:authenticated", self.name))
    }

    /// Returns a token whose groups the directory has. Responses are cached by token, so each request uses another one.
    fn with_directory(&self, access: &str) -> String {
        self.count.set(self.count.get() + 1);
        let claims = json!({
            "jti": self.count.get().to_string(), "_claim_names": {"groups": "directory"},
            "_claim_sources": {"directory": {"endpoint": format!("{}/groups", self.directory.url), "access_token": access}}
        });
        self.users_key.sign(&self.users.claims(claims)).unwrap()
    }

    /// Returns what a request with [`Rig::with_directory`] results in.
    fn joined(&self) -> (u16, String) {
        (201, format!("{} dev,ops,system:authenticated", self.name))
    }

    /// Returns what the directory claims.
    fn said(&self, changes: Value) -> Value {
        let mut claims = self.users.claims(json!({"iss": self.directory.url, "groups": ["dev", "ops"]}));
        for (claim, value) in changes.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        claims
    }

    fn answers(&self, claims: Value) -> Behavior {
        Behavior::Answers(self.directory.key.sign(&claims).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resolves_distributed_claims() {
    let (directory, hook) = Directory::start().await;
    let rig = Rig::start(directory, &hook.authority).await;
    let own_groups = rig.own_groups();
    wait_until("the provider to be found", async || (bearer(&rig.server, &own_groups).await.0 == 201).then_some(()))
        .await;

    rig.directory.behaves(rig.answers(rig.said(json!({}))));
    assert_eq!(bearer(&rig.server, &rig.with_directory("a")).await, rig.joined());
    rejects_invalid_responses(&rig).await;
    answers_others_while_a_request_waits(&rig, &own_groups).await;
    confirms_groups_of_new_tokens(&rig, hook, &own_groups).await;
}

async fn rejects_invalid_responses(rig: &Rig) {
    let stranger = key();
    for (lie, answer) in [
        ("for somebody else", rig.answers(rig.said(json!({"aud": "another"})))),
        ("long ago", rig.answers(rig.said(json!({"exp": 1})))),
        ("in the name of the users' provider", rig.answers(rig.said(json!({"iss": rig.users.hook.url()})))),
        ("in nobody's name", rig.answers(rig.said(json!({"iss": null})))),
        ("of something else", rig.answers(rig.said(json!({"groups": null, "iss": "https://127.0.0.1:1"})))),
        ("by another key", Behavior::Answers(stranger.sign(&rig.said(json!({}))).unwrap())),
        ("garbage", Behavior::Answers("e30.e30".to_owned())),
        ("without end", Behavior::Answers("x".repeat(9 << 20))),
        ("not at all", Behavior::Fails),
    ] {
        rig.directory.behaves(answer);
        assert_eq!(bearer(&rig.server, &rig.with_directory("a")).await.0, 401, "{lie}");
    }
}

/// A request that waits for the provider does not delay others.
async fn answers_others_while_a_request_waits(rig: &Rig, own_groups: &str) {
    rig.directory.behaves(Behavior::Holds);
    let token = rig.with_directory("a");
    let mut waiting = rig.server.connect(&Handshake::new(rig.server.admin().authority)).await;
    let held = tokio::spawn(async move {
        let authorization = format!("Bearer {token}");
        waiting.send("GET", "/version", &[("authorization", authorization.as_str())], "").await
    });
    assert_eq!(bearer(&rig.server, own_groups).await, rig.known());
    held.abort();
}

/// The provider must be available for new tokens, and users only have groups that it confirmed.
async fn confirms_groups_of_new_tokens(rig: &Rig, directory: Hook, own_groups: &str) {
    rig.directory.behaves(rig.answers(rig.said(json!({}))));
    let before = rig.with_directory("a");
    assert_eq!(bearer(&rig.server, &before).await, rig.joined());
    drop(directory);
    assert_eq!(bearer(&rig.server, &rig.with_directory("a")).await.0, 401);
    assert_eq!(bearer(&rig.server, own_groups).await, rig.known());
}
