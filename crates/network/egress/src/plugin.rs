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

use crate::grpc_transport::{GrpcAllowance, GrpcTransport};

/// A client for a plugin's socket. It connects at the first call and reconnects when the connection breaks.
pub struct Plugin {
    channel: Channel,
    socket: String,
    allowance: GrpcAllowance,
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
        let (path, allowance) = (socket.to_owned(), GrpcAllowance::default());
        let allowed = allowance.clone();
        let connect = service_fn(move |_: Uri| {
            let (socket, allowance) = (path.clone(), allowed.clone());
            async move {
                let stream = std::os::unix::net::UnixStream::connect_addr(&address(&socket)?)?;
                stream.set_nonblocking(true)?;
                allowance.reconnected();
                let stream = tokio::net::UnixStream::from_std(stream)?;
                Ok::<_, std::io::Error>(TokioIo::new(GrpcTransport::new(stream, allowance)))
            }
        });
        // The plugin receives this host as the authority.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
        Self { channel, socket: socket.to_owned(), allowance }
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
        let answer = grpc.unary(Request::new(request), PathAndQuery::from_static(path), codec).await?.into_inner();
        self.allowance.delivered(answer.encoded_len());
        Ok(answer)
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::*;

    const FLOOD: Duration = Duration::from_secs(1);

    /// Returns the number of bytes of a repeated frame that a client takes within a second while it waits for a
    /// response.
    async fn taken_of_flood(frame: &[u8]) -> usize {
        let directory = tempfile::tempdir().expect("a directory");
        let socket = directory.path().join("plugin");
        let listener = UnixListener::bind(&socket).expect("a new path");
        let plugin = Plugin::new(socket.to_str().expect("UTF-8"));
        let mut taken = 0;
        let flood = async {
            let (mut stream, _) = listener.accept().await.expect("a client");
            // The preface and the settings.
            stream.read_exact(&mut [0; 24]).await.expect("a preface");
            stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.expect("an open connection");
            let (mut from, mut to) = stream.into_split();
            tokio::spawn(async move { while matches!(from.read(&mut [0; 4096]).await, Ok(1..)) {} });
            let many = frame.repeat(4096 / frame.len());
            while to.write_all(&many).await.is_ok() {
                taken += many.len();
            }
        };
        let call = plugin.call::<String, String>("/a/B", String::new(), FLOOD);
        tokio::select! {
            _ = call => {}
            () = flood => {}
        }
        taken
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn limits_frames_of_plugins() {
        let head = |length: u8, kind: u8| [0, 0, length, kind, 0, 0, 0, 0, 0];
        for (name, frame) in [
            ("pings", [&head(8, 6)[..], &[0; 8]].concat()),
            ("settings", head(0, 4).to_vec()),
            ("windows", [&head(4, 8)[..], &[0, 0, 0, 1]].concat()),
            ("unknown", [&head(100, 0xfe)[..], &[0; 100]].concat()),
        ] {
            let taken = taken_of_flood(&frame).await;
            // The socket holds some hundred kilobytes.
            assert!((64 << 10..1 << 20).contains(&taken), "{name}: {taken}");
        }
    }
}
