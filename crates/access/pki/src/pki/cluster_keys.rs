//! The keys of a cluster that has no files: a logical cluster's are in a Secret of its host.

use rcgen::KeyPair;
use time::OffsetDateTime;

use super::authority::{self, Authority};
use super::{CertifiedKey, PkiError, is_usable, issuance};

/// An authority for the clients of a cluster, and the key for its service account tokens, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterKeys {
    pub authority: CertifiedKey,
    pub service_account: String,
}

impl ClusterKeys {
    /// Creates keys that no other cluster has.
    pub fn generate(now: OffsetDateTime) -> Result<Self, PkiError> {
        let service_account = KeyPair::generate()?.serialize_pem();
        Ok(Self { authority: authority::self_signed(now)?, service_account })
    }

    /// Returns the administrator's certificate: the current one while it is valid for some time, or else a new one.
    pub fn administrator(&self, current: Option<CertifiedKey>, now: OffsetDateTime) -> Result<CertifiedKey, PkiError> {
        let issuer = self.issuer()?;
        match current {
            Some(current) if current.is(|parsed| is_usable(parsed, &issuer, now)) => Ok(current),
            _ => issuance::admin(&issuer, now),
        }
    }

    /// Creates a certificate for the server's connections to kubelets of the cluster, which trust its authority.
    pub fn kubelet_client(&self, now: OffsetDateTime) -> Result<CertifiedKey, PkiError> {
        issuance::kubelet_client(&self.issuer()?, now)
    }

    fn issuer(&self) -> Result<Authority, PkiError> {
        let broken = |error: String| PkiError::Broken { path: "the authority of the cluster".to_owned(), error };
        Authority::parse(self.authority.clone(), broken)
    }
}
