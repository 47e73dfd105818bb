//! The certificates of nodes and of the administrator, by an authority of their own.

use std::sync::Arc;

use binnacle_testkit::https::Handshake;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsConnector;

pub(crate) struct NodeAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// The certificate of the authority, as PEM.
    pub(crate) certificate: String,
    /// The key of all nodes: a key each would only make the bench slower.
    key: KeyPair,
}

impl NodeAuthority {
    pub(crate) fn make() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), certificate, key: KeyPair::generate().unwrap() }
    }

    /// Returns the certificate of a user as PEM.
    fn issue(&self, user: &str, group: &str) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.distinguished_name.push(DnType::CommonName, user);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.signed_by(&self.key, &self.issuer).unwrap().pem()
    }

    /// Returns a server's certificate and key, as PEM.
    pub(crate) fn issue_to_server(&self) -> (String, String) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Returns the handshake of an administrator.
    pub(crate) fn administrator(&self) -> Handshake {
        Handshake::new(self.certificate.as_str())
            .identity(&self.issue("bench", "system:masters"), &self.key.serialize_pem())
    }

    /// Returns what connects to the server as a user.
    pub(crate) fn connector(&self, roots: &Arc<RootCertStore>, user: &str, group: &str) -> TlsConnector {
        let certificate = self.issue(user, group);
        let mut config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(Arc::clone(roots))
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(self.key.serialize_pem().as_bytes()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        // As the clients of kubelet, whose handshakes are always complete ones.
        config.resumption = rustls::client::Resumption::disabled();
        TlsConnector::from(Arc::new(config))
    }
}
