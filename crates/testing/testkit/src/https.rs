//! A small HTTPS client for tests, with access to the protocol, the TLS version and the end of a connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// The options of a TLS handshake.
#[derive(Clone)]
pub struct Handshake {
    pub authority: String,
    pub identity: Option<(String, String)>,
    pub alpn: Vec<&'static str>,
    pub versions: Vec<&'static SupportedProtocolVersion>,
    pub name: &'static str,
}

impl Handshake {
    pub fn new(authority: impl Into<String>) -> Self {
        Self {
            authority: authority.into(),
            identity: None,
            alpn: vec!["h2", "http/1.1"],
            versions: vec![&rustls::version::TLS13, &rustls::version::TLS12],
            name: "localhost",
        }
    }

    /// Uses the user and the authority of a kubeconfig with embedded data.
    #[must_use]
    pub fn of_kubeconfig(text: &str) -> Self {
        let read = |name: &str| {
            let encoded = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
            let decoded = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, encoded.unwrap()).unwrap();
            String::from_utf8(decoded).unwrap()
        };
        Self::new(read("certificate-authority-data"))
            .identity(&read("client-certificate-data"), &read("client-key-data"))
    }

    /// Sets a client certificate and its key, as PEM.
    pub fn identity(mut self, certificate: &str, key: &str) -> Self {
        self.identity = Some((certificate.to_owned(), key.to_owned()));
        self
    }

    pub fn alpn(mut self, alpn: &[&'static str]) -> Self {
        self.alpn = alpn.to_vec();
        self
    }

    pub fn version(mut self, version: &'static SupportedProtocolVersion) -> Self {
        self.versions = vec![version];
        self
    }

    /// Returns a configuration for connections that may not speak HTTP.
    #[must_use]
    pub fn config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            Some((certificate, key)) => builder
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
                )
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        config
    }
}

/// A connection.
pub struct Client {
    sender: Sender,
    /// The path before that of each request.
    prefix: &'static str,
    pub tls: ProtocolVersion,
    pub alpn: Option<String>,
    /// The server's certificate, as DER.
    pub certificate: Vec<u8>,
    /// Ends when the connection does.
    pub connection: JoinHandle<()>,
    /// Its sender is gone when the connection has ended.
    ended: watch::Receiver<()>,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// The maximum time until responses received with the end of their connection reach the caller.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

async fn until<T>(connection: impl Future<Output = T>, open: watch::Sender<()>) {
    connection.await;
    drop(open);
}

/// A response, read to its end. Bytes of the body that are not text are replaced.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Client {
    pub async fn connect(address: SocketAddr, handshake: &Handshake) -> Result<Self, String> {
        let tcp = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        let name = ServerName::try_from(handshake.name).unwrap();
        let connector = TlsConnector::from(Arc::new(handshake.config()));
        let stream = connector.connect(name, tcp).await.map_err(|error| error.to_string())?;
        let session = stream.get_ref().1;
        let tls = session.protocol_version().unwrap();
        let alpn = session.alpn_protocol().map(|name| String::from_utf8(name.to_vec()).unwrap());
        let certificate = session.peer_certificates().and_then(|chain| chain.first()).map(|der| der.to_vec());
        let certificate = certificate.unwrap_or_default();
        let io = TokioIo::new(stream);
        let (open, ended) = watch::channel(());
        let (sender, connection) = if alpn.as_deref() == Some("h2") {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), io).await.map_err(|error| error.to_string())?;
            (Sender::Http2(sender), tokio::spawn(until(connection, open)))
        } else {
            let (sender, connection) = http1::handshake(io).await.map_err(|error| error.to_string())?;
            (Sender::Http1(sender), tokio::spawn(until(connection, open)))
        };
        Ok(Self { sender, prefix: "", tls, alpn, certificate, connection, ended })
    }

    /// Sends all requests to paths below this one.
    #[must_use]
    pub fn below(self, prefix: &'static str) -> Self {
        Self { prefix, ..self }
    }

    /// Sends a request and returns the response without waiting for its body.
    pub async fn open(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Result<Response<Incoming>, String> {
        let path = format!("{}{path}", self.prefix);
        let mut request = Request::builder().method(method).uri(&path);
        match &self.sender {
            Sender::Http1(_) => request = request.header("host", "localhost"),
            // In HTTP/2, the URI has the scheme and the authority.
            Sender::Http2(_) => request = request.uri(format!("https://localhost{path}")),
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.into()))).unwrap();
        let mut ended = self.ended.clone();
        let answer = async {
            match &mut self.sender {
                Sender::Http1(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await
                }
                Sender::Http2(sender) => {
                    sender.ready().await?;
                    sender.send_request(request).await
                }
            }
        };
        // A request that is sent while the connection ends may stay in hyper's queue, without an answer and without an
        // error (hyperium/hyper#4122).
        let lost = async {
            while ended.changed().await.is_ok() {}
            tokio::time::sleep(LAST_ANSWERS).await;
        };
        tokio::select! {
            biased;
            answer = answer => answer.map_err(|error| error.to_string()),
            () = lost => Err("the connection ended before the request was sent".to_owned()),
        }
    }

    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Result<Answer, String> {
        let (parts, body) = self.open(method, path, headers, body).await?.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        let body = String::from_utf8_lossy(&body).into_owned();
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    pub async fn get(&mut self, path: &str) -> Result<Answer, String> {
        self.send("GET", path, &[], "").await
    }
}
