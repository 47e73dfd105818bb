//! The backends of webhooks. Webhooks with equal client configurations share a client, its connections and a circuit
//! breaker, even across changes to the webhooks.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{ServiceReference, WebhookClientConfig};
use binnacle_schema::json;
use binnacle_webhook::{Client, Service, ServiceResolver, Target, Users};
use parking_lot::Mutex;

use crate::breaker::Breaker;
use crate::metrics::Metrics;

/// The maximum duration of a call.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(30);
/// The user agent of calls.
const AGENT: &str = "kube-apiserver-admission";
const DEFAULT_PORT: u16 = 443;

/// Creates backends, and caches those in use.
pub struct Backends {
    users: Users,
    services: Arc<dyn ServiceResolver>,
    metrics: Metrics,
    /// The backends by the JSON of their client configuration.
    cache: Mutex<HashMap<String, Weak<Backend>>>,
}

/// The server behind a webhook.
pub(crate) struct Backend {
    pub(crate) client: Client,
    pub(crate) breaker: Breaker,
}

impl Backends {
    /// Creates an empty cache. `users` has the credentials for servers, and `services` resolves the addresses of
    /// services.
    pub fn new(users: Users, services: Arc<dyn ServiceResolver>, metrics: &Metrics) -> Self {
        Self { users, services, metrics: metrics.clone(), cache: Mutex::default() }
    }

    /// Returns the backend of a `clientConfig`, or the reason why it cannot be called.
    pub(crate) fn of(&self, config: FieldRef<WebhookClientConfig>) -> Result<Arc<Backend>, String> {
        let key = json::to_string(config.value());
        let mut cache = self.cache.lock();
        if let Some(backend) = cache.get(&key).and_then(Weak::upgrade) {
            return Ok(backend);
        }
        cache.retain(|_, backend| backend.strong_count() > 0);
        let client = Client::new(self.target(config)?, MAX_TIMEOUT).map_err(|error| error.to_string())?;
        let breaker = Breaker::new(self.metrics.open.clone());
        let backend = Arc::new(Backend { client: client.named(AGENT), breaker });
        cache.insert(key, Arc::downgrade(&backend));
        Ok(backend)
    }

    fn target(&self, config: FieldRef<WebhookClientConfig>) -> Result<Target, String> {
        let service = config.at(WebhookClientConfig::SERVICE).set().map(|service| self.service(service));
        let url = match (&service, config.at(WebhookClientConfig::URL).str()) {
            (Some((service, path)), _) => {
                let path = path.strip_prefix('/').unwrap_or(path);
                format!("https://{}:{}/{path}", service.server_name(), service.port)
            }
            (None, "") => return Err("webhook configuration must have either service or URL".to_owned()),
            (None, url) => url.to_owned(),
        };
        let mut target = Target::rest(&url).map_err(|error| error.to_string())?;
        let host = target.url.host().unwrap_or_default().to_owned();
        let port = target.url.port_u16().unwrap_or(DEFAULT_PORT);
        // Servers may limit the number of HTTP/2 streams per connection, so that slow calls would block others.
        target.http1 = true;
        let mut target = target.at(service.map(|(service, _)| service), &self.services);
        if !target.is_loopback() {
            (target.identity, target.credential) = self.users.of_host(&host, port);
            target.trust(config.at(WebhookClientConfig::CA_BUNDLE).str()).map_err(|error| error.to_string())?;
        }
        Ok(target)
    }

    fn service(&self, reference: FieldRef<ServiceReference>) -> (Service, String) {
        // The range of the port has been validated.
        let port = reference.at(ServiceReference::PORT).int().and_then(|port| u16::try_from(port).ok());
        let service = Service {
            resolver: self.services.clone(),
            namespace: reference.at(ServiceReference::NAMESPACE).str().to_owned(),
            name: reference.at(ServiceReference::NAME).str().to_owned(),
            port: port.filter(|port| *port != 0).unwrap_or(DEFAULT_PORT),
        };
        (service, reference.at(ServiceReference::PATH).str().to_owned())
    }
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backends").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{backends, parse};

    fn of(backends: &Backends, config: &str) -> Result<Arc<Backend>, String> {
        backends.of(FieldRef::root(&parse(config)))
    }

    fn check_url(config: &str, want: &str) {
        let url = of(&backends(), config).map(|backend| backend.client.target().url.to_string());
        assert_eq!(url.unwrap_or_else(|why| why), want, "{config}");
    }

    #[test]
    fn urls_of_services_have_their_name_port_and_path() {
        check_url(r#"{"url": "https://a.b:8443/c"}"#, "https://a.b:8443/c");
        check_url(r#"{"service": {"namespace": "n", "name": "s"}}"#, "https://s.n.svc:443/");
        check_url(r#"{"service": {"namespace": "n", "name": "s", "path": "/p/q"}}"#, "https://s.n.svc:443/p/q");
        check_url(
            r#"{"service": {"namespace": "n", "name": "s", "path": "p", "port": 8443}}"#,
            "https://s.n.svc:8443/p",
        );
        check_url(r#"{"service": {"namespace": "n", "name": "s"}, "url": "https://a.b"}"#, "https://s.n.svc:443/");
        check_url("{}", "webhook configuration must have either service or URL");
    }

    #[test]
    fn equal_configurations_share_a_backend_while_it_is_in_use() {
        let backends = backends();
        let [a, b] =
            [r#"{"url": "https://a"}"#, r#"{"url": "https://b"}"#].map(|config| of(&backends, config).unwrap());
        assert!(Arc::ptr_eq(&a, &of(&backends, r#"{"url": "https://a"}"#).unwrap()));
        assert!(!Arc::ptr_eq(&a, &b));
        let unused = Arc::downgrade(&a);
        drop(a);
        assert!(unused.upgrade().is_none());
        assert_eq!(backends.cache.lock().len(), 2);
        // The next new backend removes those that are no longer used.
        let _c = of(&backends, r#"{"url": "https://c"}"#).unwrap();
        assert_eq!(backends.cache.lock().len(), 2);
    }
}
