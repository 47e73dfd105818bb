//! The server side of TLS: versions 1.2 and 1.3, HTTP/2 and HTTP/1.1, client certificates requested but never required.

mod certificates;
mod suites;

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use arc_swap::ArcSwap;
use binnacle_client::{tls12_signature, tls13_signature};
use binnacle_meta::read_error;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, NoServerSessionStorage, ProducesTickets};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

pub use certificates::{CertificateFiles, Certificates, DefaultCertificate, NamedCertificate};
pub use suites::TlsSettings;

use certificates::CertResolver;
use suites::Preference;

/// A serving certificate with its chain, and its key.
pub struct TlsFiles {
    pub chain: Vec<CertificateDer<'static>>,
    pub key: PrivateKeyDer<'static>,
}

/// An error of the serving certificate.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}", read_error(path, error))]
    Unreadable { path: String, error: std::io::Error },
    #[error("{path}: {error}")]
    Broken { path: String, error: String },
    #[error("tls: {0}")]
    Unusable(String),
    #[error("failed to load SNI cert and key: {0}")]
    Named(Box<TlsError>),
}

impl TlsFiles {
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| TlsError::Unreadable { path: path.display().to_string(), error })
        };
        let path = certificate.display().to_string();
        let (certificate, key) = (read(certificate)?, read(key)?);
        let chain = CertificateDer::pem_slice_iter(&certificate)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| TlsError::Broken { path, error: error.to_string() })?;
        if chain.is_empty() {
            return Err(TlsError::Unusable("failed to find any PEM data in certificate input".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(&key)
            .map_err(|_| TlsError::Unusable("failed to find any PEM data in key input".to_owned()))?;
        Ok(Self { chain, key })
    }
}

/// Returns the current names of a bundle of authorities. The allocation stays the same until the bundle is replaced.
pub type AuthorityNames = Arc<dyn Fn() -> Arc<[DistinguishedName]> + Send + Sync>;

/// The TLS configuration of the listener.
pub struct Tls {
    settings: TlsSettings,
    ticketer: Arc<dyn ProducesTickets>,
    certificates: Arc<Certificates>,
    clients: Vec<AuthorityNames>,
    /// Rebuilt when the authorities of clients were replaced.
    configs: ArcSwap<ServerConfigs>,
}

/// The configurations of connections, valid until the authorities of clients are replaced.
struct ServerConfigs {
    /// For clients with AES instructions.
    aes: Arc<ServerConfig>,
    /// For clients without AES instructions.
    chacha: Arc<ServerConfig>,
    /// The names of each bundle of authorities.
    names: Vec<Arc<[DistinguishedName]>>,
}

impl Tls {
    /// `clients` returns the current names, which clients receive to choose a certificate.
    pub fn new(
        settings: &TlsSettings,
        default: DefaultCertificate,
        named: Vec<NamedCertificate>,
        clients: Vec<AuthorityNames>,
    ) -> Result<Self, TlsError> {
        let certificates = Certificates::load(settings.provider(Preference::Aes), default, named)?;
        // Clients hold the session tickets, so the server stores nothing for closed connections.
        let ticketer = binnacle_crypto::tls::ticketer().map_err(|error| TlsError::Unusable(error.to_string()))?;
        let configs = ArcSwap::from_pointee(ServerConfigs::new(settings, &ticketer, &certificates, names(&clients))?);
        Ok(Self { settings: settings.clone(), ticketer, certificates, clients, configs })
    }

    pub fn certificates(&self) -> &Arc<Certificates> {
        &self.certificates
    }

    /// Returns the configuration for a client hello on a connection to one of our addresses, which may have its own
    /// certificate for clients that send no server name.
    pub(crate) fn config_for(&self, hello: &ClientHello<'_>, address: Option<IpAddr>) -> Arc<ServerConfig> {
        let configs = self.configs();
        let config = match Preference::of_client(hello.cipher_suites()) {
            Preference::Aes => &configs.aes,
            Preference::ChaCha => &configs.chacha,
        };
        match address.filter(|address| self.certificates.is_named(*address)) {
            None => config.clone(),
            Some(address) => {
                let mut config = (**config).clone();
                config.cert_resolver =
                    Arc::new(CertResolver { certificates: self.certificates.clone(), address: Some(address) });
                Arc::new(config)
            }
        }
    }

    /// Returns the configurations, which are rebuilt if the authorities of clients were replaced.
    fn configs(&self) -> Arc<ServerConfigs> {
        let configs = self.configs.load_full();
        let names = names(&self.clients);
        if configs.names.iter().zip(&names).all(|(old, new)| Arc::ptr_eq(old, new)) {
            return configs;
        }
        match ServerConfigs::new(&self.settings, &self.ticketer, &self.certificates, names) {
            Ok(new) => {
                let new = Arc::new(new);
                self.configs.store(new.clone());
                new
            }
            Err(error) => {
                tracing::error!(%error, "clients are told of former authorities");
                configs
            }
        }
    }
}

fn names(clients: &[AuthorityNames]) -> Vec<Arc<[DistinguishedName]>> {
    clients.iter().map(|names| names()).collect()
}

impl ServerConfigs {
    fn new(
        settings: &TlsSettings,
        ticketer: &Arc<dyn ProducesTickets>,
        certificates: &Arc<Certificates>,
        names: Vec<Arc<[DistinguishedName]>>,
    ) -> Result<Self, TlsError> {
        let config = |preference| {
            let provider = Arc::new(settings.provider(preference));
            let authorities = names.iter().flat_map(|names| names.iter().cloned()).collect();
            let verifier = Arc::new(AnyClientVerifier { provider: provider.clone(), authorities });
            let mut config = ServerConfig::builder_with_provider(provider)
                .with_protocol_versions(&settings.versions())
                .map_err(|error| TlsError::Unusable(error.to_string()))?
                .with_client_cert_verifier(verifier)
                .with_cert_resolver(Arc::new(CertResolver { certificates: certificates.clone(), address: None }));
            config.ignore_client_order = true;
            config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            if settings.without_http2 {
                config.alpn_protocols.remove(0);
            }
            config.ticketer = ticketer.clone();
            config.session_storage = Arc::new(NoServerSessionStorage {});
            Ok(Arc::new(config))
        };
        let (aes, chacha) = (config(Preference::Aes)?, config(Preference::ChaCha)?);
        Ok(Self { aes, chacha, names })
    }
}

/// Accepts all clients that prove possession of their certificate's key, or send no certificate. Authentication
/// verifies the certificate, not the handshake (Go calls this `RequestClientCert`).
#[derive(Debug)]
struct AnyClientVerifier {
    provider: Arc<CryptoProvider>,
    authorities: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AnyClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.authorities
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use binnacle_authn::Authorities;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};

    use super::*;

    fn authority(name: &str) -> (String, TlsFiles) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).unwrap();
        let chain = vec![certificate.der().clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        (certificate.pem(), TlsFiles { chain, key })
    }

    #[test]
    fn hints_name_replaced_authorities() {
        let (pem, files) = authority("first");
        let clients = Arc::new(Authorities::from_pem("clients", pem.as_bytes()).unwrap());
        let proxies = Arc::new(Authorities::from_pem("proxies", authority("front").0.as_bytes()).unwrap());
        let settings = TlsSettings::default();
        let default = DefaultCertificate::Generated(files);
        let names = |authorities: &Arc<Authorities>| -> AuthorityNames {
            let authorities = authorities.clone();
            Arc::new(move || authorities.names())
        };
        let tls = Tls::new(&settings, default, Vec::new(), vec![names(&clients), names(&proxies)]).unwrap();
        let before = tls.configs();
        assert!(Arc::ptr_eq(&tls.configs(), &before));
        let hint_names = |configs: &ServerConfigs| -> Vec<String> {
            let names = configs.names.iter().flat_map(|names| names.iter());
            names.map(|name| String::from_utf8_lossy(name.as_ref()).into_owned()).collect()
        };
        clients.replace(authority("second").0.as_bytes()).unwrap();
        let after = tls.configs();
        assert!(!Arc::ptr_eq(&after.aes, &before.aes) && Arc::ptr_eq(&tls.configs(), &after));
        for (configs, name) in [(&before, "first"), (&after, "second")] {
            let hint_names = hint_names(configs);
            assert!(
                hint_names.len() == 2 && hint_names[0].contains(name) && hint_names[1].contains("front"),
                "{hint_names:?}"
            );
        }
    }
}
