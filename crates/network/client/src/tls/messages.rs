//! Messages for failed handshakes, as in Go's `crypto/tls` and `crypto/x509`: operators search for them.

use std::fmt;
use std::io;

use binnacle_meta::Time;
use rustls::{CertificateError, Error};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

/// The number of names from which a message does not list them.
const MAX_NAMES: usize = 100;

/// The error for an untrusted certificate, with Go's message.
#[derive(Debug)]
pub(super) struct VerificationError(pub(super) String);

impl fmt::Display for VerificationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for VerificationError {}

/// Returns the message for a failed handshake.
#[must_use]
pub fn explain(error: &io::Error) -> String {
    let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return match error.kind() {
            io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
            io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_owned(),
            _ => error.to_string(),
        };
    };
    match error {
        Error::InvalidCertificate(CertificateError::Other(why)) if why.0.is::<VerificationError>() => {
            format!("tls: failed to verify certificate: x509: {}", why.0)
        }
        Error::InvalidCertificate(why) => format!("tls: failed to verify certificate: x509: {}", short_message(why)),
        Error::AlertReceived(alert) => format!("remote error: tls: {}", alert_message(*alert)),
        Error::InvalidMessage(_) => "tls: first record does not look like a TLS handshake".to_owned(),
        other => format!("tls: {other}"),
    }
}

/// Returns the message for an error without the certificate, as returned by the verifier of the system's authorities.
fn short_message(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "certificate signed by unknown authority".to_owned()
        }
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => "certificate has expired or is not yet valid".to_owned(),
        // A certificate of an untrusted authority.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            "certificate signed by unknown authority".to_owned()
        }
        other => other.to_string(),
    }
}

/// Returns the message for an invalid certificate. Like Go, checks the validity period first, then the names, then the
/// signature.
pub(super) fn verification_message(
    certificate: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
    why: &CertificateError,
) -> String {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return why.to_string() };
    let validity = parsed.validity();
    let at = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let limits = [validity.not_before.timestamp(), validity.not_after.timestamp()];
    if let Some(text) = outside_validity(at, limits).or_else(|| name_mismatch(&parsed, name)) {
        return text;
    }
    let unknown = "certificate signed by unknown authority";
    let because = |reason: &str| {
        let authority = shown_name(parsed.issuer());
        format!(
            "{unknown} (possibly because of {reason:?} while trying to verify candidate authority certificate {authority:?})"
        )
    };
    match why {
        CertificateError::UnknownIssuer => unknown.to_owned(),
        CertificateError::BadSignature => because(verification_error(&parsed)),
        CertificateError::Expired | CertificateError::NotValidYet => {
            "certificate has expired or is not yet valid".to_owned()
        }
        CertificateError::ExpiredContext { time, not_after: limit } => {
            validity_message(seconds(*time), "after", seconds(*limit))
        }
        CertificateError::NotValidYetContext { time, not_before: limit } => {
            validity_message(seconds(*time), "before", seconds(*limit))
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "certificate specifies an incompatible key usage".to_owned()
        }
        _ => match sha1_message(&parsed) {
            Some(reason) => because(&reason),
            None => unknown.to_owned(),
        },
    }
}

fn seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
}

fn outside_validity(now: i64, [not_before, not_after]: [i64; 2]) -> Option<String> {
    match now {
        _ if now < not_before => Some(validity_message(now, "before", not_before)),
        _ if now > not_after => Some(validity_message(now, "after", not_after)),
        _ => None,
    }
}

fn validity_message(now: i64, side: &str, limit: i64) -> String {
    let shown = |seconds: i64| Time::from_unix(seconds, 0);
    format!("certificate has expired or is not yet valid: current time {} is {side} {}", shown(now), shown(limit))
}

