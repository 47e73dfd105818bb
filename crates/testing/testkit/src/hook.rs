//! An HTTPS server for tests: a webhook, an identity provider, or another server that the server under test calls.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

type ResponseFuture = Pin<Box<dyn Future<Output = Response<Vec<u8>>> + Send>>;
type Handler = Arc<dyn Fn(Request<Vec<u8>>) -> ResponseFuture + Send + Sync>;

/// A server on a free port of this machine, until dropped. Its certificate is for `localhost` and 127.0.0.1.
pub struct Hook {
    pub address: SocketAddr,
    /// The authority that signed its certificate, as PEM.
    pub authority: String,
    accepting: JoinHandle<()>,
}

impl Hook {
    /// Answers each request with `handler`.
    pub async fn start<F>(handler: impl Fn(Request<Vec<u8>>) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Response<Vec<u8>>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |request| Box::pin(handler(request)));
        Self::raw(&["h2", "http/1.1"], move |stream| {
            let handler = handler.clone();
            async move {
                let service = service_fn(move |request: Request<Incoming>| {
                    let handler = handler.clone();
                    async move {
                        let (parts, body) = request.into_parts();
                        let body = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
                        let response = handler(Request::from_parts(parts, body)).await;
                        Ok::<_, Infallible>(response.map(|body| Full::new(Bytes::from(body))))
                    }
                });
                let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            }
        })
        .await
    }

    /// The head of a response of a megabyte, and its first byte.
    pub const LONG_HEAD: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000000\r\n\r\n{";

    /// Closes its write side of each connection before it answers, and keeps the read side open.
    pub async fn half_closed() -> Self {
        Self::raw(&["http/1.1"], |mut stream| async move {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut Vec::new()).await;
        })
        .await
    }

    /// Breaks the connection within its responses.
    pub async fn cut() -> Self {
        Self::raw(&["http/1.1"], |mut stream| async move {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(Self::LONG_HEAD).await;
            let _ = stream.shutdown().await;
        })
        .await
    }

    /// Handles each connection with `handler`, after a TLS handshake with one of the protocols.
    pub async fn raw<F>(
        alpn: &[&str],
        handler: impl Fn(TlsStream<TcpStream>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (authority, config) = identity(alpn);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = TlsAcceptor::from(config);
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((tcp, _)) = listener.accept().await {
                let (acceptor, handler) = (acceptor.clone(), handler.clone());
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(tcp).await else { return };
                    handler(stream).await;
                });
            }
        });
        Self { address, authority, accepting }
    }

    /// Returns `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Returns a kubeconfig for a path of it, with a bearer token.
    #[must_use]
    pub fn kubeconfig(&self, path: &str, token: &str) -> String {
        let authority = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, &self.authority);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: hook\ncontexts:\n- name: hook\n  context: {{cluster: hook, user: hook}}\n\
             clusters:\n- name: hook\n  cluster: {{server: '{}{path}', certificate-authority-data: {authority}}}\n\
             users:\n- name: hook\n  user: {{token: '{token}'}}\n",
            self.url()
        )
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Returns an authority, and a configuration with a certificate that it signed, for the protocols in `alpn`.
pub(crate) fn identity(alpn: &[&str]) -> (String, Arc<ServerConfig>) {
    let authority_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let leaf = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    let chain = vec![CertificateDer::from(leaf.der().to_vec())];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    (authority, Arc::new(config))
}
