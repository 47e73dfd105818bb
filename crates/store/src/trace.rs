//! The trace of a call of the store, for engines that pass it on to other servers.

use std::sync::Arc;

tokio::task_local! {
    static TRACE: Arc<str>;
}

/// Runs a call as part of a trace, which is the value of a `traceparent` header.
pub async fn told_trace<T>(traceparent: &str, call: impl Future<Output = T>) -> T {
    TRACE.scope(traceparent.into(), call).await
}

/// Returns the trace of the current call, if it has one.
pub fn caller_trace() -> Option<Arc<str>> {
    TRACE.try_with(Arc::clone).ok()
}
