//! Whom this server believes to be another one of its cluster: `--peer-ca-file`, read again when it has changed. Authorities
//! are rotated under running servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_proxy::Way;
use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;

use crate::remote::{Connections, believing};

/// Certificates of servers are for the name by which the cluster knows them all.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// How often the file is looked at, at most.
const FRESH: Duration = Duration::from_secs(1);

/// The connections to other servers, which end with the authorities that they were made under.
pub(super) struct Trust {
    path: PathBuf,
    identity: Option<Arc<dyn ResolvesClientCert>>,
    current: Mutex<Current>,
}

struct Current {
    authorities: Vec<u8>,
    connections: Arc<Connections>,
    looked: Instant,
}

impl Trust {
    /// The error says what is wrong with the file.
    pub(super) fn new(path: PathBuf, identity: Option<Arc<dyn ResolvesClientCert>>) -> Result<Self, String> {
        let authorities = std::fs::read(&path).map_err(|error| format!("open {}: {error}", path.display()))?;
        let connections = Arc::new(connect(&authorities, identity.as_ref())?);
        let current = Mutex::new(Current { authorities, connections, looked: Instant::now() });
        Ok(Self { path, identity, current })
    }

    /// Connections under the authorities that the file names now; that it named, while it cannot be read.
    pub(super) fn connections(&self, now: Instant) -> Arc<Connections> {
        let mut current = self.current.lock();
        if now.duration_since(current.looked) >= FRESH {
            current.looked = now;
            if let Err(why) = self.look(&mut current) {
                tracing::warn!("the authorities of other servers stay as they were: {why}");
            }
        }
        current.connections.clone()
    }

    fn look(&self, current: &mut Current) -> Result<(), String> {
        let authorities = std::fs::read(&self.path).map_err(|error| error.to_string())?;
        if authorities.is_empty() {
            return Err(format!("{} is empty", self.path.display()));
        }
        if authorities != current.authorities {
            current.connections = Arc::new(connect(&authorities, self.identity.as_ref())?);
            current.authorities = authorities;
        }
        Ok(())
    }
}

fn connect(authorities: &[u8], identity: Option<&Arc<dyn ResolvesClientCert>>) -> Result<Connections, String> {
    Connections::new(|| believing(authorities), SERVER_NAME, identity.cloned(), None, Way::default())
}
