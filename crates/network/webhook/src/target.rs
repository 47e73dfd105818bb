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

use crate::credential::Credential;
use crate::loopback::Loopback;
use crate::service::{Service, ServiceResolver};

/// The address of a webhook, and the TLS and authentication settings for calls.
#[derive(Clone, Debug)]
pub struct Target {
    /// The exact URL of calls.
    pub url: Uri,
    /// The trusted certificate authorities as PEM text, or `None` for those of the system.
    pub authorities: Option<Vec<u8>>,
    /// The name that the server's certificate must have, if not the host of the URL.
    pub server_name: Option<String>,
    /// The service to dial instead of the URL's host. As in Go, calls use HTTP/1.1, so that they spread over its
    /// endpoints.
    pub service: Option<Service>,
    /// True if calls always use HTTP/1.1, with one connection for each concurrent call.
    pub http1: bool,
    /// True if any server certificate is accepted.
    pub insecure: bool,
    /// Set if this server calls itself: only its own certificates are accepted.
    pub own: Option<Loopback>,
    pub identity: Option<Identity>,
    pub credential: Credential,
    /// The proxy for connections, or `None` for direct ones.
    pub dialer: Option<Arc<Dialer>>,
}

/// A client certificate and its key, as PEM text.
#[derive(Clone)]
pub struct Identity {
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// The source files, if both are files. New connections use their current contents.
    pub files: Option<IdentityFiles>,
}

/// The files of a client certificate and its key.
#[derive(Clone, Debug)]
pub struct IdentityFiles {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// The error for an unusable target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TargetError(pub String);

impl Target {
    /// Creates a target whose certificate must be signed by a system authority.
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

    /// Like [`Target::new`], with the URL normalized as Go's REST client does for webhooks: the path is cleaned and the
    /// query is removed.
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

    /// Trusts the authorities of a `caBundle`, or those of the system if it is empty.
    ///
    /// # Errors
    /// Fails if the text is not base64.
    pub fn trust(&mut self, bundle: &str) -> Result<(), DecodeError> {
        let bundle = BASE64_STANDARD.decode(bundle)?;
        // Whitespace counts as empty.
        self.authorities = Some(bundle).filter(|bundle| !bundle.trim_ascii().is_empty());
        Ok(())
    }
}

impl Target {
    /// Directs the target to the given service, to the service that its URL names, or to the URL's host. If that is
    /// this server ([`Target::is_loopback`]), no further configuration is needed.
    #[must_use]
    pub fn at(mut self, service: Option<Service>, resolver: &Arc<dyn ServiceResolver>) -> Self {
        self.service = service.or_else(|| Service::of_own_url(resolver, &self.url));
        self.dialer = resolver.dialer(self.service.is_some());
        match self.service.as_ref().and_then(Service::loopback) {
            Some(loopback) => self.into_loopback(loopback),
            None => self,
        }
    }

    /// Returns true if the target is this server, which is called with its own credential and certificates.
    pub fn is_loopback(&self) -> bool {
        self.own.is_some()
    }

    /// Restricts the credential to this server: it is never sent to another server or a proxy.
    #[must_use]
    pub fn into_loopback(self, loopback: Loopback) -> Self {
        Self {
            authorities: None,
            insecure: false,
            identity: None,
            credential: loopback.credential().clone(),
            own: Some(loopback),
            dialer: None,
            ..self
        }
    }
}

// Keys must not appear in logs.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}
