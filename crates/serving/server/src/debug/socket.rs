//! `--debug-socket-path`: profiles and flags on a unix socket without authentication; its file permissions control
//! access.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use binnacle_request::{Response, Shutdown};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::pprof::text;
use super::{DebugFlagsHandler, PprofHandler};
use crate::response::page_not_found;

/// The maximum length of a body, in bytes.
const MAX_BODY_BYTES: usize = 256 << 10;
/// The delay after a failed accept.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_secs(1);
/// The limit on simultaneous connections.
const MAX_CONNECTIONS: usize = 16;

/// The socket and its handlers.
pub struct DebugSocket {
    listener: UnixListener,
    handlers: Arc<DebugHandlers>,
}

struct DebugHandlers {
    profiles: PprofHandler,
    flags: DebugFlagsHandler,
}

impl DebugSocket {
    /// Binds the socket, replacing any file at the path.
    pub fn bind(path: &Path, profiles: PprofHandler, flags: DebugFlagsHandler) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self { listener: UnixListener::bind(path)?, handlers: Arc::new(DebugHandlers { profiles, flags }) })
    }

    /// Serves until the shutdown signal.
    pub async fn serve(self, shutdown: Shutdown) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = shutdown.fired() => return,
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(connection(stream, self.handlers.clone()))),
                    Err(error) => {
                        tracing::warn!(%error, "failed to accept connection on debug socket");
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn connection(stream: UnixStream, handlers: Arc<DebugHandlers>) {
    let service = service_fn(|request| {
        let handlers = handlers.clone();
        async move { Ok::<_, Infallible>(handlers.respond(request).await) }
    });
    let result = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = result {
        tracing::debug!(%error, "a connection to the socket for debugging broke");
    }
}

impl DebugHandlers {
    async fn respond(&self, request: Request<Incoming>) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let body = async {
            let body = Limited::new(body, MAX_BODY_BYTES)
                .collect()
                .await
                .map_or_else(|_| Bytes::new(), |body| body.to_bytes());
            String::from_utf8_lossy(&body).into_owned()
        };
        match path {
            "/debug/pprof/cmdline" => text(std::env::args().collect::<Vec<_>>().join("\0")),
            _ if PprofHandler::matches_path(path) => {
                self.profiles.respond(&parts.method, path, parts.uri.query().unwrap_or_default(), body).await
            }
            _ if DebugFlagsHandler::matches_path(path) => {
                self.flags.respond(&parts.method, path, async { Ok(body.await) }).await
            }
            _ => page_not_found(),
        }
    }
}
