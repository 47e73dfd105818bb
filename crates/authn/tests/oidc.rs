//! A small provider, whose tokens are good, forged, out of date, for others, and whose keys change.

#![allow(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use binnacle_authn::{Oidc, OidcOptions, TokenAuthenticator};
use binnacle_jwt::{Algorithm, PrivateKey, private_from_pem};
use binnacle_testkit::Hook;
use http::Response;
use parking_lot::Mutex;
use serde_json::{Value, json};

fn key() -> PrivateKey {
    private_from_pem(rcgen::KeyPair::generate().unwrap().serialize_pem().as_bytes()).unwrap()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

struct Provider {
    hook: Hook,
    issuer: Arc<Mutex<String>>,
    keys: Arc<Mutex<Value>>,
}

impl Provider {
    async fn start(key: &PrivateKey) -> Self {
        let keys = Arc::new(Mutex::new(json!({"keys": [key.public().to_jwk()]})));
        let issuer = Arc::new(Mutex::new(String::new()));
        let (served, named) = (keys.clone(), issuer.clone());
        let hook = Hook::start(move |request| {
            let issuer = named.lock().clone();
            let body = match request.uri().path() {
                "/.well-known/openid-configuration" => json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")}),
                _ => served.lock().clone(),
            };
            async move { Response::new(body.to_string().into_bytes()) }
        })
        .await;
        *issuer.lock() = hook.url();
        Self { hook, issuer, keys }
    }

    fn options(&self) -> OidcOptions {
        OidcOptions {
            issuer: self.issuer.lock().clone(),
            client_id: "kubernetes".to_owned(),
            authorities: Some(self.hook.authority.clone().into_bytes()),
            username_claim: "email".to_owned(),
            username_prefix: "o:".to_owned(),
            groups_claim: "groups".to_owned(),
            groups_prefix: "g:".to_owned(),
            required_claims: vec![("hd".to_owned(), "here".to_owned())],
            algorithms: vec![Algorithm::Es256],
            audiences: Vec::new(),
        }
    }

    fn claims(&self, changes: Value) -> Value {
        let mut claims = json!({
            "iss": *self.issuer.lock(), "aud": "kubernetes", "exp": now() + 100, "email": "me", "hd": "here", "sub": "1",
        });
        for (claim, value) in changes.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        claims
    }
}

async fn ask(oidc: &Oidc, token: &str) -> Result<String, String> {
    match oidc.authenticate_token(token, &[]).await {
        Ok(None) => Ok("nobody".to_owned()),
        Ok(Some(known)) => Ok(format!("{} {}", known.user.name, known.user.groups.join(","))),
        Err(error) => Err(error.0),
    }
}

#[tokio::test]
async fn claims_decide() {
    let (key, stranger) = (key(), key());
    let provider = Provider::start(&key).await;
    let oidc = Oidc::new(provider.options()).unwrap();
    let good = key.sign(&provider.claims(json!({}))).unwrap();
    assert_eq!(ask(&oidc, &good).await, Err("oidc: authenticator not initialized".to_owned()));
    oidc.discover().await;
    for (changes, want) in [
        (json!({}), Ok("o:me system:authenticated")),
        (json!({"groups": ["a", "b"]}), Ok("o:me g:a,g:b,system:authenticated")),
        (json!({"groups": "a"}), Ok("o:me g:a,system:authenticated")),
        (json!({"groups": [1]}), Err("oidc: parse groups claim \"groups\": ")),
        (json!({"aud": ["x", "kubernetes"]}), Ok("o:me system:authenticated")),
        (json!({"aud": "other"}), Err("oidc: verify token: oidc: expected audience \"kubernetes\" got [\"other\"]")),
        (json!({"aud": null}), Err("oidc: verify token: oidc: expected audience \"kubernetes\" got []")),
        (json!({"iss": "https://elsewhere"}), Ok("nobody")),
        (json!({"exp": now() - 1}), Err("oidc: verify token: oidc: token is expired")),
        (json!({"exp": null}), Err("oidc: verify token: oidc: token is expired")),
        (json!({"nbf": now() + 1000}), Err("oidc: verify token: current time before the nbf")),
        (json!({"email_verified": true}), Ok("o:me system:authenticated")),
        (json!({"email_verified": false}), Err("oidc: email not verified")),
        (json!({"email": 7}), Err("oidc: parse username claims \"email\": ")),
        (json!({"email": null}), Err("oidc: parse username claims \"email\": ")),
        (json!({"hd": "there"}), Err("oidc: required claim hd value does not match. Got = there, want = here")),
    ] {
        let token = key.sign(&provider.claims(changes.clone())).unwrap();
        match (ask(&oidc, &token).await, want) {
            (Ok(got), Ok(want)) => assert_eq!(got, want, "{changes}"),
            (Err(got), Err(want)) => assert!(got.starts_with(want), "{changes}: {got}"),
            (got, _) => panic!("{changes}: {got:?}"),
        }
    }
    let claims = provider.claims(json!({}));
    let forged = stranger.sign(&claims).unwrap();
    let error = ask(&oidc, &forged).await.unwrap_err();
    assert!(error.starts_with("oidc: verify token: failed to verify signature"), "{error}");
    let unsupported = key.sign_by(Algorithm::Es384, &claims).unwrap();
    let error = ask(&oidc, &unsupported).await.unwrap_err();
    assert!(error.starts_with("oidc: verify token: oidc: id token signed with unsupported algorithm"), "{error}");
    for text in ["", "a.b.c", &good[..good.len() / 2]] {
        assert_eq!(ask(&oidc, text).await, Ok("nobody".to_owned()));
    }
}

#[tokio::test]
async fn keys_change() {
    let (first, second) = (key(), key());
    let provider = Provider::start(&first).await;
    let oidc = Oidc::new(provider.options()).unwrap();
    oidc.discover().await;
    let new = second.sign(&provider.claims(json!({}))).unwrap();
    *provider.keys.lock() = json!({"keys": [second.public().to_jwk()]});
    assert_eq!(ask(&oidc, &new).await, Ok("o:me system:authenticated".to_owned()));
    // The former key counts no more.
    let old = first.sign(&provider.claims(json!({}))).unwrap();
    assert!(ask(&oidc, &old).await.is_err());
}

#[tokio::test]
async fn a_provider_that_calls_itself_something_else_is_not_believed() {
    let provider = Provider::start(&key()).await;
    let options = provider.options();
    "https://elsewhere".clone_into(&mut provider.issuer.lock());
    let oidc = Oidc::new(options).unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(300), oidc.discover()).await.is_err());
}
