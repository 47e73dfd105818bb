//! The trace of a call of the store, for engines that call other servers for it.

use std::sync::Arc;

/// The place in a trace where the calls of an engine belong.
pub trait CallTrace: Send + Sync {
    /// Begins the span of a call by the name of its method, such as `etcdserverpb.KV/Range`.
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
