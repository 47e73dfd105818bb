//! The target of calls: its address, its trusted certificates, and our credentials.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use base64::prelude::BASE64_STANDARD;
use base64::{DecodeError, Engine};
use binnacle_egress::Dialer;
use http::Uri;

use crate::itself::Itself;
use crate::service::Service;

/// A webhook's address and all that a call of it needs.
#[derive(Clone, Debug)]
pub struct Target {
    /// With its path and query: calls go to exactly this.
    pub url: Uri,
    /// PEM text of the authorities that may have signed the server's certificate; those of the system if `None`.
    pub authorities: Option<Vec<u8>>,
    /// The name that the certificate must be for, if not the host of the URL.
    pub server_name: Option<String>,
    /// The service that is dialed in place of the URL's host. Calls of it use HTTP/1.1, as the Go server's do, so that
    /// they spread over its endpoints.
    pub service: Option<Service>,
    /// True when calls use HTTP/1.1 whatever the server offers: each then has a connection for itself while it lasts.
    pub http1: bool,
    /// True when any certificate will do.
    pub insecure: bool,
    /// Set where this server calls itself: no certificates but its own count then.
    pub own: Option<Itself>,
    pub identity: Option<Identity>,
    pub credential: Credential,
    /// The proxy that connections leave by, if not directly.
    pub dialer: Option<Arc<Dialer>>,
}

/// A client certificate and its key, as PEM text.
#[derive(Clone)]
pub struct Identity {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// The files that they were read from, if both stand in files: new connections show the contents of that time.
    pub files: Option<IdentityFiles>,
}

/// The files of a client certificate and its key.
#[derive(Clone, Debug)]
pub struct IdentityFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The `Authorization` header of calls.
#[derive(Clone, Default)]
pub enum Credential {
    #[default]
    None,
    Bearer(String),
    /// The token in a file, which is read again from time to time.
    BearerFile(PathBuf),
    Basic {
        username: String,
        password: String,
    },
}

/// Why a target cannot be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub String);

impl Target {
    /// A server whose certificate one of the system's authorities has signed.
    pub fn new(url: &str) -> Result<Self, TargetError> {
        let url: Uri = url.parse().map_err(|error| TargetError(format!("parse {url:?}: {error}")))?;
        if url.host().is_none() || !matches!(url.scheme_str(), Some("http" | "https")) {
            return Err(TargetError(format!("host must be a URL or a host:port pair: {url:?}")));
        }
        Ok(Self {
            url,
            authorities: None,
            server_name: None,
            service: None,
            http1: false,
            insecure: false,
            own: None,
            identity: None,
            credential: Credential::None,
            dialer: None,
        })
    }

    /// Trusts the authorities of a `caBundle`; those of the system where it holds none.
    ///
    /// # Errors
    /// For text that is not base64.
    pub fn trust(&mut self, bundle: &str) -> Result<(), DecodeError> {
        let bundle = BASE64_STANDARD.decode(bundle)?;
        // Blanks alone are no authorities.
        self.authorities = Some(bundle).filter(|bundle| !bundle.trim_ascii().is_empty());
        Ok(())
    }
}

// Neither keys nor tokens may end up in a log.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer",
            Self::BearerFile(_) => "BearerFile",
            Self::Basic { .. } => "Basic",
        })
    }
}
