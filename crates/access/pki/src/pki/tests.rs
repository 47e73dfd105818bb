//! Certificates at different times: the kept ones, the new ones, and clients that still trust them.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls_pki_types::{ServerName, UnixTime};
use tempfile::TempDir;

use super::*;
use crate::private_files::{Durability, create_private};

fn names(listen: [u8; 4]) -> SubjectAltNames {
    SubjectAltNames::new(listen.into(), [10, 0, 0, 1].into())
}

struct Place {
    _base: TempDir,
    files: Files,
}

impl Place {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("pki");
        create_private(&directory).unwrap();
        let files = Files::new(directory, Durability::Passing);
        Self { _base: base, files }
    }

    fn open(&self, now: OffsetDateTime) -> Pki {
        Pki::open(&self.files, &names([127, 0, 0, 1]), now).unwrap()
    }

    fn error(&self) -> String {
        Pki::open(&self.files, &names([127, 0, 0, 1]), usual()).unwrap_err().to_string()
    }

    fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(self.files.path("")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        files.sort();
        files
    }
}

/// Returns a time at which nothing is due.
fn usual() -> OffsetDateTime {
    issuance::EARLIEST + Duration::days(200)
}

/// Returns true if a client with this clock and these trusted authorities accepts the server.
fn accepts(trusted: &str, pki: &Pki, at: OffsetDateTime) -> bool {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let since = std::time::Duration::from_secs(at.unix_timestamp().try_into().unwrap());
    let chain = pki.serving_certificate().unwrap().chain;
    let name = ServerName::try_from("kubernetes.default.svc").unwrap();
    verifier.verify_server_cert(&chain[0], &[], &name, &[], UnixTime::since_unix_epoch(since)).is_ok()
}

fn count(bundle: &str) -> usize {
    bundle.matches("BEGIN CERTIFICATE").count()
}

#[test]
fn reuses_files_and_creates_missing_ones() {
    let place = Place::new();
    let open = |listen| Pki::open(&place.files, &names(listen), usual()).unwrap();
    let first = open([0, 0, 0, 0]);
    assert_eq!(open([127, 0, 0, 1]), first);

    // A new address needs only a new serving certificate.
    let moved = open([192, 0, 2, 1]);
    assert_eq!((&moved.bundle, &moved.admin), (&first.bundle, &first.admin));
    assert_ne!(moved.serving, first.serving);
    assert!(first.has_signed(&moved.serving.certificate) && first.has_signed(&first.admin.certificate));

    // A new authority, created after the first one was removed, signs all certificates again.
    fs::remove_file(place.files.path("ca.crt")).unwrap();
    let other = open([127, 0, 0, 1]);
    assert!(!first.has_signed(&other.serving.certificate) && !first.has_signed(&other.admin.certificate));
    assert_ne!(other.bundle, first.bundle);
    assert_eq!(other.service_account, first.service_account);
    assert_eq!(open([127, 0, 0, 1]), other);

    let mut files = [
        "ca.crt",
        "ca.key",
        "ca-bundle.crt",
        "apiserver.crt",
        "apiserver.key",
        "admin.crt",
        "admin.key",
        "sa.key",
        "sa.pub",
    ];
    files.sort_unstable();
    let present: Vec<_> = place.contents().into_iter().map(|(path, _)| path).collect();
    assert_eq!(present, files.map(|name| place.files.path(name)));
    // As clients know keys of this kind.
    for name in ["apiserver.key", "admin.key"] {
        let pem = fs::read_to_string(place.files.path(name)).unwrap();
        assert!(pem.starts_with("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI"), "{name}");
    }
}

#[test]
fn broken_files_stop_the_start() {
    for file in ["ca.crt", "ca.key", "apiserver.crt", "admin.key", "sa.key"] {
        let place = Place::new();
        place.open(usual());
        fs::write(place.files.path(file), "broken").unwrap();
        let error = place.error();
        assert!(error.starts_with(&format!("cannot use {}: ", place.files.path(file).display())), "{error}");
    }
    let place = Place::new();
    place.open(usual());
    fs::copy(place.files.path("admin.key"), place.files.path("apiserver.key")).unwrap();
    assert!(place.error().contains("it does not belong to the key beside it"));
    fs::remove_file(place.files.path("ca.key")).unwrap();
    let (error, before) = (place.error(), place.contents());
    assert!(error.contains("put the key back"), "{error}");
    assert_eq!(place.contents(), before);
}

