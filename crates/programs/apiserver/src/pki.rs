//! The server's own certificates and keys: created at the first start, reused later, renewed while it runs.
//!
//! Authorities sign two certificates: the serving one and the administrator's. An authority is never replaced: a
//! successor is added long before its end, and both are trusted from then on. A file that exists but cannot be read
//! stops the start: replacing a key silently would lock out all clients that trust it.
//!
//! Everything here depends only on the files and the time. A wrong clock when a certificate is created does no harm
//! after it has been corrected: see [`making`].

mod authority;
mod files;
mod making;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use binnacle_server::TlsFiles;
use rcgen::KeyPair;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use time::{Duration, OffsetDateTime};
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

use authority::{Authorities, Authority};
pub(crate) use files::Files;

/// A source of the time; tests have their own clocks.
pub(crate) type Clock = Arc<dyn Fn() -> OffsetDateTime + Send + Sync>;

/// The remaining life of a certificate at which it is renewed.
const RENEW_BEFORE: Duration = Duration::days(30);
/// The interval at which files are checked when no later time is known.
const SOON: Duration = Duration::minutes(1);

/// The names and addresses in the serving certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) dns: Vec<String>,
    pub(crate) ips: Vec<IpAddr>,
}

/// A certificate with its key, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// All certificates and keys that the server creates for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pki {
    /// The certificates of all authorities, concatenated, for clients to trust.
    pub(crate) bundle: String,
    pub(crate) serving: Pair,
    pub(crate) admin: Pair,
    /// The key that signs service account tokens, as PEM.
    pub(crate) service_account: String,
    /// The earliest time at which one of these must be renewed, if the clock is not changed.
    pub(crate) due: OffsetDateTime,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiError {
    #[error("cannot use {path}: {error}")]
    File { path: String, error: io::Error },
    #[error("cannot use {path}: {error}; remove it to have a new one made")]
    Broken { path: String, error: String },
    #[error(
        "{certificate} is there, but not its key {key}: put the key back, or remove the certificate to have a new authority \
         made, which nobody trusts yet"
    )]
    Keyless { certificate: String, key: String },
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("cannot write a key: {0}")]
    Key(#[from] sec1::Error),
}

/// Returns the clock of this machine.
pub(crate) fn system_clock() -> Clock {
    Arc::new(OffsetDateTime::now_utc)
}

impl Names {
    /// Returns the names of a cluster's API server, and those of this machine.
    pub(crate) fn new(listen: IpAddr, service: IpAddr) -> Self {
        let cluster =
            ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];
        let mut dns: Vec<String> = std::iter::once("localhost").chain(cluster).map(str::to_owned).collect();
        dns.extend(hostname().filter(|name| !dns.contains(name)));
        let mut ips = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), service];
        let listening = if listen.is_unspecified() { interface_addresses(listen) } else { vec![listen] };
        let others: Vec<IpAddr> = listening.into_iter().filter(|ip| !ips.contains(ip)).collect();
        ips.extend(others);
        Self { dns, ips }
    }

    /// Adds the external name and address from the settings.
    pub(crate) fn add(&mut self, host: Option<&str>, ip: Option<IpAddr>) {
        // The host may have a port, and may be an address.
        let host = host.map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name));
        let ip = ip.into_iter().chain(host.and_then(|host| host.parse().ok()));
        let dns = host.filter(|host| host.parse::<IpAddr>().is_err()).map(str::to_owned);
        self.dns.extend(dns.filter(|name| !self.dns.contains(name)));
        for ip in ip {
            if !self.ips.contains(&ip) {
                self.ips.push(ip);
            }
        }
    }

    fn covered_by(&self, certificate: &X509Certificate<'_>) -> bool {
        let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
        let has = |wanted: &dyn Fn(&GeneralName<'_>) -> bool| names.value.general_names.iter().any(wanted);
        self.dns.iter().all(|dns| has(&|name| matches!(name, GeneralName::DNSName(name) if name == dns)))
            && self.ips.iter().all(|ip| {
                let octets = match ip {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                };
                has(&|name| matches!(name, GeneralName::IPAddress(bytes) if *bytes == octets))
            })
    }
}

/// The most addresses of interfaces in a certificate. A node may have thousands, e.g. those of services.
const MAX_INTERFACE_ADDRESSES: usize = 32;

/// Returns the addresses at which a server that listens on `any` address can be reached, except link-local ones. A
/// socket for any address of IPv6 accepts IPv4, too.
fn interface_addresses(any: IpAddr) -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::warn!(%error, "the serving certificate has no addresses of interfaces");
        Vec::new()
    });
    let addresses = interfaces.into_iter().filter(|interface| !interface.is_link_local());
    let reached = addresses.map(|interface| interface.ip()).filter(|ip| ip.is_ipv4() || any.is_ipv6());
    let mut reached: Vec<IpAddr> = reached.filter(|ip| !ip.is_loopback()).collect();
    reached.truncate(MAX_INTERFACE_ADDRESSES);
    reached
}

fn hostname() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?.trim().to_ascii_lowercase();
    let valid =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    valid.then_some(name)
}

