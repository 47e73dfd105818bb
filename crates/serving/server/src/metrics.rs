//! The metric families that this server fills, under kube-apiserver's names, and `/metrics`.

mod families;
mod labels;
mod work;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use binnacle_authn::{AuthenticationResponse, AuthnError};
use binnacle_authz::{AuthzError, Decision};
use binnacle_features::Features;
use binnacle_meta::GoDuration;
use binnacle_metrics::{ExposedMetrics, Level, MetricFamilies, Registry};
use binnacle_request::latency::Part;
use binnacle_request::{BoxFuture, Facts, Handler, Record, RecordSink, Request, RequestInfo, Response, User};
use binnacle_transport::ConnectionMetrics;
use http::Method;

use self::families::{ComponentFamilies, Families, FeatureMetrics, build_labels};
use self::labels::{
    COMPONENT, HandlerLabels, code_label, component, field_validation, names, system_client, username_category,
    verb_with_body,
};
use self::work::WorkMetrics;
use crate::exposition::{exposition, reset};
use crate::impersonation::ImpersonationMetrics;
use crate::inflight::{InFlight, RequestKind};
use crate::slow_requests;
use crate::timings::FilterMetrics;
use crate::traces;
use crate::version::Build;

/// The server's own families; other components register theirs with [`Metrics::registry`].
pub struct Metrics {
    registry: Registry,
    inflight: Arc<InFlight>,
    families: Families,
    work: WorkMetrics,
    connections: ConnectionMetrics,
    filters: FilterMetrics,
    impersonation: ImpersonationMetrics,
    /// An additional receiver of ended requests.
    observer: OnceLock<Arc<dyn RecordSink>>,
}

impl Metrics {
    /// Returns metrics without build information.
    pub fn new() -> Result<Arc<Self>, prometheus::Error> {
        Self::of(&Build::default(), &Arc::default())
    }

    pub fn of(build: &Build, features: &Arc<Features>) -> Result<Arc<Self>, prometheus::Error> {
        let native = features.enabled("NativeHistograms");
        let registry = if native { Registry::with_native_histograms() } else { Registry::new() };
        let metrics = Self {
            families: Families::register(&registry)?,
            work: WorkMetrics::register(&registry)?,
            connections: ConnectionMetrics::register(&registry)?,
            filters: FilterMetrics::register(&registry)?,
            impersonation: ImpersonationMetrics::register(&registry)?,
            inflight: InFlight::new(),
            observer: OnceLock::new(),
            registry: registry.clone(),
        };
        metrics.families.field_validation.with_label_values(&[""]);
        let component = ComponentFamilies::register(&registry)?;
        component.build_info.with_label_values(&build_labels(build)).set(1.0);
        let fips = binnacle_crypto::fips_module().unwrap_or_default();
        component.crypto.with_label_values(&[binnacle_crypto::PROVIDER, &fips]).set(1.0);
        FeatureMetrics::register(features.clone(), &registry)?;
        registry.register(crate::process::Process::new()?)?;
        Ok(Arc::new(metrics))
    }

    /// Returns the registry to which other components add their families.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Sets the observer that receives every request when it ends. It can be set only once.
    pub fn observe(&self, observer: Arc<dyn RecordSink>) {
        let _ = self.observer.set(observer);
    }

    /// Returns the numbers of requests in flight.
    pub fn in_flight(&self) -> InFlightCounts {
        let count = |number: i64| u64::try_from(number).unwrap_or_default();
        InFlightCounts {
            read_only: count(self.inflight.highest(RequestKind::ReadOnly)),
            mutating: count(self.inflight.highest(RequestKind::Mutating)),
            long_running: count(self.inflight.now(RequestKind::LongRunning)),
            sent_bytes: self.inflight.sent_bytes(),
        }
    }

    pub(crate) fn inflight(&self) -> &Arc<InFlight> {
        &self.inflight
    }

    pub(crate) fn impersonation(&self) -> &ImpersonationMetrics {
        &self.impersonation
    }

    pub(crate) fn filters(&self) -> &FilterMetrics {
        &self.filters
    }

    pub(crate) fn connections(&self) -> &ConnectionMetrics {
        &self.connections
    }

