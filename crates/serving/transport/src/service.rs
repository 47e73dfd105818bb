//! The seam between connections and what answers their requests.

use std::any::Any;
use std::sync::Arc;

use binnacle_request::{Body, BoxError, ConnectionInfo, Pieces};
use http_body::Body as HttpBody;

/// Answers the requests of all connections. Its futures and bodies keep their types, so that no request allocates for
/// crossing this seam.
pub trait Service: Send + Sync + 'static {
    /// The body of its answers.
    type Body: ResponseBody;

    /// Answers one request of a connection. Must not panic.
    fn serve(
        &self,
        request: http::Request<Body>,
        connection: Arc<ConnectionInfo>,
    ) -> impl Future<Output = http::Response<Self::Body>> + Send;

    /// Reports whether a path belongs to a probe, which is answered on the runtime of its connection even if all workers
    /// are busy.
    fn is_probe(&self, path: &str) -> bool;

    /// Reports whether the server is about to stop, so that HTTP/1 connections should end with their next answer.
    fn is_shutting_down(&self) -> bool;
}

/// The body of an answer, polled by the connection until it has been sent.
pub trait ResponseBody: HttpBody<Data = Pieces, Error = BoxError> + Send + Unpin + 'static {
    /// Keeps a guard until the answer has been handed on, or for as long as an upgraded connection lasts.
    fn hold(&self, guard: impl Any + Send);
}
