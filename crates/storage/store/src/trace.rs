//! The trace of a store call, for engines that call other servers.

use std::sync::Arc;

/// The parent of an engine's spans in a trace.
pub trait CallTrace: Send + Sync {
    /// Starts the span of a call. `method` is the name of the RPC, such as `etcdserverpb.KV/Range`.
    fn begin(&self, method: &'static str) -> Box<dyn CallSpan>;
}

/// The span of a call, which ends when it is dropped.
pub trait CallSpan: Send {
    /// Returns the value of the header `traceparent` for the called server.
    fn header(&self) -> String;

    fn set(&mut self, attribute: &'static str, value: &str);

    fn set_number(&mut self, attribute: &'static str, value: i64);

    fn fail(&mut self, why: &str);
}

tokio::task_local! {
    static TRACE: Arc<dyn CallTrace>;
}

/// Runs a call as part of a trace.
pub async fn with_trace<T>(trace: Arc<dyn CallTrace>, call: impl Future<Output = T>) -> T {
    TRACE.scope(trace, call).await
}

/// Returns the trace of the current call, if it has one.
pub fn current_trace() -> Option<Arc<dyn CallTrace>> {
    TRACE.try_with(Arc::clone).ok()
}
