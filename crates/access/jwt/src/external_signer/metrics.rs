//! The metric families of kube-apiserver for external signers.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use binnacle_egress::plugin::{Code, code_name};
use binnacle_metrics::{GaugeVec, HistogramVec, IntCounterVec, families};

/// The code of failures outside of a gRPC call.
const NO_CALL: &str = "unknown-non-grpc";

families! {
    /// Metrics of the calls to a signer.
    #[derive(Clone)]
    pub struct SignerMetrics {
        fetched_at: GaugeVec = "apiserver_externaljwt_fetch_keys_success_timestamp" by [],
            "[ALPHA] Unix Timestamp in seconds of the last successful FetchKeys request";
        data_at: GaugeVec = "apiserver_externaljwt_fetch_keys_data_timestamp" by [],
            "[ALPHA] Unix Timestamp in seconds of the last successful FetchKeys data_timestamp value returned by the \
             external signer";
        fetches: IntCounterVec = "apiserver_externaljwt_fetch_keys_request_total" by ["code"],
            "[ALPHA] Total attempts at syncing supported JWKs";
        signatures: IntCounterVec = "apiserver_externaljwt_sign_request_total" by ["code"],
            "[ALPHA] Total attempts at signing JWT";
        durations: HistogramVec = "apiserver_externaljwt_request_duration_seconds" by ["method", "code"]
            buckets [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
            "[ALPHA] Request duration and time for calls to external-jwt-signer";
    }
}

impl SignerMetrics {
    pub(crate) fn record_call(&self, method: &str, started: Instant, failed: Option<Code>) {
        let labels = [method, &code_name(failed.unwrap_or(Code::Ok))];
        self.durations.with_label_values(&labels).observe(started.elapsed().as_secs_f64());
    }

    /// Counts a fetch. A successful result is the `data_at` of the fetched keys.
    pub(crate) fn record_fetch(&self, result: Result<f64, Option<Code>>) {
        self.fetches.with_label_values(&[&label(result.as_ref().err())]).inc();
        if let Ok(data_at) = result {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            self.fetched_at.with_label_values::<&str>(&[]).set(now.as_secs_f64());
            self.data_at.with_label_values::<&str>(&[]).set(data_at);
        }
    }

    pub(crate) fn record_signature(&self, failed: Option<Option<Code>>) {
        self.signatures.with_label_values(&[&label(failed.as_ref())]).inc();
    }
}

fn label(failed: Option<&Option<Code>>) -> String {
    match failed {
        None => code_name(Code::Ok),
        Some(Some(code)) => code_name(*code),
        Some(None) => NO_CALL.to_owned(),
    }
}
