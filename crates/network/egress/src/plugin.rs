//! Calls to plugins over gRPC on unix sockets.
//!
//! A call waits until its plugin accepts a connection, at most for its timeout (gRPC's "wait for ready"), so that a
//! restart of the plugin fails no call.

use std::error::Error;
use std::os::unix::net::SocketAddr;
use std::time::Duration;

use binnacle_meta::io_error;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

pub use tonic::Code;

/// A client for a plugin's socket. It connects at the first call and reconnects when the connection breaks.
pub struct Plugin {
    channel: Channel,
    socket: String,
}

/// The error of a call.
#[derive(Clone, Debug, thiserror::Error)]
#[error("rpc error: code = {} desc = {why}", code_name(*code))]
pub struct CallError {
    /// The gRPC status code.
    pub code: Code,
    why: String,
}

/// The pause before the next connection attempt.
const CONNECT_AGAIN: Duration = Duration::from_millis(100);

impl Plugin {
    /// Creates a client. `socket` is a path, or `@` and the name of an abstract socket.
    pub fn new(socket: &str) -> Self {
        let path = socket.to_owned();
        let connect = service_fn(move |_: Uri| {
            let socket = path.clone();
            async move {
                let stream = std::os::unix::net::UnixStream::connect_addr(&address(&socket)?)?;
                stream.set_nonblocking(true)?;
                Ok::<_, std::io::Error>(TokioIo::new(tokio::net::UnixStream::from_std(stream)?))
            }
        });
        // The plugin receives this host as the authority.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
        Self { channel, socket: socket.to_owned() }
    }

    /// Calls a method, named by its service and method name. `timeout` includes the wait for the plugin.
    pub async fn call<Q, A>(&self, path: &'static str, request: Q, timeout: Duration) -> Result<A, CallError>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        // The error of the last connection attempt, as long as there is no connection.
        let refused = Mutex::new(None);
        let call = async {
            loop {
                match self.attempt(path, request.clone()).await {
                    Err(status) => match not_connected(&status) {
                        Some(why) => *refused.lock() = Some(why),
                        None => return Err(status),
                    },
                    answer => return answer,
                }
                tokio::time::sleep(CONNECT_AGAIN).await;
            }
        };
        match tokio::time::timeout(timeout, call).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(CallError { code: status.code(), why: status.message().to_owned() }),
            Err(_) => {
                let why = match refused.into_inner() {
                    Some(why) => format!(
                        "latest balancer error: connection error: desc = \"transport: Error while dialing: dial unix {}: \
                         connect: {why}\"",
                        self.socket
                    ),
                    None => "context deadline exceeded".to_owned(),
                };
                Err(CallError { code: Code::DeadlineExceeded, why })
            }
        }
    }

    async fn attempt<Q, A>(&self, path: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let codec: ProstCodec<Q, A> = ProstCodec::default();
        Ok(grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await?.into_inner())
    }
}

/// Returns the name of a status code in labels and messages, as in Go's gRPC.
pub fn code_name(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        // Go's gRPC spells this code with one `l`.
        Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Returns the system error if the call failed to connect.
fn not_connected(status: &Status) -> Option<String> {
    let mut sources = std::iter::successors(Error::source(status), |&error| error.source());
    sources.find(|error| error.is::<tonic::ConnectError>())?;
    let said = sources.find_map(|error| error.downcast_ref::<std::io::Error>()).map(io_error);
    Some(said.unwrap_or_else(|| status.message().to_owned()))
}

fn address(socket: &str) -> std::io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(socket),
    }
}
