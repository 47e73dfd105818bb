//! The server behind an APIService, and connections to it.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_client::{CertificateMetrics, Pool, Verification, Way, client_config};
use binnacle_fields::FieldRef;
use binnacle_fields::apiregistration::v1::{
    APIService, APIServiceCondition, APIServiceSpec, APIServiceStatus, ServiceReference,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::Text;
use binnacle_schema::Value;
use binnacle_webhook::{Service, ServiceResolver};
use parking_lot::Mutex;
use rustls::client::ResolvesClientCert;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// A group version on a remote server.
pub(crate) struct Remote {
    /// The name of the APIService.
    pub(crate) name: Text,
    pub(crate) group: Text,
    pub(crate) version: Text,
    pub(crate) service: Service,
    /// True if the condition `Available` is true.
    pub(crate) is_available: bool,
    /// The connections to the server, or the error for clients.
    pub(crate) connections: Result<Arc<Connections>, String>,
}

/// Connections to one service with one trust configuration. APIServices of the same service share them.
pub(crate) struct Connections {
    pub(crate) pool: Arc<Pool>,
    pub(crate) upgrade_tls: Arc<ClientConfig>,
    pub(crate) server_name: String,
}

impl Connections {
    /// Creates connections to servers that `verification` verifies, with a certificate for `server_name`.
    pub(crate) fn new(
        verification: impl Fn() -> Result<Verification, String>,
        server_name: &str,
        identity: Option<Arc<dyn ResolvesClientCert>>,
        certificates: Option<CertificateMetrics>,
        way: Way,
    ) -> Result<Self, String> {
        let config = || client_config(verification()?, identity.clone()).map_err(|error| format!("tls: {error}"));
        let mut tls = ClientConfig::clone(&*config()?);
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let server_name = server_name.to_owned();
        let pool = Pool::counting(Arc::new(tls), server_name.clone(), certificates, way);
        Ok(Self { pool, upgrade_tls: config()?, server_name })
    }
}

/// Creates [`Remote`]s.
pub(crate) struct Remotes {
    resolver: Arc<dyn ServiceResolver>,
    identity: Option<Arc<dyn ResolvesClientCert>>,
    certificates: Option<CertificateMetrics>,
    cached: Mutex<HashMap<Trust, Weak<Connections>>>,
}

/// The trust in a server: the name of its certificate and its authorities, or no verification.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Trust {
    server_name: String,
    is_insecure: bool,
    bundle: Vec<u8>,
}

/// Returns true if an APIService has the condition `Available`.
pub(crate) fn is_available(api_service: FieldRef<APIService>) -> bool {
    let mut conditions = api_service.at(APIService::STATUS).at(APIServiceStatus::CONDITIONS).values();
    let available = conditions.find(|condition| condition.at(APIServiceCondition::TYPE).str() == "Available");
    available.is_some_and(|condition| condition.at(APIServiceCondition::STATUS).str() == "True")
}

impl Remotes {
    pub(crate) fn new(
        resolver: Arc<dyn ServiceResolver>,
        identity: Option<Arc<dyn ResolvesClientCert>>,
        certificates: Option<CertificateMetrics>,
    ) -> Self {
        Self { resolver, identity, certificates, cached: Mutex::default() }
    }

    /// Returns the remote server of an APIService; `None` for a local APIService.
    pub(crate) fn of(&self, api_service: &Value) -> Option<Remote> {
        let api_service = FieldRef::<APIService>::root(api_service);
        let spec = api_service.at(APIService::SPEC);
        let reference = spec.at(APIServiceSpec::SERVICE).set()?;
        let port = reference.at(ServiceReference::PORT).int().and_then(|port| u16::try_from(port).ok());
        let service = Service {
            resolver: self.resolver.clone(),
            namespace: reference.at(ServiceReference::NAMESPACE).str().to_owned(),
            name: reference.at(ServiceReference::NAME).str().to_owned(),
            port: port.unwrap_or(443),
        };
        let bundle = BASE64_STANDARD.decode(spec.at(APIServiceSpec::CA_BUNDLE).str());
        let trust = Trust {
            server_name: service.server_name(),
            is_insecure: spec.at(APIServiceSpec::INSECURE_SKIP_TLS_VERIFY).bool(),
            bundle: bundle.unwrap_or_default(),
        };
        Some(Remote {
            name: api_service.at(APIService::METADATA).at(ObjectMeta::NAME).str().into(),
            group: spec.at(APIServiceSpec::GROUP).str().into(),
            version: spec.at(APIServiceSpec::VERSION).str().into(),
            service,
            is_available: is_available(api_service),
            connections: self.connections(trust),
        })
    }

    fn connect(
        &self,
        verification: impl Fn() -> Result<Verification, String>,
        trust: &Trust,
    ) -> Result<Connections, String> {
        let way = Way { dialer: self.resolver.dialer(true), ..Way::default() };
        Connections::new(verification, &trust.server_name, self.identity.clone(), self.certificates.clone(), way)
    }

    fn connections(&self, trust: Trust) -> Result<Arc<Connections>, String> {
        let mut cached = self.cached.lock();
        if let Some(known) = cached.get(&trust).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let connections = Arc::new(match trust.is_insecure {
            true => self.connect(|| Ok(Verification::None), &trust),
            false => self.connect(|| verification_by(&trust.bundle), &trust),
        }?);
        cached.retain(|_, known| known.strong_count() > 0);
        cached.insert(trust, Arc::downgrade(&connections));
        Ok(connections)
    }
}

/// Returns the verification by a CA bundle, or by the authorities of the system if the bundle is empty.
pub(crate) fn verification_by(bundle: &[u8]) -> Result<Verification, String> {
    static SYSTEM_ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    if bundle.is_empty() {
        let load = || {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        };
        return Ok(Verification::Authorities(SYSTEM_ROOTS.get_or_init(load).clone()));
    }
    let bundle: Vec<_> = CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
    if bundle.is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_owned());
    }
    Ok(Verification::Bundle(bundle))
}

impl Remote {
    /// Returns the path of the version's discovery document.
    pub(crate) fn path(&self) -> String {
        match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }
}
