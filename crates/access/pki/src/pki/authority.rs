//! The certificate authorities of a server: the first one and its successors.

use rcgen::{BasicConstraints, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use time::{Duration, OffsetDateTime};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::parameters::{EARLIEST, params};
use super::{CertifiedKey, Files, PkiError, own_id, validity};

/// The time before the newest authority expires at which its successor is added: longer than the lifetime of any
/// certificate that it signs, so that clients with a certificate from that time trust both authorities.
const OVERLAP: Duration = Duration::days(400);
/// The time before it expires at which an authority stops signing, to allow for clock skew.
const SKEW: Duration = Duration::hours(1);
const LIFETIME: Duration = Duration::days(3650);
/// The maximum number of authorities, in case of a wrong clock.
const MAX_AUTHORITIES: usize = 16;

/// All authorities of a directory (`ca.crt`, `ca-2.crt` and so on), the oldest first. There is at least one.
pub(super) struct Authorities(Vec<Authority>);

/// A CA certificate with its key.
pub(super) struct Authority {
    pair: CertifiedKey,
    der: CertificateDer<'static>,
    pub(super) begins: OffsetDateTime,
    pub(super) ends: OffsetDateTime,
    /// The subject key identifier, by which its certificates reference it.
    pub(super) id: Option<Vec<u8>>,
}

impl Authorities {
    /// Reads the authorities. Creates the first one if there is none, and a successor if one is due.
    pub(super) fn open(files: &Files, now: OffsetDateTime) -> Result<Self, PkiError> {
        let mut all = Vec::new();
        for n in 1..=MAX_AUTHORITIES {
            match read(files, n)? {
                Some(authority) => all.push(authority),
                // The key is written before the certificate, so that a missing certificate was removed in order to get
                // a new one.
                None if n == 1 => all.push(create(files, n, now)?),
                None => break,
            }
        }
        let mut all = Self(all);
        if all.newest_ends() - OVERLAP <= now && all.0.len() < MAX_AUTHORITIES {
            let next = all.0.len() + 1;
            tracing::warn!(
                "the authority in {} ends on {} and the clock says {}: {} joins it; both are trusted from now on, so hand out \
                 admin.kubeconfig and pki/ca-bundle.crt again to whoever has a copy",
                files.path(&format!("{}.crt", name(all.0.len()))).display(),
                all.newest_ends().date(),
                now.date(),
                files.path(&format!("{}.crt", name(next))).display(),
            );
            all.0.push(create(files, next, now)?);
        }
        if let Some(issuer) = Some(all.issuer(now)).filter(|issuer| issuer.begins > now) {
            tracing::warn!(
                "the clock says {}, which is before the server's own authority begins on {}: clients with such a clock cannot \
                 trust it; nothing is replaced",
                now.date(),
                issuer.begins.date()
            );
        }
        Ok(all)
    }

    /// Returns the authority that signs: the oldest valid one, since most clients trust it. If none is valid yet, the
    /// first that has not expired.
    pub(super) fn issuer(&self, now: OffsetDateTime) -> &Authority {
        let valid = self.0.iter().find(|authority| authority.begins <= now && now < authority.usable_until());
        valid.or_else(|| self.0.iter().find(|authority| now < authority.usable_until())).unwrap_or(&self.0[0])
    }

    /// Returns the time at which the next authority starts to sign, or a successor must be created.
    pub(super) fn due(&self, now: OffsetDateTime) -> OffsetDateTime {
        let issuer = self.issuer(now);
        let next_change = if issuer.begins > now { issuer.begins } else { issuer.usable_until() };
        let successor = self.newest_ends() - OVERLAP;
        if successor > now { next_change.min(successor) } else { next_change }
    }

    pub(super) fn bundle(&self) -> String {
        self.0.iter().map(|authority| authority.pair.certificate.as_str()).collect()
    }

    fn newest_ends(&self) -> OffsetDateTime {
        self.0.iter().map(|authority| authority.ends).max().unwrap_or(OffsetDateTime::UNIX_EPOCH)
    }
}

impl Authority {
    pub(super) fn usable_until(&self) -> OffsetDateTime {
        self.ends - SKEW
    }

    pub(super) fn issuer(&self) -> Result<Issuer<'static, KeyPair>, PkiError> {
        Ok(Issuer::from_ca_cert_der(&self.der, KeyPair::from_pem(&self.pair.key)?)?)
    }

    pub(super) fn parse(pair: CertifiedKey, broken: impl Fn(String) -> PkiError) -> Result<Self, PkiError> {
        let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes())
            .map_err(|error| broken(error.to_string()))?
            .into_owned();
        let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| broken(error.to_string()))?;
        let ((begins, ends), id) = (validity(&parsed), own_id(&parsed));
        Ok(Self { pair, begins, ends, id, der })
    }
}

fn name(n: usize) -> String {
    if n == 1 { "ca".to_owned() } else { format!("ca-{n}") }
}

fn read(files: &Files, n: usize) -> Result<Option<Authority>, PkiError> {
    let files = files.pair(&name(n));
    match files.read()? {
        Some(pair) => Ok(Some(Authority::parse(pair, |error| files.broken(error))?)),
        None if files.has_certificate() => Err(files.keyless()),
        None => Ok(None),
    }
}

fn create(files: &Files, n: usize, now: OffsetDateTime) -> Result<Authority, PkiError> {
    let files = files.pair(&name(n));
    let pair = self_signed(now)?;
    files.write(&pair)?;
    Authority::parse(pair, |error| files.broken(error))
}

/// Creates an authority. All have the same name, since clients choose their certificate by the names that the server
/// sends.
pub(super) fn self_signed(now: OffsetDateTime) -> Result<CertifiedKey, PkiError> {
    let mut params = params("binnacle-ca", (now - SKEW).min(EARLIEST), now.max(EARLIEST) + LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok(CertifiedKey { certificate: certificate.pem(), key: key.serialize_pem() })
}