/// Returns the message for a certificate that does not cover the name, or `None` if it does.
fn name_mismatch(certificate: &X509Certificate<'_>, name: &ServerName<'_>) -> Option<String> {
    let wanted = name.to_str();
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    if alternatives.is_none() && common_name(certificate.subject()).is_some_and(|common| matches(&common, &wanted)) {
        return Some("certificate relies on legacy Common Name field, use SANs instead".to_owned());
    }
    let general = alternatives.map(|names| names.value.general_names.as_slice()).unwrap_or_default();
    let ips: Vec<String> = general.iter().filter_map(ip).collect();
    let dns: Vec<String> = general.iter().filter_map(dns).collect();
    let told = match name {
        ServerName::IpAddress(_) if ips.is_empty() => {
            return Some(format!("cannot validate certificate for {wanted} because it doesn't contain any IP SANs"));
        }
        ServerName::IpAddress(_) if ips.contains(&wanted.to_string()) => return None,
        ServerName::IpAddress(_) if ips.len() >= MAX_NAMES => {
            return Some(format!("certificate is valid for {} IP SANs, but none matched {wanted}", ips.len()));
        }
        ServerName::IpAddress(_) => ips,
        _ if dns.iter().any(|pattern| matches(pattern, &wanted)) => return None,
        _ if dns.len() >= MAX_NAMES => {
            return Some(format!("certificate is valid for {} names, but none matched {wanted}", dns.len()));
        }
        _ => dns,
    };
    Some(match told.is_empty() {
        true => format!("certificate is not valid for any names, but wanted to match {wanted}"),
        false => format!("certificate is valid for {}, not {wanted}", told.join(", ")),
    })
}

fn ip(name: &GeneralName<'_>) -> Option<String> {
    let GeneralName::IPAddress(bytes) = name else { return None };
    let ip = match bytes.len() {
        4 => std::net::IpAddr::from(<[u8; 4]>::try_from(*bytes).ok()?),
        _ => std::net::IpAddr::from(<[u8; 16]>::try_from(*bytes).ok()?),
    };
    Some(ip.to_string())
}

fn dns(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        _ => None,
    }
}

/// Returns true if a pattern, whose first label may be `*`, matches a host.
fn matches(pattern: &str, host: &str) -> bool {
    let (pattern, host) = (pattern.to_lowercase(), host.trim_end_matches('.').to_lowercase());
    match (pattern.strip_prefix("*."), host.split_once('.')) {
        (Some(rest), Some((_, domain))) => rest == domain,
        _ => pattern == host,
    }
}

fn common_name(name: &X509Name<'_>) -> Option<String> {
    name.iter_common_name().last().and_then(|common| common.as_str().ok()).map(str::to_owned)
}

/// Returns the name that Go uses for an authority: its common name, or else its organization.
fn shown_name(name: &X509Name<'_>) -> String {
    let organization = || name.iter_organization().next().and_then(|name| name.as_str().ok()).map(str::to_owned);
    common_name(name).filter(|name| !name.is_empty()).or_else(organization).unwrap_or_default()
}

