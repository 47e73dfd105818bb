//! A test's own certificate authority, with its files.

use std::path::PathBuf;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};

use crate::TempDir;

/// Signs certificates for both ends of a connection on this machine. Dropping it removes its files.
pub struct Authority {
    temp: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    #[must_use]
    pub fn make() -> Self {
        let temp = TempDir::new();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let _ = temp.file("ca.crt", &params.self_signed(&key).unwrap().pem());
        Self { temp, issuer: Issuer::new(params, key) }
    }

    /// Issues a certificate with this common name and its key, in files of this name. It is valid for a server on this
    /// machine, and among the servers of a cluster.
    #[must_use]
    pub fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let names = ["127.0.0.1", "localhost", "kubernetes.default.svc"].map(str::to_owned).to_vec();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let certificate = self.temp.file(&format!("{name}.crt"), &certificate.pem());
        (certificate.into(), self.temp.file(&format!("{name}.key"), &key.serialize_pem()).into())
    }

    /// Returns the file of the authority's own certificate.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.temp.path().join("ca.crt")
    }
}