    pub(crate) fn observe_authentication(
        &self,
        result: &Result<Option<AuthenticationResponse>, AuthnError>,
        took: Duration,
    ) {
        let label = match result {
            Err(_) => "error",
            Ok(None) => "failure",
            Ok(Some(known)) => {
                self.families.authenticated_users.with_label_values(&[username_category(&known.user.name)]).inc();
                "success"
            }
        };
        self.families.authentication_attempts.with_label_values(&[label]).inc();
        self.families.authentication_duration.with_label_values(&[label]).observe(took.as_secs_f64());
    }

    pub(crate) fn observe_authorization(&self, result: Result<&Decision, &AuthzError>, took: Duration) {
        let label = match result {
            Ok(Decision::Allow(_)) => "allowed",
            Ok(Decision::Deny(_)) => "denied",
            Ok(Decision::NoOpinion(_)) => "no-opinion",
            Err(_) => "error",
        };
        self.families.authorization_attempts.with_label_values(&[label]).inc();
        self.families.authorization_duration.with_label_values(&[label]).observe(took.as_secs_f64());
    }

    /// Counts a request that the server aborted to protect itself. The handler may not have checked that its resource
    /// exists, so names in the path are not used as labels.
    pub(crate) fn count_termination(&self, info: &RequestInfo, record: &Record, code: &str) {
        let mut verb = "";
        record.note(|facts| verb = facts.metric_verb);
        self.families.terminations.with_label_values(&[verb, "", "", "", "", info.scope(), COMPONENT, code]).inc();
    }

    pub(crate) fn work(&self) -> &WorkMetrics {
        &self.work
    }

    /// Counts a long-running request until the result is dropped; other requests are ignored.
    pub(crate) fn long_running(&self, record: &Record) -> Option<LongRunningGuard> {
        let mut gauge = None;
        record.note(|facts| {
            let info = facts.info.as_ref().filter(|info| facts.served && info.is_long_running());
            gauge = info.map(|info| {
                let [group, version, resource, subresource] = names(info);
                let labels = [facts.metric_verb, group, version, resource, subresource, info.scope(), COMPONENT];
                self.families.long_running.with_label_values(&labels)
            });
        });
        gauge.map(|gauge| {
            gauge.inc();
            LongRunningGuard(gauge)
        })
    }

    /// Returns all families.
    fn families(&self, exposed: &ExposedMetrics) -> MetricFamilies {
        for (kind, label) in [(RequestKind::ReadOnly, "readOnly"), (RequestKind::Mutating, "mutating")] {
            self.families.current_inflight.with_label_values(&[label]).set(self.inflight.highest(kind));
        }
        exposed.families(self.registry.gather_all())
    }
}

/// The numbers of requests in flight; short requests are counted by the maximum of the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlightCounts {
    pub read_only: u64,
    pub mutating: u64,
    pub long_running: u64,
    /// Bytes of responses since the start.
    pub sent_bytes: u64,
}

/// A guard for a long-running request.
pub(crate) struct LongRunningGuard(Level<i64>);

