//! What is known of the connection that a request came on.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;

/// Facts of one TLS connection, shared by all its requests.
#[derive(Default)]
pub struct ConnectionInfo {
    /// Where the client is; absent for requests that the server sends to itself.
    pub peer: Option<SocketAddr>,
    /// The certificates the client sent, leaf first. The client has proved that it holds the key of the first; nothing
    /// has been said about who signed them.
    pub peer_certificates: Vec<CertificateDer<'static>>,
    /// The protocol agreed on in the handshake: `h2`, `http/1.1`, or none.
    pub alpn: Option<Vec<u8>>,
    remembered: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl ConnectionInfo {
    pub fn new(peer: SocketAddr, peer_certificates: Vec<CertificateDer<'static>>, alpn: Option<Vec<u8>>) -> Self {
        Self { peer: Some(peer), peer_certificates, alpn, remembered: Mutex::new(None) }
    }

    /// What an authenticator remembered of this connection, so that a chain of certificates is verified once and not
    /// for each request.
    pub fn remembered<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.remembered.lock().clone()?.downcast().ok()
    }

    pub fn remember<T: Any + Send + Sync>(&self, value: Arc<T>) {
        *self.remembered.lock() = Some(value);
    }
}
