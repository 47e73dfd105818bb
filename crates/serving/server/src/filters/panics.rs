//! Panics fail the request that caused them, never the connection or the server.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use binnacle_request::{Record, Response};
use futures::FutureExt;
use http::StatusCode;

use crate::response::{PanicMessage, error_text};

/// Runs a handler; a panic results in a 500.
pub(crate) async fn recover(record: &Record, handler: impl Future<Output = Response>) -> Response {
    // The state of a panicking request is dropped. Shared state is in atomics or behind locks without poisoning, and
    // writes reach the store as one transaction.
    match AssertUnwindSafe(handler).catch_unwind().await {
        Ok(response) => response,
        Err(panic) => {
            let message = report(record, panic.as_ref());
            let text = "This request caused apiserver to panic. Look in the logs for details.";
            let mut response = error_text(StatusCode::INTERNAL_SERVER_ERROR, text.to_owned());
            response.extensions_mut().insert(PanicMessage(message));
            response
        }
    }
}

/// Runs one poll of a future or stream; the error is the message of its panic.
pub(crate) fn catch<T>(record: &Record, step: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| report(record, panic.as_ref()))
}

fn report(record: &Record, panic: &(dyn Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!(method = %record.method(), uri = record.uri(), audit_id = %record.audit_id(), "apiserver panic'd: {message}");
    message.to_owned()
}
