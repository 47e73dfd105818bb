//! The interface between connections and the handlers of their requests.

use std::any::Any;
use std::sync::Arc;

use binnacle_request::{Body, BoxError, ConnectionInfo, Pieces};
use http_body::Body as HttpBody;

/// Handles the requests of all connections. Futures and bodies are associated types, so that this interface needs no
/// allocation per request.
pub trait Service: Send + Sync + 'static {
    /// The body of responses.
    type Body: ResponseBody;

    /// Handles one request of a connection. Must not panic.
    fn serve(
        &self,
        request: http::Request<Body>,
        connection: Arc<ConnectionInfo>,
    ) -> impl Future<Output = http::Response<Self::Body>> + Send;

    /// Returns true if a path belongs to a probe, which is served on the runtime of its connection even if all workers
    /// are busy.
    fn is_probe(&self, path: &str) -> bool;

    /// Returns true if the server is shutting down, so that HTTP/1 connections should end with the next response.
    fn is_shutting_down(&self) -> bool;
}

/// The body of a response, which the connection polls until it has been sent.
pub trait ResponseBody: HttpBody<Data = Pieces, Error = BoxError> + Send + Unpin + 'static {
    /// Holds a guard until the response has been handed over, or as long as an upgraded connection is open.
    fn hold(&self, guard: impl Any + Send);
}
