//! The trace that a call of the store belongs to, for engines that ask other servers and tell them of it.

use std::sync::Arc;

tokio::task_local! {
    static TRACE: Arc<str>;
}

/// Does a call as part of a trace, given as the header `traceparent` has it.
pub async fn told_trace<T>(traceparent: &str, call: impl Future<Output = T>) -> T {
    TRACE.scope(traceparent.into(), call).await
}

/// The trace that this call is part of, if it is told of one.
pub fn caller_trace() -> Option<Arc<str>> {
    TRACE.try_with(Arc::clone).ok()
}
