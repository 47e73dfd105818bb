//! Service account tokens that are valid, forged, expired, or bound to deleted objects.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_authn::service_account::{BoundKind, BoundObjects, FixedKeys, LegacySecret, ObjectState};
use binnacle_authn::{
    AuthenticationResponse, AuthnError, ServiceAccountMetrics, ServiceAccountOptions, ServiceAccountTokens,
    TokenAuthenticator,
};
use binnacle_jwt::{Algorithm, PrivateKey, private_from_pem};
use binnacle_meta::Text;
use binnacle_request::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

#[derive(Default)]
struct Objects {
    states: Mutex<HashMap<(BoundKind, String), Arc<ObjectState>>>,
    secret: Mutex<Option<LegacySecret>>,
    auto_generated: bool,
    used: Mutex<Vec<String>>,
}

impl Objects {
    fn put(&self, kind: BoundKind, name: &str, uid: &str, deleted: Option<i64>) {
        let state = Arc::new(ObjectState { uid: uid.into(), deleted });
        self.states.lock().insert((kind, name.to_owned()), state);
    }

    fn remove(&self, kind: BoundKind, name: &str) {
        self.states.lock().remove(&(kind, name.to_owned()));
    }
}

impl BoundObjects for Objects {
    fn state<'a>(
        &'a self,
        kind: BoundKind,
        namespace: &'a str,
        name: &'a str,
        _: bool,
    ) -> BoxFuture<'a, Result<Option<Arc<ObjectState>>, AuthnError>> {
        assert_eq!(namespace, if kind == BoundKind::Node { "" } else { "ns" });
        let found = self.states.lock().get(&(kind, name.to_owned())).cloned();
        Box::pin(async { Ok(found) })
    }

    fn legacy_secret<'a>(&'a self, _: &'a str, _: &'a str) -> BoxFuture<'a, Result<Option<LegacySecret>, AuthnError>> {
        let secret = self.secret.lock().clone();
        Box::pin(async { Ok(secret) })
    }

    fn owns_secret<'a>(&'a self, _: &'a str, _: &'a str, _: &'a str) -> BoxFuture<'a, bool> {
        Box::pin(async { self.auto_generated })
    }

    fn note_use<'a>(&'a self, _: &'a str, secret: &'a str, uid: &'a str, day: &'a str) -> BoxFuture<'a, ()> {
        self.used.lock().push(format!("{secret} {uid} {}", day.len()));
        Box::pin(async {})
    }
}

fn key() -> PrivateKey {
    private_from_pem(rcgen::KeyPair::generate().unwrap().serialize_pem().as_bytes()).unwrap()
}

fn now() -> i64 {
    i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()).unwrap()
}

fn authenticator(key: &PrivateKey, objects: &Arc<Objects>) -> ServiceAccountTokens {
    let options = ServiceAccountOptions {
        issuers: vec!["https://issuer".into(), "https://former".into()],
        keys: Arc::new(FixedKeys(vec![key.public().clone()])),
        audiences: vec!["api".into(), "api2".into()],
        lookup: true,
    };
    let metrics = ServiceAccountMetrics::register(&binnacle_metrics::Registry::new()).unwrap();
    ServiceAccountTokens::new(options, objects.clone(), metrics)
}

fn claims() -> Value {
    json!({
        "iss": "https://issuer", "sub": "system:serviceaccount:ns:sa", "aud": ["api"], "jti": "id",
        "iat": now(), "nbf": now(), "exp": now() + 600,
        "kubernetes.io": {"namespace": "ns", "serviceaccount": {"name": "sa", "uid": "sa-uid"}}
    })
}

/// Returns the claims with some of them replaced.
fn with(changes: Value) -> Value {
    fn merge(into: &mut Value, changes: Value) {
        match (into.as_object_mut(), changes) {
            (Some(into), Value::Object(changes)) => {
                for (key, change) in changes {
                    merge(into.entry(key).or_insert(Value::Null), change);
                }
            }
            (_, change) => *into = change,
        }
    }
    let mut claims = claims();
    merge(&mut claims, changes);
    claims
}

type Outcome = Result<Option<AuthenticationResponse>, AuthnError>;

async fn authenticate(tokens: &ServiceAccountTokens, token: &str, audiences: &[&str]) -> Outcome {
    let audiences: Vec<Text> = audiences.iter().map(Text::new).collect();
    tokens.authenticate_token(token, &audiences).await
}

fn shown(outcome: Outcome) -> Result<String, String> {
    match outcome {
        Ok(Some(known)) => Ok(format!("{} for {}", known.user.name, known.audiences.join(","))),
        Ok(None) => Ok("nobody".to_owned()),
        Err(error) => Err(error.0),
    }
}

