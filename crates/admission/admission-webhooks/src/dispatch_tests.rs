//! Tests of the dispatch: which webhooks are called, in which order, and what their responses do to a request. The
//! webhooks are those of a real server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_admission::{Chain, Metrics as ChainMetrics, Plugin, Request, ResourceLookup, Stage};
use binnacle_admission_matching::expressions::MatchConditionMetrics;
use binnacle_authz::AlwaysAllow;
use binnacle_meta::Status;
use binnacle_metrics::Registry;
use binnacle_registry::admission::{Admission, Attributes, Operation};
use binnacle_registry::{Catalog, RequestNotes, WriteObject};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use binnacle_testkit::Hook as Server;
use parking_lot::Mutex;
use tokio::sync::Barrier;

use crate::testing::{backends, creation, parse};
use crate::{Metrics, Mutating, PluginDependencies, Validating, WebhookKind, Webhooks};

/// A server of webhooks. The path of a webhook is `/NAME/RESPONSE` or `/NAME/RESPONSE/LABEL`.
struct Backend {
    server: Server,
    /// The names of the called webhooks, in order.
    calls: Arc<Mutex<Vec<String>>>,
}

/// Requests of a test.
enum Sent {
    Create,
    DryRun,
    Delete,
    /// A creation that must be complete within this time.
    Within(Duration),
    /// A creation whose object another plugin changes in each pass.
    ChangedByPlugin,
}

impl Backend {
    async fn start() -> Self {
        let calls: Arc<Mutex<Vec<String>>> = Arc::default();
        let (called, both) = (calls.clone(), Arc::new(Barrier::new(2)));
        let server = Server::start(move |request| {
            let (called, both) = (called.clone(), both.clone());
            async move {
                let mut path = request.uri().path().trim_start_matches('/').split('/');
                let (name, behaviour) = (path.next().unwrap_or_default(), path.next().unwrap_or_default());
                let count = {
                    let mut called = called.lock();
                    called.push(name.to_owned());
                    called.iter().filter(|other| *other == name).count()
                };
                match behaviour {
                    "meet" => {
                        both.wait().await;
                    }
                    "slow" => tokio::time::sleep(Duration::from_secs(60)).await,
                    "error" => return http::Response::builder().status(500).body(b"oops".to_vec()).unwrap(),
                    _ => {}
                }
                http::Response::new(review(request.body(), behaviour, path.next(), count).into_bytes())
            }
        })
        .await;
        Self { server, calls }
    }

