//! The connection of a request.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tokio::time::Instant;

/// Information about a TLS connection, shared by its requests.
#[derive(Default)]
pub struct ConnectionInfo {
    /// The client's address, or `None` for requests of the server to itself.
    pub peer: Option<SocketAddr>,
    /// The client's certificates, leaf first. The handshake has proved possession of the leaf's key; the chain is not
    /// verified.
    pub peer_certificates: Vec<CertificateDer<'static>>,
    /// The protocol negotiated by ALPN: `h2`, `http/1.1`, or none.
    pub alpn: Option<Vec<u8>>,
    /// The name of the server that the client has named in the handshake (SNI).
    pub server_name: Option<Box<str>>,
    remembered: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
    identified: AtomicBool,
    when_identified: Option<Box<dyn Fn() + Send + Sync>>,
    failed_logins: AtomicU32,
    /// The number of bodies that relay many bytes.
    relays: AtomicUsize,
    /// The time of the first watch.
    first_watch: OnceLock<Instant>,
}

impl ConnectionInfo {
    pub fn new(peer: SocketAddr, peer_certificates: Vec<CertificateDer<'static>>, alpn: Option<Vec<u8>>) -> Self {
        Self { peer: Some(peer), peer_certificates, alpn, ..Self::default() }
    }

    /// Returns the time of the connection's first watch, which is now if there was none.
    pub fn watching_since(&self) -> Instant {
        *self.first_watch.get_or_init(Instant::now)
    }

    /// Sets the name of the server that the client has named in the handshake.
    #[must_use]
    pub fn with_server_name(self, name: Option<&str>) -> Self {
        Self { server_name: name.map(Into::into), ..self }
    }

    /// Sets a callback for the first authenticated request.
    #[must_use]
    pub fn when_identified(self, then: impl Fn() + Send + Sync + 'static) -> Self {
        Self { when_identified: Some(Box::new(then)), ..self }
    }

    /// Records that a request was authenticated.
    pub fn identified(&self) {
        if !self.identified.load(Ordering::Relaxed) {
            self.identified.store(true, Ordering::Relaxed);
            if let Some(then) = &self.when_identified {
                then();
            }
        }
    }

    /// Counts a request that failed authentication. Returns the number of failures on this connection.
    pub fn failed_login(&self) -> u32 {
        self.failed_logins.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns the value that an authenticator has stored for this connection, so that a certificate chain is verified
    /// once and not for each request.
    pub fn remembered<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.remembered.lock().clone()?.downcast().ok()
    }

    /// Returns true if the connection relays many bytes between its client and another server.
    pub fn is_relaying(&self) -> bool {
        self.relays.load(Ordering::Relaxed) > 0
    }

    pub fn remember<T: Any + Send + Sync>(&self, value: Arc<T>) {
        *self.remembered.lock() = Some(value);
    }
}

/// The number of bytes after which a connection is one that relays. Most answers are smaller.
const MANY_RELAYED: usize = 256 << 10;

/// Counts the bytes that a body relays, and marks the connection while it exists if they are many.
pub struct RelayMeter {
    connection: Arc<ConnectionInfo>,
    bytes: usize,
}

impl RelayMeter {
    pub fn new(connection: Arc<ConnectionInfo>) -> Self {
        Self { connection, bytes: 0 }
    }

    pub fn add(&mut self, bytes: usize) {
        if !self.is_large() {
            self.bytes = self.bytes.saturating_add(bytes);
            if self.is_large() {
                self.connection.relays.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn is_large(&self) -> bool {
        self.bytes >= MANY_RELAYED
    }
}

impl Drop for RelayMeter {
    fn drop(&mut self) {
        if self.is_large() {
            self.connection.relays.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_relays_while_a_body_of_many_bytes_exists() {
        let connection = Arc::new(ConnectionInfo::default());
        let meter = || RelayMeter::new(connection.clone());
        let (mut small, mut large, mut other) = (meter(), meter(), meter());
        small.add(MANY_RELAYED - 1);
        assert!(!connection.is_relaying());
        for body in [&mut large, &mut other] {
            (0..3).for_each(|_| body.add(MANY_RELAYED / 2));
            assert!(connection.is_relaying());
        }
        drop((small, large));
        assert!(connection.is_relaying());
        drop(other);
        assert!(!connection.is_relaying());
    }
}
