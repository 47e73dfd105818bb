//! The authorities of the peers: `--peer-ca-file`, which is reloaded when it changes, since authorities are rotated
//! while servers run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_client::ConnectionOptions;
use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;

use crate::remote::{Connections, verification_by};

/// The name in the certificates of the peers, which all servers of the cluster share.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// The minimum time between two checks of the file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Connections to the peers, which are replaced when the authorities change.
pub(super) struct Trust {
    path: PathBuf,
    identity: Option<Arc<dyn ResolvesClientCert>>,
    connection: ConnectionOptions,
    current: Mutex<Current>,
}

struct Current {
    authorities: Vec<u8>,
    connections: Arc<Connections>,
    checked_at: Instant,
}

impl Trust {
    /// Fails with the reason if the file cannot be used.
    pub(super) fn new(
        path: PathBuf,
        identity: Option<Arc<dyn ResolvesClientCert>>,
        connection: ConnectionOptions,
    ) -> Result<Self, String> {
        let authorities = std::fs::read(&path).map_err(|error| format!("open {}: {error}", path.display()))?;
        let connections = Arc::new(connect(&authorities, identity.as_ref(), &connection)?);
        let current = Mutex::new(Current { authorities, connections, checked_at: Instant::now() });
        Ok(Self { path, identity, connection, current })
    }

    /// Returns connections that trust the authorities in the file, or the last ones while the file cannot be read.
    pub(super) fn connections(&self, now: Instant) -> Arc<Connections> {
        let mut current = self.current.lock();
        if now.duration_since(current.checked_at) >= CHECK_INTERVAL {
            current.checked_at = now;
            if let Err(why) = self.reload(&mut current) {
                tracing::warn!("failed to reload --peer-ca-file, keeping the current authorities: {why}");
            }
        }
        current.connections.clone()
    }

    fn reload(&self, current: &mut Current) -> Result<(), String> {
        let authorities = std::fs::read(&self.path).map_err(|error| error.to_string())?;
        if authorities.is_empty() {
            return Err(format!("{} is empty", self.path.display()));
        }
        if authorities != current.authorities {
            current.connections = Arc::new(connect(&authorities, self.identity.as_ref(), &self.connection)?);
            current.authorities = authorities;
        }
        Ok(())
    }
}

fn connect(
    authorities: &[u8],
    identity: Option<&Arc<dyn ResolvesClientCert>>,
    connection: &ConnectionOptions,
) -> Result<Connections, String> {
    Connections::new(|| verification_by(authorities), SERVER_NAME, identity.cloned(), None, connection.clone())
}
