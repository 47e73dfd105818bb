//! Metrics of the use of service account tokens.

use binnacle_metrics::{IntCounter, families};

families! {
    /// The `serviceaccount_*` families.
    #[derive(Clone)]
    pub struct ServiceAccountMetrics {
        pub(super) legacy: IntCounter = "serviceaccount_legacy_tokens_total",
            "[ALPHA] Cumulative legacy service account tokens used";
        pub(super) stale: IntCounter = "serviceaccount_stale_tokens_total",
            "[ALPHA] Cumulative stale projected service account tokens used";
        pub(super) valid: IntCounter = "serviceaccount_valid_tokens_total",
            "[ALPHA] Cumulative valid projected service account tokens used";
        pub(super) legacy_manual: IntCounter = "serviceaccount_legacy_manual_token_uses_total",
            "[ALPHA] Cumulative manually created legacy tokens used";
        pub(super) legacy_auto: IntCounter = "serviceaccount_legacy_auto_token_uses_total",
            "[ALPHA] Cumulative auto-generated legacy tokens used";
        pub(super) legacy_invalid: IntCounter = "serviceaccount_invalid_legacy_auto_token_uses_total",
            "[ALPHA] Cumulative invalid auto-generated legacy tokens used";
    }
}
