//! Webhooks over real HTTPS servers that allow, deny, return invalid responses, or do not respond.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use binnacle_request::{Decision, User};
use binnacle_testkit::Hook;
use binnacle_webhook::{Client, Target, parse};
use http::{Request, Response};
use parking_lot::Mutex;

use super::{ReviewVersion, Webhook, WebhookOptions};
use crate::webhook::MatchConditions;
use crate::{Attributes, Authorizer, AuthzError, Metrics};

fn options() -> WebhookOptions {
    WebhookOptions {
        name: "w".to_owned(),
        version: ReviewVersion::V1,
        authorized_ttl: Duration::ZERO,
        unauthorized_ttl: Duration::ZERO,
        deny_on_error: false,
        retry_after: Duration::from_millis(1),
    }
}

struct Fixture {
    webhook: Webhook,
    registry: binnacle_metrics::Registry,
    calls: Arc<AtomicU32>,
    bodies: Arc<Mutex<Vec<String>>>,
    _hook: Option<Hook>,
}

impl Fixture {
    /// Starts a webhook that always returns this response, after a delay.
    async fn responding(options: WebhookOptions, code: u16, body: &str, pause: Duration) -> Self {
        let (calls, bodies) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (counted, kept, body) = (calls.clone(), bodies.clone(), body.as_bytes().to_vec());
        let hook = Hook::start(move |request: Request<Vec<u8>>| {
            counted.fetch_add(1, Ordering::Relaxed);
            kept.lock().push(String::from_utf8(request.body().clone()).unwrap());
            let body = body.clone();
            async move {
                tokio::time::sleep(pause).await;
                Response::builder().status(code).body(body).unwrap()
            }
        })
        .await;
        let target = parse("config".as_ref(), hook.kubeconfig("/authorize", "secret").as_bytes()).unwrap();
        let mut fixture = Self::calling(target, options, Duration::from_millis(300));
        (fixture.calls, fixture.bodies, fixture._hook) = (calls, bodies, Some(hook));
        fixture
    }

    fn calling(target: Target, options: WebhookOptions, timeout: Duration) -> Self {
        let registry = binnacle_metrics::Registry::new();
        let metrics = Arc::new(Metrics::register(&registry).unwrap());
        let client = Client::new(target, timeout).unwrap();
        let webhook = Webhook::new(client, options, MatchConditions::default(), metrics);
        Self { webhook, registry, calls: Arc::default(), bodies: Arc::default(), _hook: None }
    }

    async fn authorize(&self) -> Result<Decision, AuthzError> {
        let user = User::new("alice", &["g"]);
        self.webhook.authorize(&list(&user)).await
    }

    fn has_metric(&self, line: &str) -> bool {
        let text = prometheus::TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        text.lines().any(|counted| counted == line)
    }
}

fn list(user: &User) -> Attributes<'_> {
    Attributes {
        verb: "list",
        is_resource_request: true,
        api_group: "apps",
        api_version: "v1",
        resource: "deployments",
        namespace: "n",
        field_selector: "metadata.name!=x",
        label_selector: "a=b,c",
        ..Attributes::nothing(user)
    }
}

const OK: Duration = Duration::ZERO;

