//! Client certificates of users and of proxies, and proxy headers from clients without a proxy's certificate.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_authn::{Authenticator, Authorities, Credentials, FrontProxy, FrontProxyOptions, Union, X509};
use binnacle_request::ConnectionInfo;
use http::{HeaderMap, HeaderName};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key).unwrap();
    (Issuer::new(params, key), certificate.pem())
}

fn leaf(
    issuer: &Issuer<'static, KeyPair>,
    subject: &[(DnType, &str)],
    change: impl Fn(&mut CertificateParams),
) -> ConnectionInfo {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in subject {
        params.distinguished_name.push(kind.clone(), *value);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    change(&mut params);
    let certificate = params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap();
    ConnectionInfo::new(([127, 0, 0, 1], 1).into(), vec![certificate.der().clone()], None)
}

fn cn(name: &str) -> (DnType, &str) {
    (DnType::CommonName, name)
}

async fn authenticate(
    authenticator: &dyn Authenticator,
    connection: &ConnectionInfo,
    sent: &[(&str, &str)],
) -> Result<String, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in sent {
        headers.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
    }
    let credentials = Credentials { headers: &headers, connection, path: "/", audiences: &[] };
    match authenticator.authenticate(credentials).await {
        Ok(None) => Ok("nobody".to_owned()),
        Ok(Some(known)) => {
            let user = &known.user;
            let extra = user.extra.iter().filter(|(key, _)| *key != CREDENTIAL_ID);
            let extra: Vec<String> = extra.map(|(key, values)| format!(" {key}={}", values.join("+"))).collect();
            Ok(format!("{} {} {}{}", user.name, user.uid, user.groups.join(","), extra.concat()))
        }
        Err(error) => Err(error.0),
    }
}

/// The remaining lifetime of each request's certificate is recorded, whether or not an authority signed it.
#[tokio::test]
async fn observes_the_lifetime_of_each_certificate() {
    let (issuer, pem) = authority("ca");
    let (stranger, _) = authority("ca");
    let registry = binnacle_metrics::Registry::new();
    let authorities = Arc::new(Authorities::from_pem("ca", pem.as_bytes()).unwrap());
    let x509 = X509::new(authorities).with_metrics(&registry).unwrap();
    let ends = |time: SystemTime| move |params: &mut CertificateParams| params.not_after = time.into();
    let in_hours = |hours: u64| SystemTime::now() + Duration::from_secs(hours * 3600);
    for (issuer, not_after, known) in
        [(&issuer, in_hours(5), true), (&issuer, in_hours(24 * 3), true), (&stranger, in_hours(24 * 3), false)]
    {
        let connection = leaf(issuer, &[cn("me")], ends(not_after));
        assert_eq!(authenticate(&x509, &connection, &[]).await.is_ok(), known);
    }
    let families = registry.gather();
    assert_eq!(families[0].name(), "apiserver_client_certificate_expiration_seconds");
    let counted = families[0].get_metric()[0].get_histogram();
    let up_to = |bound: f64| counted.get_bucket().iter().find(|b| b.upper_bound() == bound).unwrap().cumulative_count();
    assert_eq!((counted.get_sample_count(), up_to(7200.0), up_to(21600.0), up_to(345_600.0)), (3, 0, 1, 3));
}

fn x509(pem: &str) -> (X509, Arc<Authorities>) {
    let authorities = Arc::new(Authorities::from_pem("ca", pem.as_bytes()).unwrap());
    (X509::new(authorities.clone()), authorities)
}

#[tokio::test]
async fn subject_names_user_groups_and_uid() {
    let (issuer, pem) = authority("ca");
    let (stranger, strange_pem) = authority("ca");
    let (x509, authorities) = x509(&pem);
    let organization = |name| (DnType::OrganizationName, name);
    let uid = |value| (DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), value);
    let admin = leaf(&issuer, &[cn("admin"), organization("system:masters")], |_| {});
    for (connection, want) in [
        (&admin, Ok("admin  system:masters,system:authenticated")),
        (&admin, Ok("admin  system:masters,system:authenticated")),
        (&leaf(&issuer, &[cn("a"), uid("the-uid")], |_| {}), Ok("a the-uid system:authenticated")),
        (&leaf(&issuer, &[cn("a"), uid("")], |_| {}), Err("UID cannot be an empty string")),
        (&leaf(&issuer, &[organization("o")], |_| {}), Ok("nobody")),
        (&ConnectionInfo::default(), Ok("nobody")),
    ] {
        let got = authenticate(&x509, connection, &[]).await;
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned));
    }
    let without_uids = X509::new(authorities.clone()).reading_uids(false);
    for value in ["the-uid", ""] {
        let connection = leaf(&issuer, &[cn("a"), uid(value)], |_| {});
        assert_eq!(authenticate(&without_uids, &connection, &[]).await, Ok("a  system:authenticated".to_owned()));
    }
    for (name, connection) in [
        ("a stranger's", leaf(&stranger, &[cn("admin")], |_| {})),
        (
            "expired",
            leaf(&issuer, &[cn("admin")], |params| {
                params.not_before = date_time_ymd(2000, 1, 1);
                params.not_after = date_time_ymd(2001, 1, 1);
            }),
        ),
        (
            "for servers",
            leaf(&issuer, &[cn("admin")], |params| {
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
            }),
        ),
    ] {
        for _ in 0..2 {
            let error = authenticate(&x509, &connection, &[]).await.unwrap_err();
            assert!(error.starts_with("verifying certificate SN="), "{name}: {error}");
        }
    }
    // The cached results of a connection are not used once the authorities are replaced.
    authorities.replace(strange_pem.as_bytes()).unwrap();
    assert!(authenticate(&x509, &admin, &[]).await.is_err());
    assert!(authorities.replace(b"nothing").is_err());
    authorities.replace(pem.as_bytes()).unwrap();
    assert!(authenticate(&x509, &admin, &[]).await.is_ok());
}

