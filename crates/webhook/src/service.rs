//! Services of the cluster as targets of calls.

use std::fmt;
use std::sync::Arc;

use binnacle_egress::Dialer;
use binnacle_request::BoxFuture;
use http::Uri;

use crate::itself::Itself;

/// Resolves the addresses of the cluster's services.
pub trait ServiceResolver: fmt::Debug + Send + Sync {
    /// The `host:port` to dial for a port of a service, or in Go's words why there is none. Called for each connection,
    /// or for each request: it answers from memory.
    fn resolve<'a>(&'a self, namespace: &'a str, name: &'a str, port: u16) -> BoxFuture<'a, Result<String, String>>;

    /// The means to call a service's port that is this server itself; `None` for all others.
    fn itself(&self, namespace: &str, name: &str, port: u16) -> Option<Itself> {
        let _ = (namespace, name, port);
        None
    }

    /// The proxy of connections to services, or to the hosts of URLs; `None` where they are direct.
    fn dialer(&self, to_service: bool) -> Option<Arc<Dialer>> {
        let _ = to_service;
        None
    }
}

/// A port of a service, and the resolver of its address.
#[derive(Clone, Debug)]
pub struct Service {
    pub resolver: Arc<dyn ServiceResolver>,
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

/// The port of webhooks that name none.
const DEFAULT_PORT: u16 = 443;

impl Service {
    /// The service that a URL means which names the servers of the cluster themselves, as Go has it: this name alone, in
    /// just these letters.
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

    /// The means to call it where it is this server itself.
    pub fn itself(&self) -> Option<Itself> {
        self.resolver.itself(&self.namespace, &self.name, self.port)
    }

    /// The name that the server's certificate must be for.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// The `host:port` to dial, or in Go's words why there is none.
    pub async fn address(&self) -> Result<String, String> {
        self.resolver.resolve(&self.namespace, &self.name, self.port).await
    }
}
