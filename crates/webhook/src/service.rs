//! Services of the cluster as targets of calls.

use std::fmt;
use std::sync::Arc;

use binnacle_egress::Dialer;
use binnacle_request::BoxFuture;

use crate::itself::Itself;

/// Tells where a service of the cluster is reached.
pub trait ServiceResolver: fmt::Debug + Send + Sync {
    /// The `host:port` to dial for a port of a service, or in Go's words why there is none. Asked for each connection,
    /// or for each request: it answers from memory.
    fn resolve<'a>(&'a self, namespace: &'a str, name: &'a str, port: u16) -> BoxFuture<'a, Result<String, String>>;

    /// How a port of a service is called that is this server itself; `None` for all others.
    fn itself(&self, namespace: &str, name: &str, port: u16) -> Option<Itself> {
        let _ = (namespace, name, port);
        None
    }

    /// The proxy that connections to services leave by, or those to what a URL names; `None` where they are direct.
    fn dialer(&self, to_service: bool) -> Option<Arc<Dialer>> {
        let _ = to_service;
        None
    }
}

/// A port of a service, and who knows where it is.
#[derive(Clone, Debug)]
pub struct Service {
    pub resolver: Arc<dyn ServiceResolver>,
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

impl Service {
    /// How it is called where it is this server itself.
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
