//! Issuers of ID tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use binnacle_jwt::{PrivateKey, private_from_pem};
use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Server, TempDir, wait_until};
use rcgen::KeyPair;
use ring::hmac;
use serde_json::{Value, json};

use super::{Provider, bearer, key};

/// Returns a token whose header and signature differ from what its claims require.
fn forged(header: &Value, claims: &Value, signature: &[u8]) -> String {
    let part = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}.{}", part(header), part(claims), BASE64_URL_SAFE_NO_PAD.encode(signature))
}

/// A server with two issuers.
struct Rig {
    server: Server,
    /// The path of the server's AuthenticationConfiguration.
    config: String,
    first: Provider,
    first_key: PrivateKey,
    first_key_pem: String,
    second: Provider,
    second_key: PrivateKey,
    _temp: TempDir,
}

impl Rig {
    async fn start() -> Self {
        let second_key = key();
        let first_key_pem = KeyPair::generate().unwrap().serialize_pem();
        let first_key = private_from_pem(first_key_pem.as_bytes()).unwrap();
        let (first, second) = (Provider::start(&first_key).await, Provider::start(&second_key).await);
        let temp = TempDir::new();
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n\
             anonymous: {{enabled: true, conditions: [{{path: /livez}}]}}\njwt:\n{}{}",
            first.entry(
                "{username: {claim: sub, prefix: 'one:'}, groups: {expression: \"claims.?groups.orValue([])\"}}"
            ),
            second.entry("{username: {expression: \"'two:' + claims.sub\"}}"),
        );
        let config = temp.file("authentication.yaml", &text);
        let name = "--hostname-override=test-host";
        let server = Server::start(&["--ephemeral", name, "--authentication-config", &config]);
        Self { server, config, first, first_key, first_key_pem, second, second_key, _temp: temp }
    }

    /// Returns a token of the first issuer.
    fn signed(&self, changes: Value) -> String {
        self.first_key.sign(&self.first.claims(changes)).unwrap()
    }

    /// Asserts that the server rejects a token.
    async fn rejects(&self, what: &str, token: &str) {
        let mut client = self.server.connect(&Handshake::new(self.server.admin().authority)).await;
        let authorization = format!("Bearer {token}");
        let answer = client.send("GET", "/api", &[("authorization", authorization.as_str())], "").await;
        assert_eq!(answer.unwrap().status, 401, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn authenticates_id_tokens_of_configured_issuers() {
    let rig = Rig::start().await;
    let good = rig.signed(json!({"groups": ["dev"]}));
    accepts_tokens_of_both_issuers(&rig, &good).await;
    rejects_tokens_with_invalid_claims(&rig).await;
    rejects_tokens_with_invalid_signatures(&rig, &good).await;
    limits_the_size_of_headers(&rig).await;

    let next_key = key();
    accepts_a_new_key_of_an_issuer(&rig, &next_key).await;
    allows_only_exempt_paths_without_a_token(&rig).await;
    reloads_its_configuration(&rig, &next_key).await;
    reports_reloads_and_key_sets(&rig).await;
}

async fn accepts_tokens_of_both_issuers(rig: &Rig, good: &str) {
    wait_until("the issuer to be found", async || (bearer(&rig.server, good).await.0 == 201).then_some(())).await;
    assert_eq!(bearer(&rig.server, good).await, (201, "one:jane dev,system:authenticated".to_owned()));
    let other = rig.second_key.sign(&rig.second.claims(json!({}))).unwrap();
    wait_until("the other issuer to be found", async || (bearer(&rig.server, &other).await.0 == 201).then_some(()))
        .await;
    assert_eq!(bearer(&rig.server, &other).await, (201, "two:jane system:authenticated".to_owned()));
}

async fn rejects_tokens_with_invalid_claims(rig: &Rig) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for (what, token) in [
        ("another audience", rig.signed(json!({"aud": "vault"}))),
        ("no audience", rig.signed(json!({"aud": null}))),
        ("another issuer", rig.signed(json!({"iss": "https://elsewhere.test"}))),
        ("the other issuer's key", rig.second_key.sign(&rig.first.claims(json!({}))).unwrap()),
        ("expired", rig.signed(json!({"exp": now - 1}))),
        ("no end", rig.signed(json!({"exp": null}))),
        ("not yet", rig.signed(json!({"nbf": now + 3600}))),
        ("no name", rig.signed(json!({"sub": null}))),
    ] {
        rig.rejects(what, &token).await;
    }
}

async fn rejects_tokens_with_invalid_signatures(rig: &Rig, good: &str) {
    let claims = rig.first.claims(json!({}));
    // Signed by HMAC with the public key, which everybody has, as the secret, in several encodings.
    let public = rig.first_key.public();
    let pem = KeyPair::from_pem(&rig.first_key_pem).unwrap().public_key_pem();
    let hmac = |secret: &[u8]| {
        let header = json!({"alg": "HS256", "typ": "JWT", "kid": public.id()});
        let unsigned = forged(&header, &claims, b"");
        let message = unsigned.trim_end_matches('.');
        let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
        forged(&header, &claims, signed.as_ref())
    };
    // Within the limit on all headers, and larger than tokens need to be.
    let oversized = format!("{good}{}", "A".repeat(300_000));
    for (what, token) in [
        ("alg none", forged(&json!({"alg": "none"}), &claims, b"")),
        ("alg None", forged(&json!({"alg": "None"}), &claims, b"")),
        ("HS256 by the PEM", hmac(pem.as_bytes())),
        ("HS256 by the PEM without its end of line", hmac(pem.trim_end().as_bytes())),
        ("HS256 by the JWK", hmac(public.to_jwk().to_string().as_bytes())),
        ("truncated", good[..good.len() - 10].to_owned()),
        ("without signature", good[..=good.rfind('.').unwrap()].to_owned()),
        ("oversized", oversized),
    ] {
        rig.rejects(what, &token).await;
    }
}

async fn limits_the_size_of_headers(rig: &Rig) {
    // The first has the size of tokens for users with many groups; the second exceeds the limit of all headers.
    let large = format!("Bearer {}", rig.signed(json!({"more": "x".repeat(20_000)})));
    let endless = format!("Bearer {}", "A".repeat(1_200_000));
    // The limit is exact with HTTP/2 only: HTTP/1 counts the bytes read from a connection.
    for (alpn, authorization, code) in [("h2", &large, 200), ("http/1.1", &large, 200), ("h2", &endless, 431)] {
        let mut client = rig.server.connect(&Handshake::new(rig.server.admin().authority).alpn(&[alpn])).await;
        let answer = client.send("GET", "/api", &[("authorization", authorization.as_str())], "").await;
        assert_eq!(answer.unwrap().status, code, "{alpn}");
    }
}

/// The provider changes its key: new tokens are valid immediately, old ones become invalid when they leave the cache.
async fn accepts_a_new_key_of_an_issuer(rig: &Rig, next_key: &PrivateKey) {
    *rig.first.keys.lock() = json!({"keys": [next_key.public().to_jwk()]});
    let next = next_key.sign(&rig.first.claims(json!({"jti": "next"}))).unwrap();
    wait_until("the new key to count", async || (bearer(&rig.server, &next).await.0 == 201).then_some(())).await;
    let stale = rig.first_key.sign(&rig.first.claims(json!({"jti": "stale"}))).unwrap();
    assert_eq!(bearer(&rig.server, &stale).await.0, 401);
}

/// Without a token only the paths that the file exempts are allowed.
async fn allows_only_exempt_paths_without_a_token(rig: &Rig) {
    for (path, code) in [("/livez", 200), ("/livez/", 401), ("/livez/ping", 401), ("/healthz", 401), ("/api", 401)] {
        let mut client = rig.server.connect(&Handshake::new(rig.server.admin().authority)).await;
        assert_eq!(client.get(path).await.unwrap().status, code, "{path}");
    }
}

/// The new file has only one of the issuers.
async fn reloads_its_configuration(rig: &Rig, next_key: &PrivateKey) {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n\
         anonymous: {{enabled: true, conditions: [{{path: /livez}}]}}\njwt:\n{}",
        rig.second.entry("{username: {expression: \"'too:' + claims.sub\"}}"),
    );
    let config = &rig.config;
    std::fs::write(format!("{config}.new"), text).unwrap();
    std::fs::rename(format!("{config}.new"), config).unwrap();
    let mut count = 0;
    wait_until("the new file to be in force", async || {
        count += 1;
        let token = rig.second_key.sign(&rig.second.claims(json!({"jti": count.to_string()}))).unwrap();
        (bearer(&rig.server, &token).await.1 == "too:jane system:authenticated").then_some(())
    })
    .await;
    let gone = next_key.sign(&rig.first.claims(json!({"jti": "gone"}))).unwrap();
    assert_eq!(bearer(&rig.server, &gone).await.0, 401);
}

async fn reports_reloads_and_key_sets(rig: &Rig) {
    let metrics = rig.server.client().await.get("/metrics").await.unwrap().body;
    for family in [
        "apiserver_authentication_config_controller_automatic_reloads_total{",
        "apiserver_authentication_config_controller_last_config_info{",
        "apiserver_authentication_jwt_authenticator_latency_seconds_count{",
        "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info{",
    ] {
        assert!(metrics.contains(family), "{family}");
    }
    // The hash of the name of the identity lease of a machine called test-host.
    let id = "apiserver_id_hash=\"sha256:4b4a8fdabb57fd93709bf8de0d079f102e4251cb13c860fd764a09489a6b1fe2\"";
    assert!(metrics.contains(id), "{id}");
}