    /// Returns a webhook from words: its name, its path, and settings.
    fn webhook(&self, words: &str) -> String {
        let mut words = words.split(' ');
        let (name, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let mut settings = HashMap::from([
            ("namespaceSelector", "{}".to_owned()),
            ("objectSelector", "{}".to_owned()),
            ("sideEffects", r#""None""#.to_owned()),
            ("admissionReviewVersions", r#"["v1"]"#.to_owned()),
            ("failurePolicy", r#""Fail""#.to_owned()),
        ]);
        for word in words {
            let (setting, value) = match word.split_once('=') {
                None if word == "IfNeeded" => ("reinvocationPolicy", r#""IfNeeded""#.to_owned()),
                None if word == "Ignore" => ("failurePolicy", r#""Ignore""#.to_owned()),
                None => ("sideEffects", format!("{word:?}")),
                Some(("only", label)) => ("objectSelector", format!(r#"{{"matchLabels": {{"{label}": "1"}}}}"#)),
                Some(("version", version)) => ("admissionReviewVersions", format!("[{version:?}]")),
                Some((_, expression)) => ("matchConditions", conditions(expression)),
            };
            settings.insert(setting, value);
        }
        let settings: Vec<String> = settings.iter().map(|(name, value)| format!(r#""{name}": {value}"#)).collect();
        let (url, authority) = (self.server.url(), STANDARD.encode(&self.server.authority));
        let rules = r#"[{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]"#;
        format!(
            r#"{{"name": "{name}", "rules": {rules}, {},
                "clientConfig": {{"url": "{url}/{name}/{path}", "caBundle": "{authority}"}}}}"#,
            settings.join(", ")
        )
    }

    /// Sends a request through a chain with these webhooks, and returns the names of the called ones, and the object's
    /// labels or the error, with warnings in brackets.
    async fn outcome(&self, kind: WebhookKind, sent: &Sent, webhooks: &[&str]) -> String {
        self.calls.lock().clear();
        let configuration: Vec<String> = webhooks.iter().map(|words| self.webhook(words)).collect();
        let configuration =
            parse(&format!(r#"{{"metadata": {{"name": "c"}}, "webhooks": [{}]}}"#, configuration.join(", ")));
        let all = Arc::new(Webhooks::new(kind, backends()));
        all.put(&configuration);
        all.were_read();
        let mut plugins: Vec<Arc<dyn Plugin>> = vec![match kind {
            WebhookKind::Mutating => Arc::new(Mutating::new(all, dependencies())),
            WebhookKind::Validating => Arc::new(Validating::new(all, dependencies())),
        }];
        if matches!(sent, Sent::ChangedByPlugin) {
            plugins.push(Arc::new(PassCounter));
        }
        let chain = Chain::new(plugins, &ChainMetrics::register(&Registry::new()).unwrap()).unwrap();
        let notes = RequestNotes::default();
        let result = send(&chain, kind, sent, &notes).await;
        let warnings = notes.warnings().take();
        let warnings = if warnings.is_empty() { String::new() } else { format!(" {warnings:?}") };
        format!("{}: {}{warnings}", self.calls.lock().join(" "), result.unwrap_or_else(|error| error))
    }

    async fn mutate(&self, sent: &Sent, webhooks: &[&str], want: &str) {
        assert_eq!(self.outcome(WebhookKind::Mutating, sent, webhooks).await, want, "{webhooks:?}");
    }

    async fn validate(&self, sent: &Sent, webhooks: &[&str], want: &str) {
        assert_eq!(self.outcome(WebhookKind::Validating, sent, webhooks).await, want, "{webhooks:?}");
    }
}

/// Sets the label `pass` to the number of the pass. Only its name must be one of the chain's.
struct PassCounter;

impl Plugin for PassCounter {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }

    fn handles(&self, stage: Stage, _: &Attributes) -> bool {
        stage == Stage::Mutate
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let is_second = request.reinvocation().is_some_and(|passes| passes.is_second());
        object.make_at(&["metadata", "labels"]).insert("pass", if is_second { "2" } else { "1" });
        Box::pin(async { Ok(()) })
    }
}

/// Returns match conditions: one that is always true, and this expression. `error` is one that cannot be evaluated.
fn conditions(expression: &str) -> String {
    let expression = if expression == "error" { "object.data.absent=='x'" } else { expression };
    format!(r#"[{{"name": "first", "expression": "true"}}, {{"name": "second", "expression": "{expression}"}}]"#)
}

/// Returns the response to a review. `count` is the number of calls of this webhook.
fn review(request: &[u8], behaviour: &str, label: Option<&str>, count: usize) -> String {
    let review = parse(&String::from_utf8_lossy(request));
    let uid = review.str_at(&["request", "uid"]);
    let with_patch = |value: &str| {
        let path = format!("/metadata/labels/{}", label.unwrap_or_default());
        let patch = format!(r#"[{{"op": "add", "path": "{path}", "value": "{value}"}}]"#);
        format!(r#""allowed": true, "patchType": "JSONPatch", "patch": "{}""#, STANDARD.encode(patch))
    };
    let response = match behaviour {
        "deny" => r#""allowed": false, "status": {"message": "no", "code": 403}"#.to_owned(),
        "label" => with_patch("1"),
        "count" => with_patch(&count.to_string()),
        "warn" => r#""allowed": true, "warnings": ["beware"]"#.to_owned(),
        "other" => return r#"{"apiVersion": "v1", "kind": "Pod"}"#.to_owned(),
        _ => r#""allowed": true"#.to_owned(),
    };
    format!(
        r#"{{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": {{"uid": "{uid}", {response}}}}}"#
    )
}

fn dependencies() -> PluginDependencies {
    let (registry, catalog) = (Registry::new(), Catalog::new(binnacle_builtin::kinds(), Arc::default()));
    PluginDependencies {
        lookup: Arc::new(ResourceLookup::new(catalog.clone())),
        catalog,
        authorizer: Arc::new(AlwaysAllow),
        metrics: Metrics::register(&registry).unwrap(),
        conditions: MatchConditionMetrics::register(&registry).unwrap(),
    }
}

/// Returns the labels of the object after admission, `a=1 b=1`, or the code and message of the error.
async fn send(chain: &Chain, kind: WebhookKind, sent: &Sent, notes: &RequestNotes) -> Result<String, String> {
    let mut attributes = creation("", "ConfigMap", "configmaps");
    let stored =
        parse(r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "labels": {"old": ""}}}"#);
    let mut object = WriteObject::from(stored.clone());
    let mut old = None;
    match sent {
        Sent::Create | Sent::ChangedByPlugin => {}
        Sent::DryRun => attributes.dry_run = true,
        Sent::Within(time) => attributes.deadline = Some(Instant::now() + *time),
        Sent::Delete => {
            attributes.operation = Operation::Delete;
            (object, old) = (WriteObject::from(Value::Null), Some(&stored));
        }
    }
    let admitted = match kind {
        WebhookKind::Mutating => chain.mutate(&attributes, &mut object, old, notes).await,
        WebhookKind::Validating => chain.validate(&attributes, &object, old, notes).await,
    };
    admitted.map_err(|status| format!("{} {}", status.code(), status.message()))?;
    let labels = object.object_at(&["metadata", "labels"]).into_iter().flat_map(|labels| labels.iter());
    let labels = labels.filter(|(key, _)| key.as_str() != "old");
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("?"))).collect();
    Ok(labels.join(" "))
}

#[tokio::test(flavor = "multi_thread")]
async fn mutating_webhooks_are_called_in_order_until_one_denies() {
    let backend = Backend::start().await;
    backend.mutate(&Sent::Create, &["b label/x", "a label/y"], "b a: x=1 y=1").await;
    backend.mutate(&Sent::Create, &["a label/x", "b allow only=x", "c allow only=z"], "a b: x=1").await;
    let denied = "a b: 403 admission webhook \"b\" denied the request: no";
    backend.mutate(&Sent::Create, &["a warn", "b deny", "c allow"], &format!("{denied} [\"beware\"]")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reinvokes_webhooks_whose_object_has_changed_since() {
    let backend = Backend::start().await;
    for (webhooks, want) in [
        // Nothing changes after them.
        (&["a label/x IfNeeded", "b allow IfNeeded"][..], "a b: x=1"),
        (&["a allow IfNeeded", "b allow"], "a b: "),
        // A later webhook changes the object.
        (&["a label/x", "b label/y"], "a b: x=1 y=1"),
        (&["a label/x IfNeeded", "b label/y"], "a b a: x=1 y=1"),
        (&["a allow IfNeeded", "b allow IfNeeded", "c label/y"], "a b c a b: y=1"),
        // One change during the second pass reinvokes the others, but there is no third pass.
        (&["a count/x IfNeeded", "b count/y IfNeeded"], "a b a b: x=2 y=2"),
        (&["a label/x IfNeeded", "b count/y IfNeeded"], "a b a: x=1 y=1"),
        // A webhook must match in both passes.
        (&["a allow IfNeeded only=x", "b label/x"], "b: x=1"),
        (&["a allow IfNeeded if=!has(object.metadata.labels.x)", "b label/x"], "a b: x=1"),
    ] {
        backend.mutate(&Sent::Create, webhooks, want).await;
    }
}

/// The plugin changes the object in the second pass, after the last webhook of the first one.
#[tokio::test(flavor = "multi_thread")]
async fn reinvokes_webhooks_after_changes_by_plugins() {
    let backend = Backend::start().await;
    for (webhooks, want) in [
        (&["a label/x", "b allow IfNeeded"][..], "a b b: pass=2 x=1"),
        (&["a label/x", "b allow"], "a b: pass=2 x=1"),
        // No webhook requests a second pass.
        (&["a allow IfNeeded"], "a: pass=1"),
    ] {
        backend.mutate(&Sent::ChangedByPlugin, webhooks, want).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failure_policy_applies_to_failed_calls_only() {
    let backend = Backend::start().await;
    let called = "500 Internal error occurred: failed calling webhook \"a\": failed to call webhook";
    let server_error =
        format!("a: {called}: an error on the server (\"oops\") has prevented the request from succeeding");
    backend.mutate(&Sent::Create, &["a error", "b allow"], &server_error).await;
    backend.validate(&Sent::Create, &["a error"], &server_error).await;
    let versions = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
    let no_version = format!(
        ": 500 Internal error occurred: failed calling webhook \"a\": could not create admission objects: {versions}"
    );
    for webhook in ["a error", "a other", "a allow version=v2"] {
        let ignored = format!("{webhook} Ignore");
        let called = if webhook.ends_with("v2") { "b" } else { "a b" };
        backend.mutate(&Sent::Create, &[&ignored, "b label/x"], &format!("{called}: x=1")).await;
    }
    backend.mutate(&Sent::Create, &["a allow version=v2"], &no_version).await;
    let denied = "a: 403 admission webhook \"a\" denied the request: no";
    backend.mutate(&Sent::Create, &["a deny Ignore", "b allow"], denied).await;
    backend.validate(&Sent::Create, &["a deny Ignore"], denied).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dry_runs_reach_only_webhooks_without_side_effects() {
    let backend = Backend::start().await;
    let refused = ": 400 admission webhook \"a\" does not support dry run";
    for (webhook, want) in [
        ("a allow None", "a: "),
        ("a allow NoneOnDryRun", "a: "),
        ("a allow Some", refused),
        ("a allow Unknown", refused),
        // It does not depend on the failure policy, but on whether the webhook matches.
        ("a allow Some Ignore", refused),
        ("a allow Some only=x", ": "),
        ("a allow Some if=request.dryRun!=true", ": "),
    ] {
        backend.mutate(&Sent::DryRun, &[webhook], want).await;
        backend.validate(&Sent::DryRun, &[webhook], want).await;
    }
    backend.mutate(&Sent::Create, &["a allow Some"], "a: ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn match_conditions_exclude_requests_and_fail_by_the_failure_policy() {
    let backend = Backend::start().await;
    let failed = ": 403 configmaps \"x\" is forbidden: expression 'object.data.absent=='x'' resulted in error: no such key: data";
    for (webhook, want) in [
        ("a deny if=false", ": "),
        ("a deny if=object.metadata.name!='x'", ": "),
        ("a allow if=object.metadata.name=='x'", "a: "),
        ("a deny if=error Ignore", ": "),
        ("a allow if=error", failed),
    ] {
        backend.mutate(&Sent::Create, &[webhook], want).await;
        backend.validate(&Sent::Create, &[webhook], want).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn validating_webhooks_are_called_at_once_even_if_one_denies() {
    let backend = Backend::start().await;
    // Each waits for the other one.
    let outcome = backend.outcome(WebhookKind::Validating, &Sent::Create, &["a meet", "b meet"]).await;
    assert!(["a b: ", "b a: "].contains(&outcome.as_str()), "{outcome}");
    let outcome = backend.outcome(WebhookKind::Validating, &Sent::Create, &["a deny", "b warn"]).await;
    let calls = outcome.split(':').next();
    assert!(matches!(calls, Some("a b" | "b a")), "{outcome}");
    let denied = "403 admission webhook \"a\" denied the request: no [\"beware\"]";
    assert!(outcome.ends_with(denied), "{outcome}");
}

#[tokio::test(flavor = "multi_thread")]
async fn validating_webhooks_cannot_patch() {
    let backend = Backend::start().await;
    let invalid = "a: 500 Internal error occurred: failed calling webhook \"a\": received invalid webhook response: \
                   validating webhook may not return response.patch";
    backend.validate(&Sent::Create, &["a label/x"], invalid).await;
    backend.validate(&Sent::Create, &["a label/x Ignore"], "a: ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deletions_have_no_object_to_patch() {
    let backend = Backend::start().await;
    let refused = "a: 500 Internal error occurred: admission webhook \"a\" attempted to modify the object, which is not \
                   supported for this operation";
    backend.mutate(&Sent::Delete, &["a label/x Ignore"], refused).await;
    backend.mutate(&Sent::Delete, &["a allow", "b allow if=oldObject.metadata.name=='x'"], "a b: ").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_have_the_time_of_the_request() {
    let backend = Backend::start().await;
    let late = "a: 504 Timeout: request did not complete within requested timeout - context deadline exceeded";
    let soon = Sent::Within(Duration::from_millis(400));
    backend.mutate(&soon, &["a slow"], late).await;
    backend.validate(&soon, &["a slow"], late).await;
    // Half of the time is left for the next one.
    let warning = "admission webhook \\\"a\\\" was not waited for: the request had no time left for it";
    backend.mutate(&soon, &["a slow Ignore", "b label/x"], &format!("a b: x=1 [\"{warning}\"]")).await;
    let over = Sent::Within(Duration::ZERO);
    let timeout = ": 504 Timeout: request did not complete within requested timeout";
    backend.validate(&over, &["a allow"], timeout).await;
    backend.mutate(&over, &["a allow Ignore"], &format!("{timeout} [\"{warning}\"]")).await;
}
