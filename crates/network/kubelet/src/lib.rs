//! Connections to kubelets: address, port, and mutual TLS.
//!
//! Independent of HTTP and of how nodes are looked up: callers pass a node to [`Kubelets::of_node`].

mod address;

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_client::{
    ClientIdentity, ConnectionOptions, IdentityError, IssuedIdentity, Target, Verification, client_config,
};
use binnacle_schema::Value;
use rustls::client::ResolvesClientCert;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

pub use address::preferred_address;

/// The declared feature of kubelets that accept WebSockets (KEP-4006) and need no translation.
const EXTEND_WEBSOCKETS: &str = "ExtendWebSocketsToKubelet";

/// The configuration from the `--kubelet-*` flags.
#[derive(Clone, Debug)]
pub struct Config {
    pub identity: Option<ClientCertificate>,
    /// The authority for the kubelets' serving certificates. Without one, they are not verified.
    pub authority: Option<PathBuf>,
    /// The types of node addresses, in order of preference.
    pub preferred_address_types: Vec<String>,
    /// The port for nodes whose status contains none.
    pub port: u16,
}

/// The source of the client certificate and its key.
#[derive(Clone, Debug)]
pub enum ClientCertificate {
    /// The paths of the certificate and its key.
    Files(PathBuf, PathBuf),
    Issued(Arc<IssuedIdentity>),
}

impl Default for Config {
    fn default() -> Self {
        let types = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
        Self {
            identity: None,
            authority: None,
            preferred_address_types: types.map(str::to_owned).to_vec(),
            port: 10250,
        }
    }
}

/// Errors of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("open {path}: {error}")]
    Unreadable { path: String, error: std::io::Error },
    #[error("unable to load root certificates: unable to parse bytes as PEM block: {0}")]
    NoAuthority(String),
    #[error("tls: {0}")]
    Unusable(String),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Only one of two flags that must be set together is set.
    #[error("missing {0}: --kubelet-client-certificate and --kubelet-client-key belong together")]
    Half(&'static str),
}

/// The kubelets of the cluster.
pub struct Kubelets {
    verified: Arc<ClientConfig>,
    unverified: Arc<ClientConfig>,
    preferred_address_types: Vec<String>,
    port: u16,
    connection: ConnectionOptions,
}

/// The kubelet of a node.
#[derive(Clone, Debug)]
pub struct Kubelet {
    pub target: Target,
    /// The target without certificate verification, for callers that request it.
    pub unverified: Target,
    /// True if the kubelet accepts WebSockets directly.
    pub accepts_websockets: bool,
}

impl Kubelets {
    /// Loads the configured files.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let identity: Option<Arc<dyn ResolvesClientCert>> = match &config.identity {
            Some(ClientCertificate::Files(certificate, key)) => Some(Arc::new(ClientIdentity::load(certificate, key)?)),
            Some(ClientCertificate::Issued(identity)) => Some(identity.clone()),
            None => None,
        };
        let unusable = |error: rustls::Error| ConfigError::Unusable(error.to_string());
        let verification = match &config.authority {
            Some(path) => Verification::Authorities(authorities(path)?),
            None => Verification::None,
        };
        Ok(Self {
            verified: client_config(verification, identity.clone()).map_err(unusable)?,
            unverified: client_config(Verification::None, identity).map_err(unusable)?,
            preferred_address_types: config.preferred_address_types.clone(),
            port: config.port,
            connection: ConnectionOptions::default(),
        })
    }

    /// Sets the options of connections to kubelets.
    #[must_use]
    pub fn by(self, connection: ConnectionOptions) -> Self {
        Self { connection, ..self }
    }

    /// Returns the options of connections to kubelets, pods and services.
    pub fn connection(&self) -> &ConnectionOptions {
        &self.connection
    }

    /// Returns the kubelet of a node. Errors have kube-apiserver's messages.
    pub fn of_node(&self, node: &Value) -> Result<Kubelet, String> {
        let host = preferred_address(node, &self.preferred_address_types)?;
        let declared = node.int_at(&["status", "daemonEndpoints", "kubeletEndpoint", "Port"]);
        let port = declared.and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0).unwrap_or(self.port);
        let to = |tls: &Arc<ClientConfig>| Target {
            host: host.clone(),
            port: Some(port),
            tls: Some(tls.clone()),
            addresses: None,
            server_name: None,
            connection: self.connection.clone(),
        };
        let features = node.list_at(&["status", "declaredFeatures"]);
        Ok(Kubelet {
            target: to(&self.verified),
            unverified: to(&self.unverified),
            accepts_websockets: features.iter().any(|feature| feature.as_str() == Some(EXTEND_WEBSOCKETS)),
        })
    }
}

fn authorities(path: &PathBuf) -> Result<RootCertStore, ConfigError> {
    let shown = || path.display().to_string();
    let pem = std::fs::read(path).map_err(|error| ConfigError::Unreadable { path: shown(), error })?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| ConfigError::NoAuthority(shown()))?;
        roots.add(certificate).map_err(|error| ConfigError::Unusable(error.to_string()))?;
    }
    if roots.is_empty() { Err(ConfigError::NoAuthority(shown())) } else { Ok(roots) }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn reads_port_and_declared_features_of_the_node() {
        let kubelets = Kubelets::new(&Config::default()).unwrap();
        for (status, want) in [
            (value!({"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}), "https://10.0.0.1:10250 false"),
            (
                value!({
                    "addresses": [{"type": "InternalIP", "address": "fd00::1"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": 77i64}},
                    "declaredFeatures": ["ExtendWebSocketsToKubelet", "Other"]
                }),
                "https://[fd00::1]:77 true",
            ),
            (
                value!({
                    "addresses": [{"type": "Hostname", "address": "n"}],
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0i64}},
                    "declaredFeatures": ["Other"]
                }),
                "https://n:10250 false",
            ),
        ] {
            let kubelet = kubelets.of_node(&value!({"status": (status)})).unwrap();
            assert_eq!(format!("{:?} {}", kubelet.target, kubelet.accepts_websockets), want);
        }
    }

    #[test]
    fn reports_missing_files() {
        let config = Config { authority: Some("/nowhere/ca.crt".into()), ..Config::default() };
        let error = Kubelets::new(&config).err().unwrap().to_string();
        assert!(error.starts_with("open /nowhere/ca.crt: "), "{error}");
    }
}
