//! The families of requests, authentication and authorization, and of the component: build information and features.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binnacle_features::Features;
use binnacle_metrics::{
    ComputedGauge, Family, GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Registry, families, register_family,
};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{exponential_buckets, linear_buckets};

use crate::version::{self, Build};

const DURATION_BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

families! {
    pub(super) struct Families {
        pub(super) request_total: IntCounterVec = "apiserver_request_total"
            by [
                "verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component", "code",
                "system_client",
            ],
            "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, \
             scope, component, and HTTP response code.";
        pub(super) request_duration: HistogramVec = "apiserver_request_duration_seconds"
            by ["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"]
            buckets DURATION_BUCKETS,
            "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, version, resource, \
             subresource, scope and component.";
        pub(super) request_sli_duration: HistogramVec = "apiserver_request_sli_duration_seconds"
            by ["verb", "group", "version", "resource", "subresource", "scope", "component"]
            buckets &DURATION_BUCKETS[2..],
            "[ALPHA] Response latency distribution (not counting webhook duration and priority & fairness queue wait times) \
             in seconds for each verb, group, version, resource, subresource, scope and component.";
        pub(super) response_sizes: HistogramVec = "apiserver_response_sizes"
            by ["verb", "group", "version", "resource", "subresource", "scope", "component"]
            buckets exponential_buckets(1000.0, 10.0, 7)?,
            "[STABLE] Response size distribution in bytes for each group, version, verb, resource, subresource, scope and \
             component.";
        pub(super) request_bodies: HistogramVec = "apiserver_request_body_size_bytes" by ["group", "resource", "verb"]
            buckets linear_buckets(50_000.0, 100_000.0, 31)?,
            "[ALPHA] Apiserver request body size in bytes broken out by resource and verb.";
        /// Only has series for values that occurred, as in Go.
        pub(super) field_validation: HistogramVec = "field_validation_request_duration_seconds" by ["field_validation"]
            buckets &DURATION_BUCKETS[2..],
            "[ALPHA] Response latency distribution in seconds for each field validation value";
        pub(super) terminations: IntCounterVec = "apiserver_request_terminations_total"
            by ["verb", "group", "version", "resource", "subresource", "scope", "component", "code"],
            "[ALPHA] Number of requests which apiserver terminated in self-defense.";
        pub(super) current_inflight: IntGaugeVec = "apiserver_current_inflight_requests" by ["request_kind"],
            "[STABLE] Maximal number of currently used inflight request limit of this apiserver per request kind in last \
             second.";
        pub(super) long_running: IntGaugeVec = "apiserver_longrunning_requests"
            by ["verb", "group", "version", "resource", "subresource", "scope", "component"],
            "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, \
             scope and component. Not all requests are tracked this way.";
        pub(super) self_requests: IntCounterVec = "apiserver_selfrequest_total"
            by ["verb", "group", "resource", "subresource"],
            "[ALPHA] Counter of apiserver self-requests broken out for each verb, API resource and subresource.";
        pub(super) deprecated: IntGaugeVec = "apiserver_requested_deprecated_apis"
            by ["group", "version", "resource", "subresource", "removed_release"],
            "[STABLE] Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, \
             subresource, and removed_release.";
        pub(super) authentication_attempts: IntCounterVec = "authentication_attempts" by ["result"],
            "[ALPHA] Counter of authenticated attempts.";
        pub(super) authentication_duration: HistogramVec = "authentication_duration_seconds" by ["result"]
            buckets exponential_buckets(0.001, 2.0, 15)?,
            "[ALPHA] Authentication duration in seconds broken out by result.";
        pub(super) authenticated_users: IntCounterVec = "authenticated_user_requests" by ["username"],
            "[ALPHA] Counter of authenticated requests broken out by username.";
        pub(super) authorization_attempts: IntCounterVec = "authorization_attempts_total" by ["result"],
            "[ALPHA] Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', \
             'no-opinion' or 'error'.";
        pub(super) authorization_duration: HistogramVec = "authorization_duration_seconds" by ["result"]
            buckets exponential_buckets(0.001, 2.0, 15)?,
            "[ALPHA] Authorization duration in seconds broken out by result.";
    }
}

families! {
    /// Set once.
    pub(super) struct ComponentFamilies {
        pub(super) build_info: GaugeVec = "kubernetes_build_info"
            by [
                "major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler",
                "platform",
            ],
            "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, \
             build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.";
        pub(super) crypto: GaugeVec = "binnacle_crypto_provider_info" by ["provider", "fips"],
            "A metric with a constant '1' value labeled by the cryptography provider and the version of its FIPS module.";
    }
}

families! {
    struct FeatureFamilies {
        enabled: ComputedGauge = "kubernetes_feature_enabled" by ["name", "stage"],
            "[BETA] This metric records the data about the stage and enablement of a k8s feature.";
    }
}

/// The values of the feature gates. Their hundreds of metrics are computed at each scrape, since most logical clusters are
/// never scraped; a reset removes them.
#[derive(Clone)]
pub(super) struct FeatureMetrics {
    families: Arc<FeatureFamilies>,
    features: Arc<Features>,
    is_reset: Arc<AtomicBool>,
}

impl FeatureMetrics {
    pub(super) fn register(features: Arc<Features>, registry: &Registry) -> Result<(), prometheus::Error> {
        let families = Arc::new(FeatureFamilies::build()?);
        register_family(registry, Self { families, features, is_reset: Arc::default() }).map(drop)
    }
}

impl Collector for FeatureMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.families.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        if self.is_reset.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let enabled = &self.families.enabled;
        let gates = self.features.gates.all();
        let metrics = gates.map(|(name, spec, on)| enabled.metric(&[name, spec.stage.label()], u8::from(on).into()));
        vec![enabled.with(metrics.collect())]
    }
}

impl Family for FeatureMetrics {
    fn reset(&self) {
        self.is_reset.store(true, Ordering::Relaxed);
    }
}

/// Returns the values of the labels of `kubernetes_build_info`.
pub(super) fn build_labels(build: &Build) -> [String; 9] {
    [
        version::MAJOR,
        version::MINOR,
        &build.git_version,
        build.git_commit,
        build.git_tree_state,
        build.date.unwrap_or_default(),
        version::TOOLCHAIN,
        version::COMPILER,
        &version::platform(),
    ]
    .map(str::to_owned)
}