#[tokio::test]
async fn shortens_long_reasons_and_rejects_long_responses() {
    let reason = "because ".repeat(10_000);
    let body = format!(r#"{{"status":{{"allowed":false,"reason":"{reason}"}}}}"#);
    let fixture = Fixture::responding(options(), 200, &body, OK).await;
    let cut = &reason[..super::MAX_REASON];
    assert_eq!(fixture.authorize().await, Ok(Decision::NoOpinion(cut.into())));
    let body = format!(r#"{{"status":{{"x":[1{}]}}}}"#, ",1".repeat(super::MAX_RESPONSE / 2));
    let fixture = Fixture::responding(options(), 200, &body, OK).await;
    let why = "the answer of the authorization webhook is longer than 1048576 bytes";
    assert_eq!(fixture.authorize().await, Err(AuthzError::new(why)));
}

#[tokio::test]
async fn maps_responses_to_decisions() {
    let none = |reason: &str| Ok(Decision::NoOpinion(reason.into()));
    let registered = |kind: &str, version: &str| {
        Err(AuthzError::new(format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme")))
    };
    for (body, want) in [
        (r#"{"status":{"allowed":true,"reason":"r"}}"#, Ok(Decision::Allow("r".into()))),
        (
            r#"{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","status":{"allowed":false,"reason":"no"}}"#,
            none("no"),
        ),
        (r#"{"status":{"denied":true,"reason":"never"}}"#, Ok(Decision::Deny("never".into()))),
        (
            r#"{"status":{"denied":true,"allowed":true,"reason":"x"}}"#,
            Err(AuthzError::denying("webhook subject access review returned both allow and deny response", "x")),
        ),
        (r#"{}"#, none("")),
        (
            r#"{"status":{"allowed":"true"}}"#,
            Err(AuthzError::new("invalid type: string \"true\", expected a boolean at line 1 column 27")),
        ),
        (r#"{"kind":"Pod","apiVersion":"v1","status":{"allowed":true}}"#, registered("Pod", "v1")),
        (
            r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1beta1","status":{"allowed":true}}"#,
            registered("SubjectAccessReview", "authorization.k8s.io/v1beta1"),
        ),
        ("<html>", Err(AuthzError::new("expected value at line 1 column 1"))),
    ] {
        let fixture = Fixture::responding(options(), 200, body, OK).await;
        assert_eq!(fixture.authorize().await, want, "{body}");
    }
}

#[tokio::test]
async fn sends_subject_access_reviews_of_both_versions() {
    let body = r#"{"status":{"allowed":true}}"#;
    let fixture = Fixture::responding(options(), 201, body, OK).await;
    fixture.authorize().await.unwrap();
    let mut user = User::new("bob", &[]);
    user.uid = "u".into();
    user.extra.insert("k".into(), vec!["v".into()]);
    fixture.webhook.authorize(&Attributes { verb: "get", path: "/x", ..Attributes::nothing(&user) }).await.unwrap();
    let bodies = fixture.bodies.lock().clone();
    assert_eq!(
        bodies[0],
        concat!(
            r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"#,
            r#""resourceAttributes":{"namespace":"n","verb":"list","group":"apps","version":"v1","resource":"deployments","#,
            r#""fieldSelector":{"requirements":[{"key":"metadata.name","operator":"NotIn","values":["x"]}]},"#,
            r#""labelSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]},{"key":"c","operator":"Exists"}]}},"#,
            r#""user":"alice","groups":["g"]},"status":{"allowed":false}}"#
        )
    );
    assert_eq!(
        bodies[1],
        concat!(
            r#"{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","metadata":{},"spec":{"#,
            r#""nonResourceAttributes":{"path":"/x","verb":"get"},"user":"bob","extra":{"k":["v"]},"uid":"u"},"#,
            r#""status":{"allowed":false}}"#
        )
    );
    let old = Fixture::responding(WebhookOptions { version: ReviewVersion::V1beta1, ..options() }, 200, body, OK).await;
    old.authorize().await.unwrap();
    let bodies = old.bodies.lock().clone();
    assert!(
        bodies[0].contains(r#""apiVersion":"authorization.k8s.io/v1beta1""#) && bodies[0].contains(r#""group":["g"]"#)
    );
}

#[tokio::test]
async fn retries_and_obeys_the_failure_policy() {
    for deny_on_error in [false, true] {
        let options = || WebhookOptions { deny_on_error, ..options() };
        // Calls are retried if a webhook fails temporarily, but not if it rejects them.
        let fixture = Fixture::responding(options(), 500, "boom", OK).await;
        let error = fixture.authorize().await.unwrap_err();
        assert_eq!(error.message, "an error on the server (\"boom\") has prevented the request from succeeding");
        assert_eq!((error.denies, fixture.calls.load(Ordering::Relaxed)), (deny_on_error, 5));
        assert!(fixture.has_metric("apiserver_authorization_webhook_evaluations_total{name=\"w\",result=\"error\"} 5"));
        let open = "apiserver_authorization_webhook_evaluations_fail_open_total{name=\"w\",result=\"error\"} 1";
        assert_eq!(fixture.has_metric(open), !deny_on_error);
        let fixture = Fixture::responding(options(), 403, "", OK).await;
        assert_eq!(
            (fixture.authorize().await.unwrap_err().denies, fixture.calls.load(Ordering::Relaxed)),
            (deny_on_error, 1)
        );

        let fixture = Fixture::responding(options(), 200, "{}", Duration::from_secs(60)).await;
        let error = fixture.authorize().await.unwrap_err();
        assert!(error.message.ends_with("context deadline exceeded"), "{error}");
        assert_eq!(error.denies, deny_on_error);
        assert!(
            fixture.has_metric("apiserver_authorization_webhook_evaluations_total{name=\"w\",result=\"timeout\"} 1")
        );
    }
    let mut gone = Target::new("https://127.0.0.1:1/").unwrap();
    gone.insecure = true;
    let fixture = Fixture::calling(gone, options(), Duration::from_secs(5));
    assert!(fixture.authorize().await.unwrap_err().message.contains("connection refused"));
}

#[tokio::test]
async fn counts_cancelled_calls() {
    let fixture = Fixture::responding(options(), 200, "{}", Duration::from_secs(60)).await;
    assert!(tokio::time::timeout(Duration::from_millis(20), fixture.authorize()).await.is_err());
    assert!(fixture.has_metric("apiserver_authorization_webhook_evaluations_total{name=\"w\",result=\"canceled\"} 1"));
}

#[tokio::test]
async fn caches_responses_by_ttl_and_request() {
    let hour = Duration::from_secs(3600);
    for (body, authorized_ttl, unauthorized_ttl, want) in [
        (r#"{"status":{"allowed":true}}"#, hour, OK, 1),
        (r#"{"status":{"allowed":true}}"#, OK, hour, 2),
        (r#"{"status":{"allowed":false}}"#, hour, OK, 2),
        (r#"{"status":{"denied":true}}"#, OK, hour, 1),
    ] {
        let fixture =
            Fixture::responding(WebhookOptions { authorized_ttl, unauthorized_ttl, ..options() }, 200, body, OK).await;
        assert_eq!(fixture.authorize().await, fixture.authorize().await);
        assert_eq!(fixture.calls.load(Ordering::Relaxed), want, "{body}");
        // Responses are not shared between users, and those to long reviews are not cached.
        let (other, long) = (User::new("alic", &["e", "g"]), "x".repeat(10_000));
        fixture.webhook.authorize(&list(&other)).await.unwrap();
        for _ in 0..2 {
            fixture.webhook.authorize(&Attributes { name: &long, ..list(&other) }).await.unwrap();
        }
        assert_eq!(fixture.calls.load(Ordering::Relaxed), want + 3);
    }
}
