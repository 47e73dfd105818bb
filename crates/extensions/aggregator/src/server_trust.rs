//! The authorities of servers of the control plane, in a file that is reloaded when it changes, since authorities are
//! rotated while servers run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_client::ConnectionOptions;
use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;

use crate::remote::{Connections, verification_by};

/// The minimum time between two checks of the file.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Connections to servers whose certificates are for one name. They are replaced when the authorities change.
pub(crate) struct ServerTrust {
    options: TrustOptions,
    current: Mutex<Current>,
}

/// The options for connecting to servers of the control plane.
pub(crate) struct TrustOptions {
    /// The flag that names the file of the authorities.
    pub(crate) flag: &'static str,
    pub(crate) path: PathBuf,
    /// The name in the servers' certificates.
    pub(crate) server_name: String,
    pub(crate) identity: Arc<dyn ResolvesClientCert>,
    pub(crate) connection: ConnectionOptions,
}

struct Current {
    authorities: Vec<u8>,
    connections: Arc<Connections>,
    checked_at: Instant,
}

impl ServerTrust {
    /// Fails with the reason if the file cannot be used.
    pub(crate) fn new(options: TrustOptions) -> Result<Self, String> {
        let path = &options.path;
        let authorities = std::fs::read(path).map_err(|error| format!("open {}: {error}", path.display()))?;
        let connections = Arc::new(options.connect(&authorities)?);
        let current = Mutex::new(Current { authorities, connections, checked_at: Instant::now() });
        Ok(Self { options, current })
    }

    /// Returns connections that trust the authorities in the file, or the last ones while the file cannot be read.
    pub(crate) fn connections(&self, now: Instant) -> Arc<Connections> {
        let mut current = self.current.lock();
        if now.duration_since(current.checked_at) >= CHECK_INTERVAL {
            current.checked_at = now;
            if let Err(why) = self.reload(&mut current) {
                tracing::warn!("failed to reload {}, keeping the current authorities: {why}", self.options.flag);
            }
        }
        current.connections.clone()
    }

    fn reload(&self, current: &mut Current) -> Result<(), String> {
        let path = &self.options.path;
        let authorities = std::fs::read(path).map_err(|error| error.to_string())?;
        if authorities.is_empty() {
            return Err(format!("{} is empty", path.display()));
        }
        if authorities != current.authorities {
            current.connections = Arc::new(self.options.connect(&authorities)?);
            current.authorities = authorities;
        }
        Ok(())
    }
}

impl TrustOptions {
    fn connect(&self, authorities: &[u8]) -> Result<Connections, String> {
        let identity = Some(self.identity.clone());
        let verification = || verification_by(authorities);
        Connections::new(verification, &self.server_name, identity, None, self.connection.clone())
    }
}
