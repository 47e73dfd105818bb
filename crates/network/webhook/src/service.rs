//! Services of the cluster as targets of calls.

use std::fmt;
use std::sync::Arc;

use binnacle_egress::Dialer;
use binnacle_request::BoxFuture;
use http::Uri;

use crate::loopback::Loopback;

/// A resolver of services' addresses.
pub trait ServiceResolver: fmt::Debug + Send + Sync {
    /// Returns the `host:port` to dial for a port of a service, or an error in Go's words. Called for each connection
    /// or request, so it must answer from memory.
    fn resolve<'a>(&'a self, namespace: &'a str, name: &'a str, port: u16) -> BoxFuture<'a, Result<String, String>>;

    /// Returns the means to call a service's port that is this server itself; `None` for all others.
    fn loopback(&self, namespace: &str, name: &str, port: u16) -> Option<Loopback> {
        let _ = (namespace, name, port);
        None
    }

    /// Returns the proxy for connections to services or to the hosts of URLs; `None` for direct ones.
    fn dialer(&self, to_service: bool) -> Option<Arc<Dialer>> {
        let _ = to_service;
        None
    }
}

/// A port of a service, with the resolver of its address.
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
    /// Returns the service for a URL that names the cluster's API servers: like Go, recognizes only the exact host
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

    /// Returns the means to call the service if it is this server itself.
    pub fn loopback(&self) -> Option<Loopback> {
        self.resolver.loopback(&self.namespace, &self.name, self.port)
    }

    /// Returns the required name of the server's certificate.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// Returns the `host:port` to dial, or an error in Go's words.
    pub async fn address(&self) -> Result<String, String> {
        self.resolver.resolve(&self.namespace, &self.name, self.port).await
    }
}