impl Drop for LongRunningGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl RecordSink for Metrics {
    fn finished(&self, record: &Record, facts: &Facts) {
        access_log(record, facts);
        slow_requests::log(record, facts);
        traces::finish(record, facts);
        if let Some(observer) = self.observer.get() {
            observer.finished(record, facts);
        }
        if let (Some(part), Some(info)) = (facts.given_up_by, &facts.info) {
            let mut digits = [0; 3];
            let code = code_label(facts.status, &mut digits);
            // Group and version belong to an APIService; the resource may not exist.
            let (group, version) = (info.api_group.as_str(), info.api_version.as_str());
            let labels = [facts.metric_verb, group, version, "", "", info.scope(), part, code];
            self.families.terminations.with_label_values(&labels).inc();
        }
        let Some(info) = facts.info.as_ref().filter(|_| facts.served) else { return };
        let HandlerLabels { verb, scope, counts_response_size } =
            HandlerLabels::of(info, facts.metric_verb, facts.routed);
        let [group, version, resource, subresource] = names(info);
        if facts.user.as_ref().is_some_and(|user| user.name == User::APISERVER) {
            self.families.self_requests.with_label_values(&[verb, group, resource, subresource]).inc();
        }
        if let Some(removed) = &facts.deprecated {
            self.families.deprecated.with_label_values(&[group, version, resource, subresource, removed]).set(1);
        }
        let mut digits = [0; 3];
        let code = code_label(facts.status, &mut digits);
        let system_client = facts.user_agent.as_ref().map_or("", system_client);
        let seconds = record.started().elapsed().as_secs_f64();
        self.families
            .request_total
            .with_label_values(&[
                verb,
                facts.dry_run,
                group,
                version,
                resource,
                subresource,
                scope,
                component(info),
                code,
                system_client,
            ])
            .inc();
        self.families
            .request_duration
            .with_label_values(&[verb, facts.dry_run, group, version, resource, subresource, scope, component(info)])
            .observe(seconds);
        let labels = [verb, group, version, resource, subresource, scope, component(info)];
        // Watches last as long as clients keep them open.
        if facts.dry_run.is_empty() && info.verb != "watch" {
            let excluded = [Part::MutatingWebhooks, Part::ValidatingWebhooks, Part::QueueWait];
            let excluded: Duration = excluded.into_iter().map(|part| record.latency(part)).sum();
            self.families.request_sli_duration.with_label_values(&labels).observe(seconds - excluded.as_secs_f64());
        }
        if record.uri().contains("fieldValidation") {
            self.families.field_validation.with_label_values(&[field_validation(record.uri())]);
        }
        if let Some(verb) = verb_with_body(info, verb) {
            let labels = [info.api_group.as_str(), info.resource.as_str(), verb];
            self.families.request_bodies.with_label_values(&labels).observe(record.request_bytes() as f64);
        }
        if counts_response_size {
            self.families.response_sizes.with_label_values(&labels).observe(record.response_bytes() as f64);
        }
    }
}

/// Writes the line that kube-apiserver logs for each request at `--v=3` and above, with additional fields at the end.
fn access_log(record: &Record, facts: &Facts) {
    let info = facts.info.as_ref();
    // Methods without a label of their own are logged unchanged.
    let verb = if matches!(facts.metric_verb, "" | "other") { record.method().as_str() } else { facts.metric_verb };
    let hijacked = (facts.status == 101).then_some(true);
    let added = facts.impersonator.as_deref().zip(facts.user.as_deref());
    tracing::debug!(
        target: "http",
        verb,
        URI = record.uri(),
        latency = %GoDuration(i64::try_from(record.started().elapsed().as_nanos()).unwrap_or(i64::MAX)),
        userAgent = facts.user_agent.as_ref().and_then(|agent| agent.to_str().ok()).unwrap_or_default(),
        "audit-ID" = %record.audit_id(),
        srcIP = facts.peer.map(|peer| peer.to_string()).unwrap_or_default(),
        apf_pl = facts.flow.as_ref().map(|flow| flow.level.as_str()),
        apf_fs = facts.flow.as_ref().map(|flow| flow.schema.as_str()),
        hijacked,
        resp = hijacked.is_none().then_some(facts.status),
        addedInfo = added.map(|(from, to)| format!("{} is impersonating {}", describe_user(from), describe_user(to))),
        user = info.and(facts.user.as_ref()).map(|user| user.name.as_str()),
        bytes = record.response_bytes(),
        "HTTP"
    );
}

fn describe_user(user: &User) -> String {
    let name = if user.name.is_empty() { "<empty>" } else { &user.name };
    match user.groups.join(",") {
        groups if groups.is_empty() => name.to_owned(),
        groups => format!("{name}[{groups}]"),
    }
}

/// Serves `/metrics`.
pub struct MetricsHandler {
    pub metrics: Arc<Metrics>,
    pub exposed: Arc<ExposedMetrics>,
    /// True if `DELETE` resets the series of all families with labels.
    pub resets: bool,
}

impl Handler for MetricsHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        info.path == "/metrics"
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            if self.resets && request.method == Method::DELETE {
                self.metrics.registry.reset();
                self.exposed.reset();
                return reset();
            }
            exposition(self.metrics.families(&self.exposed), &request.headers).await
        })
    }

    fn paths(&self) -> Vec<String> {
        vec!["/metrics".to_owned()]
    }
}
