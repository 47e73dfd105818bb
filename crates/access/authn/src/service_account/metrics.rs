//! Metrics of the service account tokens that are used.

use binnacle_metrics::{Registry, keep};
use prometheus::IntCounter;

/// The `serviceaccount_` families.
#[derive(Clone)]
pub struct ServiceAccountMetrics {
    pub(super) legacy: IntCounter,
    pub(super) stale: IntCounter,
    pub(super) valid: IntCounter,
    pub(super) legacy_manual: IntCounter,
    pub(super) legacy_auto: IntCounter,
    pub(super) legacy_invalid: IntCounter,
}

impl ServiceAccountMetrics {
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| {
            keep(registry, IntCounter::new(format!("serviceaccount_{name}_total"), format!("[ALPHA] {help}"))?)
        };
        Ok(Self {
            legacy: counter("legacy_tokens", "Cumulative legacy service account tokens used")?,
            stale: counter("stale_tokens", "Cumulative stale projected service account tokens used")?,
            valid: counter("valid_tokens", "Cumulative valid projected service account tokens used")?,
            legacy_manual: counter("legacy_manual_token_uses", "Cumulative manually created legacy tokens used")?,
            legacy_auto: counter("legacy_auto_token_uses", "Cumulative auto-generated legacy tokens used")?,
            legacy_invalid: counter(
                "invalid_legacy_auto_token_uses",
                "Cumulative invalid auto-generated legacy tokens used",
            )?,
        })
    }
}
