//! Calls to a plugin: gRPC on a unix socket.
//!
//! A call waits for a plugin that cannot be connected to, until its time is over (gRPC's "wait for ready"): one that is
//! started anew is not noticed.

use std::collections::HashMap;
use std::error::Error;
use std::os::unix::net::SocketAddr;
use std::time::{Duration, Instant};

use binnacle_meta::io_error;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower::service_fn;

use crate::metrics::Metrics;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(string, tag = "2")]
    pub healthz: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
    #[prost(map = "string, bytes", tag = "4")]
    pub annotations: HashMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub key_id: String,
    #[prost(map = "string, bytes", tag = "3")]
    pub annotations: HashMap<String, Vec<u8>>,
}

/// A plugin's socket. Connects when it is first asked, and again after the connection broke.
pub(crate) struct Client {
    channel: Channel,
    socket: String,
    timeout: Duration,
    /// Of the provider.
    name: String,
    metrics: Metrics,
}

/// A call that failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("rpc error: code = {code:?} desc = {why}")]
pub(crate) struct CallError {
    pub code: Code,
    why: String,
}

/// How long after a connection was refused another one is tried.
const CONNECT_AGAIN: Duration = Duration::from_millis(100);

impl Client {
    pub(crate) fn new(name: &str, socket: &str, timeout: Duration, metrics: &Metrics) -> Self {
        let path = socket.to_owned();
        let connect = service_fn(move |_: Uri| {
            let socket = path.clone();
            async move {
                let stream = std::os::unix::net::UnixStream::connect_addr(&address(&socket)?)?;
                stream.set_nonblocking(true)?;
                Ok::<_, std::io::Error>(TokioIo::new(tokio::net::UnixStream::from_std(stream)?))
            }
        });
        // The plugin sees this as the authority.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(connect);
        Self { channel, socket: socket.to_owned(), timeout, name: name.to_owned(), metrics: metrics.clone() }
    }

    pub(crate) async fn status(&self) -> Result<StatusResponse, CallError> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {}).await
    }

    pub(crate) async fn encrypt(&self, request: EncryptRequest) -> Result<EncryptResponse, CallError> {
        self.call("/v2.KeyManagementService/Encrypt", request).await
    }

    pub(crate) async fn decrypt(&self, request: DecryptRequest) -> Result<DecryptResponse, CallError> {
        self.call("/v2.KeyManagementService/Decrypt", request).await
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        // Why there is no connection, as long as there is none.
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
        let begun = Instant::now();
        let answer = match tokio::time::timeout(self.timeout, call).await {
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
        };
        self.metrics.called(&self.name, path, begun, answer.as_ref().err().map(|error| error.code));
        answer
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

/// What the system said, where the call failed for want of a connection.
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
