//! The metric families of authorizers, with kube-apiserver's names.

use std::time::Duration;

use binnacle_metrics::{HistogramVec, IntCounterVec, Series, families};
use binnacle_request::{BoxFuture, Decision, User};
use prometheus::exponential_buckets;

use crate::{Attributes, Authorizer, AuthzError, Rules};

families! {
    /// The metrics of authorizers.
    pub struct Metrics {
        decisions: IntCounterVec = "apiserver_authorization_decisions_total" by ["type", "name", "decision"],
            "[ALPHA] Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.";
        webhook_evaluations: IntCounterVec = "apiserver_authorization_webhook_evaluations_total" by ["name", "result"],
            "[ALPHA] Round-trips to authorization webhooks.";
        webhook_duration: HistogramVec = "apiserver_authorization_webhook_duration_seconds" by ["name", "result"]
            buckets [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
            "[ALPHA] Request latency in seconds.";
        webhook_fail_open: IntCounterVec = "apiserver_authorization_webhook_evaluations_fail_open_total"
            by ["name", "result"],
            "[ALPHA] NoOpinion results due to webhook timeout or error.";
        match_errors: IntCounterVec = "apiserver_authorization_match_condition_evaluation_errors_total"
            by ["type", "name"],
            "[ALPHA] Total number of errors when an authorization webhook encounters a match condition error split by \
             authorizer type and name.";
        match_exclusions: IntCounterVec = "apiserver_authorization_match_condition_exclusions_total" by ["type", "name"],
            "[ALPHA] Total number of exclusions when an authorization webhook is skipped because match conditions exclude \
             it.";
        match_duration: HistogramVec = "apiserver_authorization_match_condition_evaluation_seconds" by ["type", "name"]
            buckets [0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25],
            "[ALPHA] Authorization match condition evaluation time in seconds, split by authorizer type and name.";
        graph_actions: HistogramVec = "node_authorizer_graph_actions_duration_seconds" by ["operation"]
            buckets exponential_buckets(0.0001, 2.0, 12)?,
            "[ALPHA] Histogram of duration of graph actions in node authorizer.";
    }
}

impl Metrics {
    pub(crate) fn graph_action(&self, operation: &str, took: Duration) {
        self.graph_actions.with_label_values(&[operation]).observe(took.as_secs_f64());
    }

    pub(crate) fn webhook_called(&self, name: &str, result: &str, took: Duration) {
        self.webhook_evaluations.with_label_values(&[name, result]).inc();
        self.webhook_duration.with_label_values(&[name, result]).observe(took.as_secs_f64());
    }

    pub(crate) fn webhook_failed_open(&self, name: &str, result: &str) {
        self.webhook_fail_open.with_label_values(&[name, result]).inc();
    }

    /// Records an evaluation of a webhook's match conditions: `excluded` if one was false, `failed` if one failed.
    pub(crate) fn record_match_conditions(&self, name: &str, took: Duration, excluded: bool, failed: bool) {
        self.match_duration.with_label_values(&["Webhook", name]).observe(took.as_secs_f64());
        if excluded {
            self.match_exclusions.with_label_values(&["Webhook", name]).inc();
        }
        if failed {
            self.match_errors.with_label_values(&["Webhook", name]).inc();
        }
    }
}

/// Counts the decisions of an authorizer.
pub struct CountingAuthorizer<A> {
    inner: A,
    allowed: Series<IntCounterVec>,
    denied: Series<IntCounterVec>,
}

impl<A: Authorizer> CountingAuthorizer<A> {
    pub fn new(inner: A, kind: &str, name: &str, metrics: &Metrics) -> Self {
        let counter = |decision| Series::new(&metrics.decisions, &[kind, name, decision]);
        Self { inner, allowed: counter("allowed"), denied: counter("denied") }
    }
}

impl<A: Authorizer> Authorizer for CountingAuthorizer<A> {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async move {
            let result = self.inner.authorize(attributes).await;
            match &result {
                Ok(Decision::Allow(_)) => self.allowed.with(|counter| counter.inc()),
                Ok(Decision::Deny(_)) => self.denied.with(|counter| counter.inc()),
                Err(error) if error.denies => self.denied.with(|counter| counter.inc()),
                Ok(Decision::NoOpinion(_)) | Err(_) => {}
            }
            result
        })
    }

    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        self.inner.rules_for(user, namespace)
    }
}
