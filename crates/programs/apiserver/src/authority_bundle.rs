//! Bundles of certificate authorities, from files or the cluster.

use std::path::Path;
use std::sync::Arc;

use binnacle_authn::{Authorities, AuthoritiesError};
use binnacle_transport::AuthorityNames;

/// Certificate authorities, with their PEM text.
#[derive(Clone)]
pub(crate) struct Bundle {
    pub(crate) authorities: Arc<Authorities>,
    pub(crate) pem: String,
}

impl Bundle {
    /// Loads a bundle. Messages show `purpose` with the path.
    pub(crate) fn load(purpose: &str, path: &Path) -> Result<Self, AuthoritiesError> {
        let shown = path.display().to_string();
        let pem = std::fs::read(path).map_err(|error| AuthoritiesError::Unreadable { path: shown.clone(), error })?;
        Self::new(&format!("{purpose}::{shown}"), &pem)
    }

    /// Parses a bundle. `path` is for messages.
    pub(crate) fn new(path: &str, pem: &[u8]) -> Result<Self, AuthoritiesError> {
        let authorities = Arc::new(Authorities::from_pem(path, pem)?);
        Ok(Self { authorities, pem: String::from_utf8_lossy(pem).into_owned() })
    }

    /// Returns the source of the names that the listener sends to clients.
    pub(crate) fn names(&self) -> AuthorityNames {
        let authorities = self.authorities.clone();
        Arc::new(move || authorities.names())
    }
}