/// Returns Go's message for an invalid signature of an authority.
fn verification_error(certificate: &X509Certificate<'_>) -> &'static str {
    const ED25519: &str = "1.3.101.112";
    let algorithm = certificate.signature_algorithm.algorithm.to_id_string();
    match algorithm.as_str() {
        ED25519 => "x509: Ed25519 verification failure",
        _ if algorithm.starts_with("1.2.840.10045.") => "x509: ECDSA verification failure",
        _ => "crypto/rsa: verification error",
    }
}

/// Returns Go's message for a signature with SHA-1.
fn sha1_message(certificate: &X509Certificate<'_>) -> Option<String> {
    let name = sha1_name(certificate)?;
    Some(format!("x509: cannot verify signature: insecure algorithm {name}"))
}

/// Returns the name of the signature algorithm if it uses SHA-1.
pub(crate) fn sha1_name(certificate: &X509Certificate<'_>) -> Option<&'static str> {
    match certificate.signature_algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.5" => Some("SHA1-RSA"),
        "1.2.840.10045.4.1" => Some("ECDSA-SHA1"),
        _ => None,
    }
}

fn alert_message(alert: rustls::AlertDescription) -> String {
    use rustls::AlertDescription as A;
    match alert {
        A::BadCertificate => "bad certificate".to_owned(),
        A::UnsupportedCertificate => "unsupported certificate".to_owned(),
        A::CertificateRevoked => "revoked certificate".to_owned(),
        A::CertificateExpired => "expired certificate".to_owned(),
        A::CertificateUnknown => "unknown certificate".to_owned(),
        A::CertificateRequired => "certificate required".to_owned(),
        A::UnknownCA => "unknown certificate authority".to_owned(),
        A::AccessDenied => "access denied".to_owned(),
        A::DecodeError => "error decoding message".to_owned(),
        A::DecryptError => "error decrypting message".to_owned(),
        A::HandshakeFailure => "handshake failure".to_owned(),
        A::IllegalParameter => "illegal parameter".to_owned(),
        A::InternalError => "internal error".to_owned(),
        A::NoApplicationProtocol => "no application protocol".to_owned(),
        A::ProtocolVersion => "protocol version not supported".to_owned(),
        A::UnexpectedMessage => "unexpected message".to_owned(),
        A::UnrecognisedName => "unrecognized name".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, SanType};

    use super::*;

    /// Creates a self-signed certificate for 2020 to 2040.
    fn make(common: &str, alternatives: &[&str]) -> CertificateDer<'static> {
        let mut parameters = CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name = DistinguishedName::new();
        parameters.distinguished_name.push(DnType::CommonName, common);
        parameters.subject_alt_names = alternatives
            .iter()
            .map(|name| match name.parse() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) => SanType::DnsName((*name).try_into().unwrap()),
            })
            .collect();
        parameters.not_before = rcgen::date_time_ymd(2020, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2040, 1, 1);
        parameters.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn explains_invalid_certificates_like_go() {
        const IN_2030: u64 = 1_900_000_000;
        let (unknown, bad) = (CertificateError::UnknownIssuer, CertificateError::BadSignature);
        for (common, alternatives, name, at, why, want) in [
            ("x", &["ext.agg.svc"][..], "ext.agg.svc", IN_2030, &unknown, "certificate signed by unknown authority"),
            (
                "ca",
                &["*.agg.svc"],
                "ext.agg.svc",
                IN_2030,
                &bad,
                "certificate signed by unknown authority (possibly because of \"x509: ECDSA verification failure\" while trying to \
                 verify candidate authority certificate \"ca\")",
            ),
            (
                "x",
                &["a.svc", "b.svc", "10.0.0.1"],
                "c.svc",
                IN_2030,
                &unknown,
                "certificate is valid for a.svc, b.svc, not c.svc",
            ),
            (
                "x",
                &["10.0.0.1"],
                "c.svc",
                IN_2030,
                &bad,
                "certificate is not valid for any names, but wanted to match c.svc",
            ),
            (
                "c.svc",
                &["10.0.0.1"],
                "c.svc",
                IN_2030,
                &bad,
                "certificate is not valid for any names, but wanted to match c.svc",
            ),
            (
                "C.svc",
                &[],
                "c.svc",
                IN_2030,
                &unknown,
                "certificate relies on legacy Common Name field, use SANs instead",
            ),
            ("x", &[], "c.svc", IN_2030, &unknown, "certificate is not valid for any names, but wanted to match c.svc"),
            ("x", &["10.0.0.1"], "10.0.0.2", IN_2030, &unknown, "certificate is valid for 10.0.0.1, not 10.0.0.2"),
            (
                "x",
                &["a.svc"],
                "10.0.0.2",
                IN_2030,
                &unknown,
                "cannot validate certificate for 10.0.0.2 because it doesn't contain any IP SANs",
            ),
            (
                "x",
                &[],
                "c.svc",
                2_524_608_000,
                &unknown,
                "certificate has expired or is not yet valid: current time 2050-01-01T00:00:00Z is after 2040-01-01T00:00:00Z",
            ),
            (
                "x",
                &["c.svc"],
                "c.svc",
                0,
                &unknown,
                "certificate has expired or is not yet valid: current time 1970-01-01T00:00:00Z is before 2020-01-01T00:00:00Z",
            ),
        ] {
            let name = ServerName::try_from(name.to_owned()).unwrap();
            let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at));
            assert_eq!(
                verification_message(&make(common, alternatives), &name, now, why),
                want,
                "{common} {alternatives:?}"
            );
        }
    }
}