/// The server starts with a wrong clock, before or after a start with a correct one.
#[test]
fn wrong_clocks_cost_nothing() {
    let right = usual();
    for (wrong, what) in [
        (OffsetDateTime::UNIX_EPOCH + Duration::days(1), "no battery"),
        (issuance::EARLIEST - Duration::days(1000), "some years ago"),
        (right - Duration::days(20), "weeks ago"),
        (right + Duration::days(340), "nearly a year ahead"),
        (right + Duration::days(2000), "years ahead"),
        (right + Duration::days(3640), "at the authority's end"),
        (right + Duration::days(9000), "decades ahead"),
    ] {
        // First wrong, then correct: nothing is created again, and all clients accept it.
        let place = Place::new();
        let first = place.open(wrong);
        let then = place.open(right);
        assert!(then.bundle.starts_with(&first.bundle), "{what}");
        assert!(accepts(&first.bundle, &then, right), "{what}");
        assert_eq!(then.service_account, first.service_account);

        // First correct, then wrong, then correct again: clients that trust the first authority still accept it.
        let place = Place::new();
        let first = place.open(right);
        let astray = place.open(wrong);
        assert!(astray.bundle.starts_with(&first.bundle), "{what}");
        let then = place.open(right);
        assert!(then.bundle.starts_with(&first.bundle), "{what}");
        assert!(accepts(&first.bundle, &then, right), "{what}");
        if wrong < right {
            assert_eq!((&astray.serving, &then.serving), (&first.serving, &first.serving), "{what}");
        }
    }
}

#[test]
fn an_authority_near_its_end_is_joined_by_another() {
    let place = Place::new();
    let begin = usual();
    let first = place.open(begin);
    let day = |n| begin + Duration::days(n);
    assert_eq!(count(&place.open(day(3240)).bundle), 1);
    let old = place.open(day(3240));

    // Both are trusted, and clients that know only the first one accept the server's certificate.
    let joined = place.open(day(3260));
    assert_eq!(count(&joined.bundle), 2);
    assert!(joined.bundle.starts_with(&first.bundle));
    assert_eq!(joined.serving, old.serving);
    for n in [3260, 3500, 3600, 3649] {
        let pki = place.open(day(n));
        assert_eq!(pki.bundle, joined.bundle);
        assert!(accepts(&first.bundle, &pki, day(n)) && accepts(&joined.bundle, &pki, day(n)), "{n}");
        assert!(pki.due > day(n) && pki.due <= day(3650), "{n}: {}", pki.due);
    }
    // After its end the second one signs: clients that fetched the bundle in the overlap accept the server.
    for n in [3650, 3651, 5000, 6800] {
        let pki = place.open(day(n));
        assert!(pki.bundle.starts_with(&joined.bundle));
        assert!(accepts(&joined.bundle, &pki, day(n)), "{n}");
        assert!(joined.has_signed(&pki.admin.certificate));
    }
    assert_eq!(count(&place.open(day(6600)).bundle), 3);
}

/// Certificates are renewed a month before their end.
#[test]
fn certificates_are_renewed_before_they_end() {
    let place = Place::new();
    let first = place.open(usual());
    assert_eq!(first.due, usual() + Duration::days(335));
    assert_eq!(place.open(first.due - Duration::SECOND), first);
    let second = place.open(first.due);
    assert_eq!(second.bundle, first.bundle);
    assert_ne!((&second.serving, &second.admin), (&first.serving, &first.admin));
    assert!(second.due > first.due + Duration::days(300));
    assert!(accepts(&first.bundle, &second, first.due) && accepts(&first.bundle, &first, first.due));
}
