//! Token webhooks that accept, reject, fail or return invalid responses, and the number of calls to them.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use binnacle_authn::{
    CacheTtls, TokenAuthenticator, TokenCache, TokenCacheMetrics, WebhookOptions, WebhookTokens, WebhookVersion,
};
use binnacle_meta::Text;
use binnacle_testkit::Hook;
use binnacle_webhook::{Backoff, Client, parse};
use binnacle_work::{WorkBudget, WorkLimits};
use http::Response;
use serde_json::{Value, json};

struct Fixture {
    tokens: TokenCache<WebhookTokens>,
    calls: Arc<AtomicU32>,
    _hook: Hook,
}

async fn webhook(code: u16, status: Value, version: &'static str, ttl: Duration) -> Fixture {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let hook = Hook::start(move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        let sent: Value = serde_json::from_slice(request.body()).unwrap();
        assert_eq!(sent["kind"], "TokenReview");
        assert!(!sent["spec"]["token"].as_str().unwrap().is_empty());
        let body = json!({"kind": "TokenReview", "apiVersion": version, "status": status}).to_string();
        async move { Response::builder().status(code).body(body.into_bytes()).unwrap() }
    })
    .await;
    let target = parse("config".as_ref(), hook.kubeconfig("/review", "").as_bytes()).unwrap();
    let client = Client::new(target, Duration::from_secs(30)).unwrap();
    let options = WebhookOptions { version: WebhookVersion::V1, audiences: vec!["api".into()] };
    let tokens = WebhookTokens::new(client, options).with_backoff(Backoff::never());
    let metrics = TokenCacheMetrics::register(&binnacle_metrics::Registry::new()).unwrap();
    let tokens = TokenCache::new(tokens, CacheTtls { success: ttl, failure: ttl }, metrics).unwrap();
    Fixture { tokens, calls, _hook: hook }
}

#[tokio::test]
async fn reads_reviews_and_caches_outcomes() {
    const V1: &str = "authentication.k8s.io/v1";
    let user = json!({"username": "u", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}});
    let known = json!({"authenticated": true, "user": user});
    let with = |member: &str, value: Value| {
        let mut known = known.clone();
        known[member] = value;
        known
    };
    let shown = "u 1 g,system:authenticated k=v for api";
    for (code, version, status, want) in [
        (200, V1, known.clone(), Ok(Some(shown))),
        (201, V1, with("audiences", json!(["api", "other"])), Ok(Some(shown))),
        (200, V1, with("audiences", json!(["other"])), Ok(None)),
        (200, V1, with("authenticated", json!(false)), Ok(None)),
        (200, V1, with("authenticated", json!("true")), Ok(None)),
        (200, V1, json!({}), Ok(None)),
        (200, V1, json!({"error": "token is out of date"}), Err("token is out of date")),
        (200, "authentication.k8s.io/v1beta1", known.clone(), Err("unexpected answer of a token webhook")),
        (500, V1, known.clone(), Err("an error on the server (")),
        (302, V1, known.clone(), Err("the server responded with the status code 302")),
    ] {
        for ttl in [Duration::ZERO, Duration::from_secs(60)] {
            let fixture = webhook(code, status.clone(), version, ttl).await;
            for _ in 0..2 {
                let wanted: Vec<Text> = vec!["api".into()];
                let outcome = fixture.tokens.authenticate_token("t", &wanted).await;
                let outcome = outcome.map(|known| {
                    known.map(|known| {
                        let user = &known.user;
                        let extra: Vec<String> =
                            user.extra.iter().map(|(k, v)| format!("{k}={}", v.join(","))).collect();
                        let groups = user.groups.join(",");
                        format!(
                            "{} {} {groups} {} for {}",
                            user.name,
                            user.uid,
                            extra.join(","),
                            known.audiences.join(",")
                        )
                    })
                });
                match (&outcome, &want) {
                    (Ok(got), Ok(want)) => assert_eq!(got.as_deref(), *want, "{status}"),
                    (Err(got), Err(want)) => assert!(got.0.starts_with(want), "{got}"),
                    _ => panic!("{status}: {outcome:?}"),
                }
            }
            // All results except errors are cached.
            let remembered = want.is_ok() && !ttl.is_zero();
            assert_eq!(fixture.calls.load(Ordering::Relaxed), if remembered { 1 } else { 2 }, "{status}");
        }
    }
}

#[tokio::test]
async fn charges_memory_of_large_users_and_tokens() {
    const GROUPS: usize = 300_000;
    let status = json!({"authenticated": true, "user": {"username": "u", "groups": vec![""; GROUPS]}});
    let fixture = webhook(200, status, "authentication.k8s.io/v1", Duration::from_secs(60)).await;
    let authenticate = async |token: &str, memory: usize| {
        let budget = WorkBudget::new(WorkLimits { steps: u64::MAX, memory });
        let outcome = budget.run(fixture.tokens.authenticate_token(token, &[])).await;
        (outcome.map(|known| known.map(|known| known.user.groups.len())), budget.memory())
    };
    // A user of this size is not cached.
    for calls in 1..3 {
        let (groups, memory) = authenticate("t", 64 << 20).await;
        assert_eq!(groups.unwrap(), Some(GROUPS + 1));
        assert!(memory > GROUPS * size_of::<Text>(), "{memory}");
        assert_eq!(fixture.calls.load(Ordering::Relaxed), calls);
    }
    assert!(authenticate("t", 4 << 20).await.0.is_err());
    // The webhook is not called for a token that exceeds the memory budget.
    let calls = fixture.calls.load(Ordering::Relaxed);
    assert!(authenticate(&"x".repeat(1 << 20), 2 << 20).await.0.is_err());
    assert_eq!(fixture.calls.load(Ordering::Relaxed), calls);
}