impl Pki {
    /// Returns the end of the serving certificate in seconds of Unix time; `i64::MAX` for an unreadable one, which no
    /// client accepts.
    pub(crate) fn serving_ends(&self) -> i64 {
        let der = CertificateDer::from_pem_slice(self.serving.certificate.as_bytes()).ok();
        let ends = der.and_then(|der| {
            let (_, certificate) = X509Certificate::from_der(&der).ok()?;
            Some(certificate.validity().not_after.timestamp())
        });
        ends.unwrap_or(i64::MAX)
    }
}

impl Pki {
    /// Reads the valid files of a directory and creates the others.
    pub(crate) fn open(files: &Files, names: &Names, now: OffsetDateTime) -> Result<Self, PkiError> {
        let authorities = Authorities::open(files, now)?;
        let issuer = authorities.issuer(now);
        let bundle = authorities.bundle();
        files.write("ca-bundle.crt", &bundle)?;
        let good = |parsed: &X509Certificate<'_>| is_good(parsed, issuer, now);
        let serving = files
            .pair("apiserver")
            .keep_or_make(|parsed| good(parsed) && names.covered_by(parsed), || making::serving(issuer, names, now))?;
        let admin = files.pair("admin").keep_or_make(good, || making::admin(issuer, now))?;
        let service_account = keep_or_make_service_account(files)?;
        let leaves = [renew_at(&serving, issuer)?, renew_at(&admin, issuer)?];
        let due = leaves.into_iter().chain([authorities.due(now)]).min().filter(|due| *due > now);
        Ok(Self { bundle, serving, admin, service_account, due: due.unwrap_or(now + SOON) })
    }

    /// Returns true if one of the authorities has signed a certificate, judged by the key identifiers.
    pub(crate) fn has_signed(&self, certificate_pem: &str) -> bool {
        let signer = CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .ok()
            .and_then(|der| X509Certificate::from_der(&der).ok().and_then(|(_, parsed)| signer_of(&parsed)));
        let authorities = CertificateDer::pem_slice_iter(self.bundle.as_bytes()).flatten();
        let mut ids = authorities.filter_map(|der| own_id(&X509Certificate::from_der(&der).ok()?.1));
        signer.is_some_and(|signer| ids.any(|id| id == signer))
    }

    /// Returns the serving certificate in the listener's form.
    pub(crate) fn serving_files(&self) -> Result<TlsFiles, PkiError> {
        let broken = |error: rustls_pki_types::pem::Error| PkiError::Broken {
            path: "the serving certificate".to_owned(),
            error: error.to_string(),
        };
        let certificate = CertificateDer::from_pem_slice(self.serving.certificate.as_bytes()).map_err(broken)?;
        let key = PrivateKeyDer::from_pem_slice(self.serving.key.as_bytes()).map_err(broken)?;
        Ok(TlsFiles { chain: vec![certificate], key })
    }
}

/// Returns true if the issuer has signed a certificate that need not be renewed. A new one could not outlast the
/// issuer, nor begin before it.
fn is_good(certificate: &X509Certificate<'_>, issuer: &Authority, now: OffsetDateTime) -> bool {
    let (begins, ends) = validity(certificate);
    let lasts = ends - RENEW_BEFORE > now || ends >= issuer.ends;
    let signer = signer_of(certificate);
    lasts && begins <= now.max(issuer.begins) && signer.is_some() && signer == issuer.id
}

/// Returns the time at which a good certificate has to be renewed.
fn renew_at(pair: &Pair, issuer: &Authority) -> Result<OffsetDateTime, PkiError> {
    let broken = |error: String| PkiError::Broken { path: "a certificate that was just made".to_owned(), error };
    let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).map_err(|error| broken(error.to_string()))?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| broken(error.to_string()))?;
    let (_, ends) = validity(&parsed);
    Ok(if ends >= issuer.ends { issuer.usable_until() } else { ends - RENEW_BEFORE })
}

fn validity(certificate: &X509Certificate<'_>) -> (OffsetDateTime, OffsetDateTime) {
    let validity = certificate.validity();
    (validity.not_before.to_datetime(), validity.not_after.to_datetime())
}

/// Returns the key identifier of a certificate.
fn own_id(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    })
}

fn signer_of(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| match extension.parsed_extension() {
        ParsedExtension::AuthorityKeyIdentifier(id) => id.key_identifier.as_ref().map(|id| id.0.to_vec()),
        _ => None,
    })
}

/// Reads or creates the key that signs service account tokens.
fn keep_or_make_service_account(files: &Files) -> Result<String, PkiError> {
    let key = match files.read_key("sa.key")? {
        Some(pem) => KeyPair::from_pem(&pem).map_err(|error| PkiError::Broken {
            path: files.path("sa.key").display().to_string(),
            error: error.to_string(),
        })?,
        None => {
            let key = KeyPair::generate()?;
            files.write("sa.key", &key.serialize_pem())?;
            key
        }
    };
    files.write("sa.pub", &key.public_key_pem())?;
    Ok(key.serialize_pem())
}
