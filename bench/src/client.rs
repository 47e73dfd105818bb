//! HTTP/2 connections that use little CPU, compared with the measured server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use binnacle_testkit::https::Handshake;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const READY_POLL: Duration = Duration::from_millis(5);

/// Several connections, used in turn.
#[derive(Clone)]
pub(crate) struct Clients {
    connections: Arc<Vec<SendRequest<Full<Bytes>>>>,
}

/// The result of a request whose response was read to its end.
pub(crate) struct Read {
    pub status: u16,
    pub bytes: u64,
}

impl Clients {
    pub(crate) async fn connect(address: SocketAddr, admin: &Handshake, count: usize) -> Self {
        Self::connect_with(address, admin, count, 8 << 20).await
    }

    /// Connects with this flow-control window in bytes, so that a client that reads slowly delays its responses.
    pub(crate) async fn connect_with(address: SocketAddr, admin: &Handshake, count: usize, window: u32) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(admin.authority.as_bytes()).unwrap()).unwrap();
        let (certificate, key) = admin.identity.clone().unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            let tcp = TcpStream::connect(address).await.unwrap();
            tcp.set_nodelay(true).unwrap();
            let stream = connector.connect(ServerName::try_from("localhost").unwrap(), tcp).await.unwrap();
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .initial_stream_window_size(window)
                .initial_connection_window_size(window.saturating_mul(8))
                .handshake(TokioIo::new(stream))
                .await
                .unwrap();
            tokio::spawn(connection);
            connections.push(sender);
        }
        Self { connections: Arc::new(connections) }
    }

    /// Sends a request on the next connection, and returns the response before its body is read.
    pub(crate) async fn open(
        &self,
        turn: usize,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Response<Incoming> {
        let mut request = Request::builder().method(method).uri(format!("https://localhost{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let mut sender = self.connections[turn % self.connections.len()].clone();
        sender.ready().await.unwrap();
        sender.send_request(request).await.unwrap()
    }

    /// Sends a request, and reads its response to the end without keeping the body.
    pub(crate) async fn send(
        &self,
        turn: usize,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Read {
        let response = self.open(turn, method, path, headers, body).await;
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame.unwrap().data_ref().map_or(0, Bytes::len) as u64;
        }
        Read { status, bytes }
    }

    /// Waits until the server is ready. A server that takes longer than ten seconds says where it listens before that.
    pub(crate) async fn wait_until_ready(&self) {
        while self.send(0, "GET", "/readyz", &[], Vec::new()).await.status != 200 {
            tokio::time::sleep(READY_POLL).await;
        }
    }

    /// Returns the whole body of a GET.
    pub(crate) async fn get(&self, path: &str) -> Bytes {
        self.open(0, "GET", path, &[], Vec::new()).await.into_body().collect().await.unwrap().to_bytes()
    }
}
