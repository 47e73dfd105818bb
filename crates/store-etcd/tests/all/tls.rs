//! TLS to etcd, with certificates on both sides.

use std::path::PathBuf;

use binnacle_store::Store;
use binnacle_store_etcd::{EtcdStore, TlsPaths};
use binnacle_testkit::{Etcd, EtcdTls, TempDir};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::support::options;

struct Files {
    temp: TempDir,
    authority: Issuer<'static, KeyPair>,
}

impl Files {
    fn new() -> Self {
        let temp = TempDir::new();
        let mut params = CertificateParams::new(Vec::new()).expect("no name");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let _ = temp.file("ca.crt", &params.self_signed(&key).expect("a certificate").pem());
        Self { temp, authority: Issuer::new(params, key) }
    }

    /// A certificate for both ends, in files of this name.
    fn issue(&self, name: &str) -> (PathBuf, PathBuf) {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.authority).expect("a certificate");
        let certificate = self.temp.file(&format!("{name}.crt"), &certificate.pem());
        (certificate.into(), self.temp.file(&format!("{name}.key"), &key.serialize_pem()).into())
    }

    fn ca(&self) -> PathBuf {
        self.temp.path().join("ca.crt")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_show_certificates() {
    if !Etcd::available() {
        return;
    }
    let files = Files::new();
    let strangers = Files::new();
    let (certificate, key) = files.issue("etcd");
    let etcd = Etcd::secure(&EtcdTls { ca: &files.ca(), certificate: &certificate, key: &key });
    let paths = |ca: PathBuf, identity: Option<(PathBuf, PathBuf)>| {
        let (certificate, key) = identity.unzip();
        TlsPaths { ca: Some(ca), certificate, key }
    };
    let bare: Vec<String> =
        etcd.endpoints().iter().map(|endpoint| endpoint.trim_start_matches("https://").to_owned()).collect();
    // endpoints, files, whether they understand each other
    for (endpoints, tls, good) in [
        (etcd.endpoints(), paths(files.ca(), Some(files.issue("server"))), true),
        (bare, paths(files.ca(), Some(files.issue("server"))), true),
        (etcd.endpoints(), paths(files.ca(), None), false),
        (etcd.endpoints(), paths(files.ca(), Some(strangers.issue("stranger"))), false),
        (etcd.endpoints(), paths(strangers.ca(), Some(files.issue("server"))), false),
    ] {
        let mut options = options(endpoints);
        options.tls = tls.clone();
        let store = EtcdStore::new(&options).expect("the files are good");
        let answer = store.current_revision().await;
        assert_eq!(answer.is_ok(), good, "{tls:?}: {answer:?}");
    }
}
