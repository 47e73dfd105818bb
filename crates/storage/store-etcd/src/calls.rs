//! The `grpc_client_*` metrics of kube-apiserver's etcd client.

use std::sync::Arc;

use binnacle_metrics::{Count, IntCounterVec, Registry, families};
use tonic::Code;

families! {
    #[derive(Clone)]
    struct Families {
        started: IntCounterVec = "grpc_client_started_total" by ["grpc_type", "grpc_service", "grpc_method"],
            "Total number of RPCs started on the client.";
        handled: IntCounterVec = "grpc_client_handled_total"
            by ["grpc_type", "grpc_service", "grpc_method", "grpc_code"],
            "Total number of RPCs completed by the client, regardless of success or failure.";
        sent: IntCounterVec = "grpc_client_msg_sent_total" by ["grpc_type", "grpc_service", "grpc_method"],
            "Total number of gRPC stream messages sent by the client.";
        received: IntCounterVec = "grpc_client_msg_received_total" by ["grpc_type", "grpc_service", "grpc_method"],
            "Total number of RPC stream messages received by the client.";
    }
}

/// The metrics, shared by all stores of a server.
#[derive(Clone)]
pub(crate) struct CallMetrics(Arc<Families>);

/// A call, which is counted as handled when it ends, or as canceled if it is dropped before.
pub(crate) struct CallCount {
    families: Arc<Families>,
    /// Type, service and method.
    labels: [&'static str; 3],
    sent: Count<u64>,
    received: Count<u64>,
    code: Code,
}

// === impl CallMetrics ===

impl CallMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let families = Families::build()?;
        // Not resettable: kube-apiserver's etcd client library keeps its counts at a reset.
        registry.register(families.clone())?;
        Ok(Self(Arc::new(families)))
    }

    /// Counts a call with one message in each direction.
    pub(crate) fn unary(&self, path: &'static str) -> CallCount {
        let call = self.start("unary", path);
        call.sent();
        call
    }

    /// Counts a call with one request, whose responses are counted one by one.
    pub(crate) fn server_stream(&self, path: &'static str) -> CallCount {
        let call = self.start("server_stream", path);
        call.sent();
        call
    }

    /// Counts a call whose messages are counted one by one.
    pub(crate) fn stream(&self, path: &'static str) -> CallCount {
        self.start("bidi_stream", path)
    }

    fn start(&self, kind: &'static str, path: &'static str) -> CallCount {
        let (service, method) = service_and_method(path);
        let labels = [kind, service, method];
        self.0.started.with_label_values(&labels).inc();
        CallCount {
            families: self.0.clone(),
            labels,
            sent: self.0.sent.with_label_values(&labels),
            received: self.0.received.with_label_values(&labels),
            code: Code::Cancelled,
        }
    }
}

// === impl CallCount ===

impl CallCount {
    pub(crate) fn sent(&self) {
        self.sent.inc();
    }

    pub(crate) fn received(&self) {
        self.received.inc();
    }

    pub(crate) fn finish(mut self, code: Code) {
        self.code = code;
    }

    /// Sets the code with which the call ends when this is dropped.
    pub(crate) fn set_code(&mut self, code: Code) {
        self.code = code;
    }
}

impl Drop for CallCount {
    fn drop(&mut self) {
        let [kind, service, method] = self.labels;
        self.families.handled.with_label_values(&[kind, service, method, go_name(self.code)]).inc();
    }
}

/// Splits a path such as `/etcdserverpb.KV/Range` into service and method.
fn service_and_method(path: &'static str) -> (&'static str, &'static str) {
    path.trim_start_matches('/').split_once('/').unwrap_or(("unknown", "unknown"))
}

/// Returns the name of a code in Go.
pub(crate) fn go_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_calls_by_method() {
        let registry = Registry::new();
        let metrics = CallMetrics::new(&registry).expect("a new registry takes them");
        let call = metrics.unary("/etcdserverpb.KV/Range");
        call.received();
        call.finish(Code::Ok);
        let watch = metrics.stream("/etcdserverpb.Watch/Watch");
        watch.sent();
        (0..3).for_each(|_| watch.received());
        drop(watch);
        let text = binnacle_metrics::text(&registry.gather());
        let range = "grpc_method=\"Range\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 1";
        let watch = "grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"}";
        for line in [
            format!("grpc_client_started_total{{{range}"),
            format!("grpc_client_msg_sent_total{{{range}"),
            format!("grpc_client_msg_received_total{{{range}"),
            format!("grpc_client_handled_total{{grpc_code=\"OK\",{range}"),
            format!("grpc_client_handled_total{{grpc_code=\"Canceled\",{watch} 1"),
            format!("grpc_client_msg_received_total{{{watch} 3"),
        ] {
            assert!(text.lines().any(|actual| actual == line), "{line} in {text}");
        }
    }
}
