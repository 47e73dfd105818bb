//! The plugin with real HTTPS servers that allow, deny, send malformed responses, are slow, or are absent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use binnacle_registry::{RequestNotes, Warnings};
use binnacle_request::{AuditLevel, Record};
use binnacle_schema::value;
use binnacle_testkit::Hook;
use binnacle_webhook::{Client, parse};
use http::{Request as HttpRequest, Response};
use parking_lot::Mutex;

use super::*;
use crate::testing::{FixedLookup, pods};

const TIMEOUT: Duration = Duration::from_millis(300);

struct Fixture {
    plugin: ImagePolicyWebhook,
    calls: Arc<AtomicU32>,
    bodies: Arc<Mutex<Vec<String>>>,
    _hook: Option<Hook>,
}

fn settings(kubeconfig: &str, default_allow: bool) -> ImagePolicySettings {
    let target = parse("config".as_ref(), kubeconfig.as_bytes()).unwrap();
    ImagePolicySettings {
        client: Client::new(target, TIMEOUT).unwrap(),
        allow_ttl: Duration::from_secs(3600),
        deny_ttl: Duration::ZERO,
        retry_backoff: Duration::from_millis(1),
        default_allow,
    }
}

impl Fixture {
    /// Starts a server that returns these responses in order and repeats the last one.
    async fn responding(responses: &[(u16, &str)], pause: Duration, default_allow: bool) -> Self {
        let (calls, bodies) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
        let responses: Vec<(u16, Vec<u8>)> =
            responses.iter().map(|(code, body)| (*code, body.as_bytes().to_vec())).collect();
        let (counted, kept) = (calls.clone(), bodies.clone());
        let hook = Hook::start(move |request: HttpRequest<Vec<u8>>| {
            let call = counted.fetch_add(1, Ordering::Relaxed) as usize;
            kept.lock().push(String::from_utf8(request.body().clone()).unwrap());
            let (code, body) = responses[call.min(responses.len() - 1)].clone();
            async move {
                tokio::time::sleep(pause).await;
                Response::builder().status(code).body(body).unwrap()
            }
        })
        .await;
        let plugin = ImagePolicyWebhook::new(
            settings(&hook.kubeconfig("/images", "secret"), default_allow),
            FixedLookup::new(Vec::new()),
        );
        Self { plugin, calls, bodies, _hook: Some(hook) }
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Validates a pod with this image, and returns the result and the audit annotations.
    async fn validate(&self, image: &str) -> (Result<(), String>, Vec<String>) {
        let attributes = pods(Operation::Create);
        assert!(self.plugin.handles(Stage::Validate, &attributes));
        let pod = value!({"metadata": {"name": "x"}, "spec": {"containers": [{"image": image}]}});
        let record = Record::open(http::Method::POST, "/".into(), None, None);
        record.begin_audit().decide(AuditLevel::Metadata, false);
        let notes = RequestNotes::new(Warnings::default(), record.clone());
        let verdict = self.plugin.validate(Request::new(&attributes, None, &notes), &pod.clone().into()).await;
        let annotations = record.begin_audit().noted().annotations;
        let told = annotations.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let prefix = "pods \"x\" is forbidden: ";
        (verdict.map_err(|status| status.message().strip_prefix(prefix).expect("a refusal").to_owned()), told)
    }
}

#[tokio::test]
async fn maps_responses_to_verdicts_and_annotations() {
    let pod = "converting (v1.Pod) to (v1alpha1.ImageReview): unknown conversion";
    let newer = "no kind \"ImageReview\" is registered for version \"imagepolicy.k8s.io/v1\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"";
    let not_bool = "json: cannot unmarshal string into Go struct field ImageReviewStatus.status.allowed of type bool";
    let tagged = r#"{"status":{"allowed":true,"auditAnnotations":{"scan":"clean","not a key":"x"}}}"#;
    for (code, body, want, told) in [
        (200, r#"{"status":{"allowed":true}}"#, Ok(()), None),
        (201, tagged, Ok(()), Some("scan=clean")),
        (200, r#"{"status":{"allowed":false}}"#, Err("one or more images rejected by webhook backend"), None),
        (
            200,
            r#"{"apiVersion":"imagepolicy.k8s.io/v1alpha1","kind":"ImageReview","status":{"reason":"old","auditAnnotations":{"a":"b"}}}"#,
            Err("image policy webhook backend denied one or more images: old"),
            Some("a=b"),
        ),
        (200, "{}", Err("one or more images rejected by webhook backend"), None),
        (200, r#"{"kind":"Pod","apiVersion":"v1","status":{"allowed":true}}"#, Err(pod), None),
        (200, r#"{"kind":"ImageReview","apiVersion":"imagepolicy.k8s.io/v1"}"#, Err(newer), None),
        (200, r#"{"status":{"allowed":"yes"}}"#, Err(not_bool), None),
        (200, "", Err("0-length response with status code: 200 and content type: "), None),
        (404, "", Err("the server could not find the requested resource"), None),
        (422, "{}", Err("the server rejected our request due to an error in our request"), None),
    ] {
        let fixture = Fixture::responding(&[(code, body)], Duration::ZERO, false).await;
        let told: Vec<_> = told.into_iter().map(|told| format!("{PREFIX}{told}")).collect();
        assert_eq!(fixture.validate("a").await, (want.map_err(str::to_owned), told), "{code} {body}");
        assert_eq!(fixture.calls(), 1);
    }
}

/// kube-apiserver does not wrap the 403 of the webhook's server in another one.
#[tokio::test]
async fn returns_the_forbidden_status_of_the_webhook_server() {
    let told =
        r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"not you","code":403}"#;
    for (code, body, message, causes) in
        [(403, "go away", "go away", 1), (403, told, "not you", 0), (200, told, "not you", 0)]
    {
        let fixture = Fixture::responding(&[(code, body)], Duration::ZERO, false).await;
        let attributes = pods(Operation::Create);
        let notes = RequestNotes::default();
        let verdict = fixture.plugin.validate(Request::new(&attributes, None, &notes), &value!({}).into()).await;
        let status = verdict.expect_err("it is a refusal");
        let found = status.details().map_or(0, |details| details.causes.len());
        assert_eq!((status.code(), status.message(), found), (403, message, causes), "{code} {body}");
    }
}

#[tokio::test]
async fn caches_allowing_responses() {
    let fixture = Fixture::responding(&[(200, r#"{"status":{"allowed":true}}"#)], Duration::ZERO, false).await;
    for image in ["a", "a", "b", "a"] {
        assert_eq!(fixture.validate(image).await.0, Ok(()));
    }
    assert_eq!(fixture.calls(), 2);
    let spec = r#""spec":{"containers":[{"image":"b"}],"namespace":"ns"},"status":{"allowed":false}}"#;
    assert!(fixture.bodies.lock()[1].trim_end().ends_with(spec));
    // Denials are not cached, since their TTL is zero here.
    let fixture = Fixture::responding(&[(200, "{}")], Duration::ZERO, false).await;
    assert!(fixture.validate("a").await.0.is_err() && fixture.validate("a").await.0.is_err());
    assert_eq!(fixture.calls(), 2);
}

#[tokio::test]
async fn retries_and_obeys_default_allow() {
    let allowed = (200, r#"{"status":{"allowed":true}}"#);
    // Transient failures are retried for a while.
    let fixture = Fixture::responding(&[(500, "busy"), (429, ""), allowed], Duration::ZERO, false).await;
    assert_eq!((fixture.validate("a").await.0, fixture.calls()), (Ok(()), 3));
    let fixture = Fixture::responding(&[(500, "busy")], Duration::ZERO, false).await;
    let why = "an error on the server (\"busy\") has prevented the request from succeeding";
    assert_eq!((fixture.validate("a").await.0, fixture.calls()), (Err(why.to_owned()), 5));

    let open = vec![format!("{PREFIX}failed-open=true")];
    let fixture = Fixture::responding(&[(404, "")], Duration::ZERO, true).await;
    assert_eq!(fixture.validate("a").await, (Ok(()), open.clone()));
    // Failed calls are not cached.
    assert_eq!(fixture.validate("a").await, (Ok(()), open.clone()));
    assert_eq!(fixture.calls(), 2);

    let slow = Fixture::responding(&[allowed], 10 * TIMEOUT, false).await;
    let why = slow.validate("a").await.0.unwrap_err();
    assert!(why.starts_with("Post \"https://127.0.0.1:") && why.ends_with("context deadline exceeded"), "{why}");

    let gone = Fixture::responding(&[allowed], Duration::ZERO, false).await;
    let kubeconfig = gone._hook.as_ref().unwrap().kubeconfig("/images", "secret");
    drop(gone);
    for (default_allow, told) in [(false, Vec::new()), (true, open)] {
        let plugin = ImagePolicyWebhook::new(settings(&kubeconfig, default_allow), FixedLookup::new(Vec::new()));
        let fixture = Fixture { plugin, calls: Arc::default(), bodies: Arc::default(), _hook: None };
        let (verdict, annotations) = fixture.validate("a").await;
        assert_eq!((verdict.is_ok(), annotations), (default_allow, told));
        if let Err(why) = verdict {
            assert!(why.ends_with("connection refused"), "{why}");
        }
    }
}

#[test]
fn reads_settings() {
    let directory = binnacle_testkit::TempDir::new();
    let file = |of: &str| {
        let text = parse("".as_ref(), of.as_bytes()).map(|_| of).expect("it can be read");
        directory.file("config", text)
    };
    let kubeconfig = file(
        "{current-context: c, contexts: [{name: c, context: {cluster: a}}], clusters: [{name: a, cluster: {server: 'https://a.test/x'}}]}",
    );
    let read = |members: &str| {
        let text = format!("imagePolicy: {{kubeConfigFile: '{kubeconfig}', {members}}}\nunknown: passed over\n");
        ImagePolicySettings::read(Some(text.as_bytes()))
    };
    let told = |settings: ImagePolicySettings| {
        let ImagePolicySettings { allow_ttl, deny_ttl, retry_backoff, default_allow, .. } = settings;
        (allow_ttl.as_secs(), deny_ttl.as_secs(), retry_backoff.as_millis(), default_allow)
    };
    assert_eq!(read("").map(told), Ok((300, 30, 500, false)));
    let all = "allowTTL: 60, denyTTL: -1, retryBackoff: 20, defaultAllow: true";
    assert_eq!(read(all).map(told), Ok((60, 0, 20, true)));
    for (members, want) in [
        ("allowTTL: 1801", "valid value is between 1s and 30m0s, got 30m1s"),
        ("denyTTL: -2", "valid value is between 1s and 30m0s, got -2s"),
        ("retryBackoff: 300001", "valid value is between 1ns and 5m0s, got 5m0.001s"),
    ] {
        assert_eq!(read(members).map(told), Err(want.to_owned()));
    }
    assert_eq!(ImagePolicySettings::read(None).map(told), Err("no config specified".to_owned()));
    let missing = ImagePolicySettings::read(Some(b"imagePolicy: {kubeConfigFile: /nonexistent/config}")).map(told);
    assert_eq!(missing, Err("stat /nonexistent/config: no such file or directory".to_owned()));
    let none = ImagePolicySettings::read(Some(b"{}")).map(told).unwrap_err();
    assert!(none.starts_with("invalid configuration: no configuration has been provided"), "{none}");
}
