//! Certificates at different times: which ones are reused and renewed, and whether clients still trust them.

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

struct PkiDirectory {
    _base: TempDir,
    files: Files,
}

impl PkiDirectory {
    fn new() -> Self {
        let base = tempfile::tempdir().unwrap();
        let directory = base.path().join("pki");
        create_private(&directory).unwrap();
        let files = Files::new(directory, Durability::Ephemeral);
        Self { _base: base, files }
    }

    fn open(&self, now: OffsetDateTime) -> Pki {
        Pki::open(&self.files, &names([127, 0, 0, 1]), now).unwrap()
    }

    fn error(&self) -> String {
        Pki::open(&self.files, &names([127, 0, 0, 1]), quiet_time()).unwrap_err().to_string()
    }

    fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let entries = fs::read_dir(self.files.path("")).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries.map(|path| (path.clone(), fs::read(path).unwrap())).collect();
        files.sort();
        files
    }
}

/// Returns a time at which nothing is due for renewal.
fn quiet_time() -> OffsetDateTime {
    parameters::EARLIEST + Duration::days(200)
}

/// Returns true if a client with this clock and these trusted authorities accepts the server.
fn accepts(trusted: &str, pki: &Pki, at: OffsetDateTime) -> bool {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(binnacle_crypto::tls::provider());
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
    let pki_dir = PkiDirectory::new();
    let open = |listen| Pki::open(&pki_dir.files, &names(listen), quiet_time()).unwrap();
    let first = open([0, 0, 0, 0]);
    assert_eq!(open([127, 0, 0, 1]), first);

    // A new address needs only a new serving certificate.
    let moved = open([192, 0, 2, 1]);
    assert_eq!((&moved.bundle, &moved.admin), (&first.bundle, &first.admin));
    assert_ne!(moved.serving, first.serving);
    assert!(first.has_signed(&moved.serving.certificate) && first.has_signed(&first.admin.certificate));

    // A new authority, created after the first one was removed, signs all certificates again.
    fs::remove_file(pki_dir.files.path("ca.crt")).unwrap();
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
    let present: Vec<_> = pki_dir.contents().into_iter().map(|(path, _)| path).collect();
    assert_eq!(present, files.map(|name| pki_dir.files.path(name)));
    // The format of client-go.
    for name in ["apiserver.key", "admin.key"] {
        let pem = fs::read_to_string(pki_dir.files.path(name)).unwrap();
        assert!(pem.starts_with("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEI"), "{name}");
    }
}

#[test]
fn rejects_broken_files() {
    for file in ["ca.crt", "ca.key", "apiserver.crt", "admin.key", "sa.key"] {
        let pki_dir = PkiDirectory::new();
        pki_dir.open(quiet_time());
        fs::write(pki_dir.files.path(file), "broken").unwrap();
        let error = pki_dir.error();
        assert!(error.starts_with(&format!("cannot use {}: ", pki_dir.files.path(file).display())), "{error}");
    }
    let pki_dir = PkiDirectory::new();
    pki_dir.open(quiet_time());
    fs::copy(pki_dir.files.path("admin.key"), pki_dir.files.path("apiserver.key")).unwrap();
    assert!(pki_dir.error().contains("it does not belong to the key beside it"));
    fs::remove_file(pki_dir.files.path("ca.key")).unwrap();
    let (error, before) = (pki_dir.error(), pki_dir.contents());
    assert!(error.contains("put the key back"), "{error}");
    assert_eq!(pki_dir.contents(), before);
}

/// The server starts with a wrong clock, before or after a start with a correct one.
#[test]
fn tolerates_wrong_clocks() {
    let right = quiet_time();
    for (wrong, description) in [
        (OffsetDateTime::UNIX_EPOCH + Duration::days(1), "no battery"),
        (parameters::EARLIEST - Duration::days(1000), "some years ago"),
        (right - Duration::days(20), "weeks ago"),
        (right + Duration::days(340), "nearly a year ahead"),
        (right + Duration::days(2000), "years ahead"),
        (right + Duration::days(3640), "at the authority's end"),
        (right + Duration::days(9000), "decades ahead"),
    ] {
        // First wrong, then correct: nothing is issued again, and all clients accept it.
        let pki_dir = PkiDirectory::new();
        let first = pki_dir.open(wrong);
        let correct_pki = pki_dir.open(right);
        assert!(correct_pki.bundle.starts_with(&first.bundle), "{description}");
        assert!(accepts(&first.bundle, &correct_pki, right), "{description}");
        assert_eq!(correct_pki.service_account, first.service_account);

        // First correct, then wrong, then correct again: clients that trust the first authority still accept it.
        let pki_dir = PkiDirectory::new();
        let first = pki_dir.open(right);
        let wrong_pki = pki_dir.open(wrong);
        assert!(wrong_pki.bundle.starts_with(&first.bundle), "{description}");
        let correct_pki = pki_dir.open(right);
        assert!(correct_pki.bundle.starts_with(&first.bundle), "{description}");
        assert!(accepts(&first.bundle, &correct_pki, right), "{description}");
        if wrong < right {
            assert_eq!((&wrong_pki.serving, &correct_pki.serving), (&first.serving, &first.serving), "{description}");
        }
    }
}

#[test]
fn adds_a_successor_before_an_authority_expires() {
    let pki_dir = PkiDirectory::new();
    let begin = quiet_time();
    let first = pki_dir.open(begin);
    let day = |n| begin + Duration::days(n);
    assert_eq!(count(&pki_dir.open(day(3240)).bundle), 1);
    let old = pki_dir.open(day(3240));

    // Both are trusted, and clients that only trust the first one accept the server's certificate.
    let joined = pki_dir.open(day(3260));
    assert_eq!(count(&joined.bundle), 2);
    assert!(joined.bundle.starts_with(&first.bundle));
    assert_eq!(joined.serving, old.serving);
    for n in [3260, 3500, 3600, 3649] {
        let pki = pki_dir.open(day(n));
        assert_eq!(pki.bundle, joined.bundle);
        assert!(accepts(&first.bundle, &pki, day(n)) && accepts(&joined.bundle, &pki, day(n)), "{n}");
        assert!(pki.due > day(n) && pki.due <= day(3650), "{n}: {}", pki.due);
    }
    // After it expires the second one signs: clients that fetched the bundle during the overlap accept the server.
    for n in [3650, 3651, 5000, 6800] {
        let pki = pki_dir.open(day(n));
        assert!(pki.bundle.starts_with(&joined.bundle));
        assert!(accepts(&joined.bundle, &pki, day(n)), "{n}");
        assert!(joined.has_signed(&pki.admin.certificate));
    }
    assert_eq!(count(&pki_dir.open(day(6600)).bundle), 3);
}

/// Certificates are renewed a month before they expire.
#[test]
fn renews_certificates_before_they_expire() {
    let pki_dir = PkiDirectory::new();
    let first = pki_dir.open(quiet_time());
    assert_eq!(first.due, quiet_time() + Duration::days(335));
    assert_eq!(pki_dir.open(first.due - Duration::SECOND), first);
    let second = pki_dir.open(first.due);
    assert_eq!(second.bundle, first.bundle);
    assert_ne!((&second.serving, &second.admin), (&first.serving, &first.admin));
    assert!(second.due > first.due + Duration::days(300));
    assert!(accepts(&first.bundle, &second, first.due) && accepts(&first.bundle, &first, first.due));
}