#[test]
fn rejects_bundles_without_certificates() {
    let empty = "error loading CA bundle for \"ca\": data does not contain any valid RSA or ECDSA certificates";
    for (pem, want) in [("", empty), ("-----BEGIN CERTIFICATE-----\nAAAA\n", "error loading CA bundle for \"ca\": ")] {
        let error = Authorities::from_pem("ca", pem.as_bytes()).err().unwrap().to_string();
        assert!(error.starts_with(want), "{error}");
    }
}

#[tokio::test]
async fn trusts_headers_only_from_allowed_proxies() {
    let (people, people_pem) = authority("people");
    let (proxies, proxies_pem) = authority("proxies");
    let options = FrontProxyOptions {
        allowed_names: vec!["proxy".to_owned()],
        username_headers: vec!["x-remote-user".to_owned(), "x-other-user".to_owned()],
        uid_headers: vec!["x-remote-uid".to_owned()],
        group_headers: vec!["x-remote-group".to_owned()],
        extra_prefixes: vec!["x-remote-extra-".to_owned()],
    };
    let trusted = Arc::new(Authorities::from_pem("proxies", proxies_pem.as_bytes()).unwrap());
    let proxy = FrontProxy::new(trusted, options, Vec::new());
    let both = Union::new(vec![Box::new(proxy), Box::new(x509(&people_pem).0)]);
    let proxy = leaf(&proxies, &[cn("proxy")], |_| {});
    let other_proxy = leaf(&proxies, &[cn("other")], |_| {});
    let person = leaf(&people, &[cn("jane")], |_| {});
    let root = ("X-Remote-User", "root");
    for (name, connection, sent, want) in [
        ("a proxy", &proxy, vec![root], Ok("root  system:authenticated")),
        (
            "everything",
            &proxy,
            vec![
                ("x-REMOTE-user", "root"),
                ("x-remote-user", "second"),
                ("X-Remote-Uid", "7"),
                ("x-remote-group", "a"),
                ("X-Remote-Group", "b"),
                ("x-remote-group", ""),
                ("X-Remote-Extra-Scopes", "one"),
                ("x-remote-extra-scopes", "two"),
                ("X-Remote-Extra-A%2fB", "three"),
                ("X-Remote-Extra-100%", "four"),
            ],
            Ok("root 7 a,b,system:authenticated 100%=four a/b=three scopes=one+two"),
        ),
        ("the second header", &proxy, vec![("X-Other-User", "root")], Ok("root  system:authenticated")),
        ("an empty name", &proxy, vec![("X-Remote-User", "")], Err("verifying certificate SN=")),
        (
            "a proxy of another name",
            &other_proxy,
            vec![root],
            Err("[x509: subject with cn=other is not in the allowed list, "),
        ),
        ("a person", &person, vec![root], Ok("jane  system:authenticated")),
        ("somebody", &ConnectionInfo::default(), vec![root], Ok("nobody")),
    ] {
        for _ in 0..2 {
            match (authenticate(&both, connection, &sent).await, want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{name}"),
                (Err(got), Err(want)) => assert!(got.starts_with(want), "{name}: {got}"),
                (got, _) => panic!("{name}: {got:?}"),
            }
        }
    }
}

/// Certificates without extensions, as `openssl x509 -req` creates them.
#[tokio::test]
async fn accepts_certificates_of_version_1() {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    const AUTHORITY: &str = include_str!("../../../network/client/test_data/first_version/ca.crt");
    const USER: &str = include_str!("../../../network/client/test_data/first_version/user.crt");
    let certificate = CertificateDer::from_pem_slice(USER.as_bytes()).unwrap();
    let connection = || ConnectionInfo::new(([127, 0, 0, 1], 1).into(), vec![certificate.clone()], None);
    let known = X509::new(Arc::new(Authorities::from_pem("ca", AUTHORITY.as_bytes()).unwrap()));
    assert_eq!(authenticate(&known, &connection(), &[]).await, Ok("ann  devs,system:authenticated".to_owned()));
    let (_, stranger) = authority("clients");
    let strange = X509::new(Arc::new(Authorities::from_pem("ca", stranger.as_bytes()).unwrap()));
    let refused = authenticate(&strange, &connection(), &[]).await.unwrap_err();
    assert!(refused.ends_with("x509: certificate signed by unknown authority"), "{refused}");
}
