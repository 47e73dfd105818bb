//! Renewal of expired certificates, and of authorities that expire.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Server, TempDir, admin, wait_until};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The directory of a server's own CA.
struct Pki(PathBuf);

impl Pki {
    fn of(data: &str) -> Self {
        Self(Path::new(data).join("pki"))
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn issuer(&self, name: &str) -> Issuer<'static, KeyPair> {
        let key = KeyPair::from_pem(&self.read(&format!("{name}.key"))).unwrap();
        Issuer::from_ca_cert_pem(&self.read(&format!("{name}.crt")), key).unwrap()
    }

    /// Replaces a certificate by one for the same subject with another end.
    fn shorten(&self, name: &str, ends: OffsetDateTime) {
        let der = CertificateDer::from_pem_slice(self.read(&format!("{name}.crt")).as_bytes()).unwrap();
        let (_, old) = X509Certificate::from_der(&der).unwrap();
        let mut params = leaf(ends);
        if let Some(names) = old.subject_alternative_name().unwrap() {
            for name in &names.value.general_names {
                params.subject_alt_names.push(match name {
                    GeneralName::DNSName(name) => SanType::DnsName((*name).try_into().unwrap()),
                    GeneralName::IPAddress([a, b, c, d]) => SanType::IpAddress([*a, *b, *c, *d].into()),
                    GeneralName::IPAddress(bytes) => SanType::IpAddress(<[u8; 16]>::try_from(*bytes).unwrap().into()),
                    other => panic!("{other}"),
                });
            }
        }
        for (kind, attributes) in [
            (DnType::CommonName, old.subject().iter_common_name().next()),
            (DnType::OrganizationName, old.subject().iter_organization().next()),
        ] {
            if let Some(attribute) = attributes {
                params.distinguished_name.push(kind, attribute.as_str().unwrap());
            }
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer("ca")).unwrap();
        fs::write(self.0.join(format!("{name}.key")), key.serialize_pem()).unwrap();
        fs::write(self.0.join(format!("{name}.crt")), certificate.pem()).unwrap();
    }
}

fn leaf(ends: OffsetDateTime) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = OffsetDateTime::now_utc() - Duration::hours(1);
    params.not_after = ends;
    params.use_authority_key_identifier_extension = true;
    params
}

/// Returns the PEM text under a name in a kubeconfig.
fn in_kubeconfig(server: &Server, name: &str) -> String {
    let text = fs::read_to_string(server.kubeconfig()).unwrap();
    let encoded = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": ")).unwrap();
    String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn renews_certificates_while_running() {
    let temp = TempDir::new();
    let data = temp.join("data");
    drop(Server::start(&["--data-dir", &data]));
    let pki = Pki::of(&data);
    // Certificates are renewed 30 days before their end. On a slow machine this may happen during the start.
    let mut started = None;
    for seconds in [5, 20, 60] {
        let due = OffsetDateTime::now_utc() + Duration::seconds(seconds);
        ["apiserver", "admin"].iter().for_each(|name| pki.shorten(name, due + Duration::days(30)));
        let old = ["apiserver.crt", "admin.crt"].map(|name| pki.read(name));
        let server = Server::start(&["--data-dir", &data]);
        if old[0] == pki.read("apiserver.crt") && old[1] == in_kubeconfig(&server, "client-certificate-data") {
            started = Some((server, old));
            break;
        }
    }
    let (server, [old_serving, old_admin]) = started.unwrap();
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec();
    let old_handshake = server.admin();
    let mut open = server.connect(&old_handshake).await;

    let new = wait_until("the new certificate to be shown", async || {
        let client = Client::connect(server.address, &old_handshake).await.unwrap();
        (client.certificate != der(&old_serving)).then_some(client.certificate)
    })
    .await;
    assert_eq!(new, der(&pki.read("apiserver.crt")));
    let certificate = in_kubeconfig(&server, "client-certificate-data");
    assert_ne!(certificate, old_admin);
    assert_eq!(certificate, pki.read("admin.crt"));
    assert_eq!(fs::metadata(server.kubeconfig()).unwrap().permissions().mode() & 0o777, 0o600);
    for handshake in [&old_handshake, &server.admin()] {
        assert_eq!(server.connect(handshake).await.get("/metrics").await.unwrap().status, 200);
    }
    assert_eq!(open.get("/metrics").await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn adds_second_authority_before_first_expires() {
    let temp = TempDir::new();
    let data = temp.join("data");
    drop(Server::start(&["--data-dir", &data]));
    let pki = Pki::of(&data);
    let key = KeyPair::from_pem(&pki.read("ca.key")).unwrap();
    let mut params = leaf(OffsetDateTime::now_utc() + Duration::days(100));
    params.distinguished_name.push(DnType::CommonName, "binnacle-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let old = params.self_signed(&key).unwrap().pem();
    fs::write(pki.0.join("ca.crt"), &old).unwrap();

    let server = Server::start(&["--data-dir", &data]);
    assert_eq!(pki.read("ca.crt"), old);
    let second = pki.read("ca-2.crt");
    let both = format!("{old}{second}");
    assert_eq!(in_kubeconfig(&server, "certificate-authority-data"), both);
    assert_eq!(pki.read("ca-bundle.crt"), both);
    // A client that trusts only the first CA can connect, and a certificate of the second is accepted.
    let mut handshake = admin(data.as_ref());
    handshake.authority.clone_from(&old);
    let mut client = server.connect(&handshake).await;
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let map: serde_json::Value = wait_until("others to be told of both", async || {
        let answer = client.get(path).await.unwrap();
        (answer.status == 200).then(|| serde_json::from_str(&answer.body).unwrap())
    })
    .await;
    let certificate = map["data"]["client-ca-file"].as_str().unwrap();
    assert!(certificate.contains(old.trim()) && certificate.contains(second.trim()), "{certificate}");
    let mut params = leaf(OffsetDateTime::now_utc() + Duration::days(1));
    params.distinguished_name.push(DnType::CommonName, "somebody");
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, &pki.issuer("ca-2")).unwrap().pem();
    let handshake = Handshake::new(&handshake.authority).identity(&certificate, &key.serialize_pem());
    assert_eq!(server.connect(&handshake).await.get("/metrics").await.unwrap().status, 200);
}

/// A certificate that an earlier start wrote into `--cert-dir` counts as the server's own, not the operator's.
#[tokio::test(flavor = "multi_thread")]
async fn renews_certificate_in_cert_dir() {
    let temp = TempDir::new();
    let (data, certificates) = (temp.join("data"), temp.join("certificates"));
    let arguments = ["--data-dir", &data, "--cert-dir", &certificates];
    drop(Server::start(&arguments));
    let pki = Pki::of(&data);
    pki.shorten("apiserver", OffsetDateTime::now_utc() + Duration::days(3));
    let copy = |name: &str| fs::copy(pki.0.join(name), Path::new(&certificates).join(name)).unwrap();
    ["apiserver.key", "apiserver.crt"].iter().for_each(|name| assert!(copy(name) > 0));
    let old = pki.read("apiserver.crt");
    let server = Server::start(&arguments);
    let shown = fs::read_to_string(Path::new(&certificates).join("apiserver.crt")).unwrap();
    assert_ne!(shown, old);
    assert_eq!(shown, pki.read("apiserver.crt"));
    assert_eq!(in_kubeconfig(&server, "certificate-authority-data"), pki.read("ca-bundle.crt"));
    assert_eq!(server.client().await.get("/metrics").await.unwrap().status, 200);
}
