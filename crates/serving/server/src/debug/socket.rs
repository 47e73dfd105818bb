//! `--debug-socket-path`: profiles and flags on a unix socket, without authentication: its file permissions decide who
//! may open it.

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
use super::{DebugFlagsLink, PprofLink};
use crate::answer::page_not_found;

/// The longest body, in bytes.
const MOST: usize = 256 << 10;
/// The pause after a failed accept.
const PAUSE: Duration = Duration::from_secs(1);
/// The limit on simultaneous connections.
const MOST_CONNECTIONS: usize = 16;

/// The socket and its links.
pub struct DebugSocket {
    listener: UnixListener,
    served: Arc<Served>,
}

struct Served {
    profiles: PprofLink,
    flags: DebugFlagsLink,
}

impl DebugSocket {
    /// Binds the socket, replacing any file at the path.
    pub fn bind(path: &Path, profiles: PprofLink, flags: DebugFlagsLink) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        Ok(Self { listener: UnixListener::bind(path)?, served: Arc::new(Served { profiles, flags }) })
    }

    /// Serves until the shutdown signal.
    pub async fn serve(self, shutdown: Shutdown) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                () = shutdown.fired() => return,
                accepted = self.listener.accept(), if connections.len() < MOST_CONNECTIONS => match accepted {
                    Ok((stream, _)) => drop(connections.spawn(connection(stream, self.served.clone()))),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept on the socket for debugging");
                        tokio::time::sleep(PAUSE).await;
                    }
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn connection(stream: UnixStream, served: Arc<Served>) {
    let service = service_fn(|request| {
        let served = served.clone();
        async move { Ok::<_, Infallible>(served.answer(request).await) }
    });
    let served = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the socket for debugging broke");
    }
}

impl Served {
    async fn answer(&self, request: Request<Incoming>) -> Response {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        let body = async {
            let body = Limited::new(body, MOST).collect().await.map_or_else(|_| Bytes::new(), |body| body.to_bytes());
            String::from_utf8_lossy(&body).into_owned()
        };
        match path {
            "/debug/pprof/cmdline" => text(std::env::args().collect::<Vec<_>>().join("\0")),
            _ if PprofLink::claims_path(path) => {
                self.profiles.answer(&parts.method, path, parts.uri.query().unwrap_or_default(), body).await
            }
            _ if DebugFlagsLink::claims_path(path) => {
                self.flags.answer(&parts.method, path, async { Ok(body.await) }).await
            }
            _ => page_not_found(),
        }
    }
}
