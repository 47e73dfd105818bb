//! The target of calls: its address, its trusted certificates, and the client's credentials.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use base64::prelude::BASE64_STANDARD;
use base64::{DecodeError, Engine};
use binnacle_client::path::rest_path;
use binnacle_egress::Dialer;
use http::Uri;
use http::uri::PathAndQuery;

use crate::loopback::Loopback;
use crate::service::Service;

/// The address of a webhook, and everything else that calls need.
#[derive(Clone, Debug)]
pub struct Target {
    /// The exact URL of calls.
    pub url: Uri,
    /// The trusted certificate authorities, as PEM text; those of the system if `None`.
    pub authorities: Option<Vec<u8>>,
    /// The required name of the server's certificate, if not the host of the URL.
    pub server_name: Option<String>,
    /// The service to dial instead of the URL's host. As in Go, calls use HTTP/1.1, to spread over its endpoints.
    pub service: Option<Service>,
    /// True if calls always use HTTP/1.1: each then has a connection to itself.
    pub http1: bool,
    /// True if any certificate is accepted.
    pub insecure: bool,
    /// Present if this server calls itself: then only its own certificates are accepted.
    pub own: Option<Loopback>,
    pub identity: Option<Identity>,
    pub credential: Credential,
    /// The proxy for connections; direct if absent.
    pub dialer: Option<Arc<Dialer>>,
}

/// A client certificate and its key, as PEM text.
#[derive(Clone)]
pub struct Identity {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// The files that they were read from, if both are files: new connections use the current contents.
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
    /// A token in a file, which is read again from time to time.
    BearerFile(PathBuf),
    Basic {
        username: String,
        password: String,
    },
}

/// The error of an unusable target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub String);

impl Target {
    /// Creates a target whose certificate must be signed by an authority of the system.
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

    /// As [`Target::new`], with the URL that Go's REST client makes of this one, as webhooks are called: the path is
    /// cleaned, and there is no query.
    pub fn rest(url: &str) -> Result<Self, TargetError> {
        let mut target = Self::new(url)?;
        let mut parts = target.url.into_parts();
        let path = parts.path_and_query.as_ref().map_or("", PathAndQuery::path);
        let cleaned = rest_path(path);
        let path = cleaned.parse().map_err(|error| TargetError(format!("parse {cleaned:?}: {error}")))?;
        parts.path_and_query = Some(path);
        target.url = Uri::from_parts(parts).map_err(|error| TargetError(format!("parse {url:?}: {error}")))?;
        Ok(target)
    }

    /// Trusts the authorities of a `caBundle`; those of the system if it has none.
    ///
    /// # Errors
    /// For text that is not base64.
    pub fn trust(&mut self, bundle: &str) -> Result<(), DecodeError> {
        let bundle = BASE64_STANDARD.decode(bundle)?;
        // Whitespace counts as no authorities.
        self.authorities = Some(bundle).filter(|bundle| !bundle.trim_ascii().is_empty());
        Ok(())
    }
}

// Neither keys nor tokens may appear in a log.
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