#[tokio::test]
async fn validates_claims_signature_and_bound_objects() {
    let (key, stranger) = (key(), key());
    let objects = Arc::new(Objects::default());
    objects.put(BoundKind::ServiceAccount, "sa", "sa-uid", None);
    objects.put(BoundKind::Pod, "p", "p-uid", None);
    objects.put(BoundKind::Secret, "s", "s-uid", None);
    objects.put(BoundKind::Node, "n", "n-uid", None);
    objects.put(BoundKind::ServiceAccount, "leaving", "l-uid", Some(now() - 30));
    objects.put(BoundKind::ServiceAccount, "left", "l-uid", Some(now() - 90));
    let tokens = authenticator(&key, &objects);
    let good = "system:serviceaccount:ns:sa for api";
    let bound = |kind: &str, name: &str, uid: &str| with(json!({"kubernetes.io": {kind: {"name": name, "uid": uid}}}));
    let account =
        |name: &str, uid: &str| with(json!({"kubernetes.io": {"serviceaccount": {"name": name, "uid": uid}}}));
    let invalidated = "service account token has been invalidated";
    for (claims, want) in [
        (claims(), Ok(good)),
        (with(json!({"iss": "https://former"})), Ok(good)),
        (with(json!({"iss": "https://elsewhere"})), Ok("nobody")),
        (with(json!({"iss": null})), Ok("nobody")),
        (with(json!({"aud": "api"})), Ok(good)),
        (with(json!({"aud": ["other", "api2"]})), Ok("system:serviceaccount:ns:sa for api2")),
        (
            with(json!({"aud": ["other"]})),
            Err(r#"token audiences ["other"] is invalid for the target audiences ["api" "api2"]"#),
        ),
        (with(json!({"exp": now() - 90})), Err("service account token has expired")),
        (with(json!({"exp": now() - 30})), Ok(good)),
        (with(json!({"nbf": now() + 90})), Err("service account token is not valid yet")),
        (with(json!({"iat": now() + 90})), Err("service account token is issued in the future")),
        (
            with(json!({"exp": "tomorrow"})),
            Err("service account token claims could not be validated due to unexpected validation error"),
        ),
        (account("other", "x"), Err(r#"serviceaccounts "other" not found"#)),
        (account("sa", "x"), Err("service account UID (sa-uid) does not match claim (x)")),
        (account("leaving", "l-uid"), Ok("system:serviceaccount:ns:leaving for api")),
        (account("left", "l-uid"), Err("service account ns/left has been deleted")),
        (bound("pod", "p", "p-uid"), Ok(good)),
        (bound("pod", "q", "p-uid"), Err(invalidated)),
        (bound("pod", "p", "x"), Err("pod UID (p-uid) does not match service account pod ref claim (x)")),
        (bound("secret", "s", "s-uid"), Ok(good)),
        (bound("secret", "s", "x"), Err("secret UID (s-uid) does not match service account secret ref claim (x)")),
        (bound("node", "n", "n-uid"), Ok(good)),
        (bound("node", "m", "n-uid"), Err(invalidated)),
        (bound("node", "n", "x"), Err("node UID (n-uid) does not match service account node ref claim (x)")),
    ] {
        let token = key.sign(&claims).unwrap();
        // The second time, the claims are cached.
        for _ in 0..2 {
            let outcome = shown(authenticate(&tokens, &token, &[]).await);
            assert_eq!(outcome, want.map(str::to_owned).map_err(str::to_owned), "{claims}");
        }
    }
    // A token with another signer's signature is rejected, whatever its key ID.
    let forged = stranger.sign(&claims()).unwrap();
    assert_eq!(shown(authenticate(&tokens, &forged, &[]).await), Err("invalid signature, no keys found".to_owned()));
    let [_, payload, signature] = <[&str; 3]>::try_from(forged.split('.').collect::<Vec<_>>()).unwrap();
    let genuine = key.sign(&claims()).unwrap();
    let header = genuine.split('.').next().unwrap();
    let crypto = Err("go-jose/go-jose: error in cryptographic primitive".to_owned());
    assert_eq!(shown(authenticate(&tokens, &format!("{header}.{payload}.{signature}"), &[]).await), crypto);
    let none = "eyJhbGciOiJub25lIn0";
    assert_eq!(shown(authenticate(&tokens, &format!("{none}.{payload}."), &[]).await), crypto);
    let wrong = key.sign_by(Algorithm::Es384, &claims()).unwrap();
    assert_eq!(shown(authenticate(&tokens, &wrong, &[]).await), crypto);
    for text in ["", "x", "a.b", "a.b.c", &genuine[..genuine.len() / 3], "{\"payload\":\"\"}"] {
        assert_eq!(shown(authenticate(&tokens, text, &[]).await), Ok("nobody".to_owned()), "{text}");
    }
    // A TokenReview with other audiences.
    let token = key.sign(&with(json!({"aud": ["vault"]}))).unwrap();
    assert_eq!(
        shown(authenticate(&tokens, &token, &["vault"]).await),
        Ok("system:serviceaccount:ns:sa for vault".to_owned())
    );
    assert!(authenticate(&tokens, &token, &["api"]).await.is_err());
}

#[tokio::test]
async fn rejects_token_once_its_object_is_deleted_or_replaced() {
    let key = key();
    for kind in [BoundKind::ServiceAccount, BoundKind::Pod] {
        let objects = Arc::new(Objects::default());
        objects.put(BoundKind::ServiceAccount, "sa", "sa-uid", None);
        objects.put(BoundKind::Pod, "p", "p-uid", None);
        let tokens = authenticator(&key, &objects);
        let pod = json!({"pod": {"name": "p", "uid": "p-uid"}, "node": {"name": "n", "uid": "n-uid"}});
        let token = key.sign(&with(json!({"kubernetes.io": pod}))).unwrap();
        let known = authenticate(&tokens, &token, &[]).await.unwrap().unwrap();
        assert_eq!(known.user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"]);
        assert_eq!(known.user.uid, "sa-uid");
        let extra = known.user.extra.iter();
        let extra: Vec<String> = extra.map(|(key, values)| format!("{key}={}", values.join(","))).collect();
        assert_eq!(
            extra,
            [
                "authentication.kubernetes.io/credential-id=JTI=id",
                "authentication.kubernetes.io/node-name=n",
                "authentication.kubernetes.io/node-uid=n-uid",
                "authentication.kubernetes.io/pod-name=p",
                "authentication.kubernetes.io/pod-uid=p-uid",
            ]
        );
        // The result is reused while nothing has changed.
        assert!(Arc::ptr_eq(&known.user, &authenticate(&tokens, &token, &[]).await.unwrap().unwrap().user));
        let name = if kind == BoundKind::Pod { "p" } else { "sa" };
        objects.remove(kind, name);
        assert!(authenticate(&tokens, &token, &[]).await.is_err());
        // An object of the same name with another UID is a different object.
        objects.put(kind, name, "other", None);
        assert!(authenticate(&tokens, &token, &[]).await.is_err());
    }
}

#[tokio::test]
async fn annotates_stale_tokens() {
    let key = key();
    let objects = Arc::new(Objects::default());
    objects.put(BoundKind::ServiceAccount, "sa", "sa-uid", None);
    let tokens = authenticator(&key, &objects);
    for (after, want) in [(now() + 100, false), (now() - 100, true)] {
        let token = key.sign(&with(json!({"kubernetes.io": {"warnafter": after}}))).unwrap();
        let known = authenticate(&tokens, &token, &[]).await.unwrap().unwrap();
        let stale = known.notes.annotations.iter().find(|(key, _)| key == "authentication.k8s.io/stale-token");
        assert_eq!(stale.is_some(), want);
        if let Some((_, text)) = stale {
            assert!(
                text.starts_with("subject: system:serviceaccount:ns:sa, seconds after warning threshold: 10"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn validates_legacy_tokens_against_their_secret() {
    let key = key();
    let legacy = |claims: Value| key.sign(&claims).unwrap();
    let claims = |changes: &[(&str, &str)]| {
        let mut claims = json!({
            "iss": "kubernetes/serviceaccount",
            "sub": "system:serviceaccount:ns:sa",
            "kubernetes.io/serviceaccount/namespace": "ns",
            "kubernetes.io/serviceaccount/secret.name": "s",
            "kubernetes.io/serviceaccount/service-account.name": "sa",
            "kubernetes.io/serviceaccount/service-account.uid": "sa-uid",
        });
        for (claim, value) in changes {
            claims[*claim] = json!(value);
        }
        legacy(claims)
    };
    let token = claims(&[]);
    let secret = || LegacySecret { uid: "s-uid".into(), token: token.clone().into_bytes(), ..LegacySecret::default() };
    let good = "system:serviceaccount:ns:sa for api,api2";
    let gone = "Token has been invalidated";
    for (token, secret, want) in [
        (&token, Some(secret()), Ok(good)),
        (&token, None, Err(gone)),
        (&token, Some(LegacySecret { deleted: true, ..secret() }), Err(gone)),
        (
            &token,
            Some(LegacySecret { token: b"other".to_vec(), ..secret() }),
            Err("Token does not match server's copy"),
        ),
        (
            &token,
            Some(LegacySecret { invalid_since: "2026-01-01".into(), ..secret() }),
            Err("the token in secret ns/s for service account ns/sa has been marked invalid. Use tokens from the \
                 TokenRequest API or manually created secret-based tokens, or remove the \
                 'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token"),
        ),
        (&claims(&[("sub", "system:serviceaccount:ns:other")]), Some(secret()), Err("sub claim is invalid")),
        (&claims(&[("sub", "")]), Some(secret()), Err("sub claim is missing")),
        (
            &claims(&[("kubernetes.io/serviceaccount/secret.name", "")]),
            Some(secret()),
            Err("secretName claim is missing"),
        ),
    ] {
        for auto_generated in [false, true] {
            let objects = Arc::new(Objects { auto_generated, ..Objects::default() });
            objects.put(BoundKind::ServiceAccount, "sa", "sa-uid", None);
            *objects.secret.lock() = secret.clone();
            let tokens = authenticator(&key, &objects);
            let outcome = authenticate(&tokens, token, &[]).await;
            if let Ok(Some(known)) = &outcome {
                assert_eq!(known.notes.warnings.is_empty(), !auto_generated);
                assert_eq!(*objects.used.lock(), ["s s-uid 10"]);
            }
            assert_eq!(shown(outcome), want.map(str::to_owned).map_err(str::to_owned));
        }
    }
}
