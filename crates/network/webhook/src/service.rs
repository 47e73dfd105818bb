//! Services of the cluster as targets of calls.

use std::fmt;
use std::sync::Arc;

use binnacle_egress::Dialer;
use binnacle_request::BoxFuture;
use http::Uri;

use crate::loopback::Loopback;

/// Resolves services to addresses.
pub trait ServiceResolver: fmt::Debug + Send + Sync {
    /// Returns the `host:port` to dial for a service port, or an error with Go's message. Called for each connection or
    /// request, so implementations must answer from memory.
    fn resolve<'a>(&'a self, namespace: &'a str, name: &'a str, port: u16) -> BoxFuture<'a, Result<String, String>>;

    /// Returns the loopback configuration if the service port is this server itself, otherwise `None`.
    fn loopback(&self, namespace: &str, name: &str, port: u16) -> Option<Loopback> {
        let _ = (namespace, name, port);
        None
    }

    /// Returns the proxy for connections to services or to the hosts of URLs, or `None` for direct connections.
    fn dialer(&self, to_service: bool) -> Option<Arc<Dialer>> {
        let _ = to_service;
        None
    }
}

/// A service port, with the resolver for its address.
#[derive(Clone, Debug)]
pub struct Service {
    pub resolver: Arc<dyn ServiceResolver>,
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

/// The default port of webhooks.
const DEFAULT_PORT: u16 = 443;

impl Service {
    /// Returns the service for a URL that names the cluster's API servers. Like Go, recognizes only the exact host
    /// `kubernetes.default.svc`.
    pub fn of_own_url(resolver: &Arc<dyn ServiceResolver>, url: &Uri) -> Option<Self> {
        let is_own = url.scheme_str() == Some("https")
            && url.host() == Some("kubernetes.default.svc")
            && url.port_u16().is_none_or(|port| port == DEFAULT_PORT);
        is_own.then(|| Self {
            resolver: resolver.clone(),
            namespace: "default".to_owned(),
            name: "kubernetes".to_owned(),
            port: DEFAULT_PORT,
        })
    }

    /// Returns the loopback configuration if the service is this server itself.
    pub fn loopback(&self) -> Option<Loopback> {
        self.resolver.loopback(&self.namespace, &self.name, self.port)
    }

    /// Returns the name that the server's certificate must have.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// Returns the `host:port` to dial, or an error with Go's message.
    pub async fn address(&self) -> Result<String, String> {
        self.resolver.resolve(&self.namespace, &self.name, self.port).await
    }
}
