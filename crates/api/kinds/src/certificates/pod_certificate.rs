//! Keys and certificates of a PodCertificateRequest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath, Time};
use binnacle_schema::Value;
use ring::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ED25519, RSA_PSS_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;

use super::pem;

const CHAIN_MAX: usize = 100 * 1024;
const MINUTE: i64 = 60;

/// An error that does not show the value.
pub(super) fn omitted(path: &FieldPath, detail: &str) -> FieldError {
    FieldError::invalid(path, ErrorValue::raw(detail), "")
}

/// Returns the error of the stub certificate request, which holds the key.
pub(super) fn stub_request_problem(der: &[u8], path: &FieldPath) -> Option<FieldError> {
    let Ok(([], request)) = X509CertificationRequest::from_der(der) else {
        return Some(omitted(path, "must be a valid PKCS#10 CSR"));
    };
    match Key::of(&request.certification_request_info.subject_pki) {
        Key::OtherCurve(curve) => {
            let detail = "elliptic public keys must use curve P256, P384, or P521";
            Some(FieldError::invalid(path, &format!("curve {curve}"), detail))
        }
        Key::Rsa(bits) if !matches!(bits, 3072 | 4096) => Some(wrong_modulus(path, bits)),
        Key::Unknown => Some(omitted(path, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")),
        _ => request.verify_signature().is_err().then(|| omitted(path, "invalid signature")),
    }
}

/// Returns the error of a public key or of the proof of possession: the pod's uid, signed.
pub(super) fn proof_problem(der: &[u8], proof: &[u8], shown: &str, uid: &str, path: &FieldPath) -> Option<FieldError> {
    let at = path.child("pkixPublicKey");
    let Ok(([], key)) = SubjectPublicKeyInfo::from_der(der) else {
        return Some(FieldError::invalid(&at, shown, "must be a valid PKIX-serialized public key"));
    };
    let algorithm: &dyn VerificationAlgorithm = match Key::of(&key) {
        Key::Ed25519 => &ED25519,
        Key::P256 => &ECDSA_P256_SHA256_ASN1,
        Key::P384 => &ECDSA_P384_SHA256_ASN1,
        Key::Rsa(3072 | 4096) => &RSA_PSS_2048_8192_SHA256,
        Key::Rsa(bits) => return Some(wrong_modulus(&at, bits)),
        Key::OtherCurve(curve) => {
            let detail = "elliptic public keys must use curve P256 or P384";
            return Some(FieldError::invalid(&at, &format!("curve {curve}"), detail));
        }
        // The crypto library cannot verify signatures of this curve, so the proof fails.
        Key::P521 => return Some(unproved(path)),
        Key::Unknown => {
            let detail = "unknown public key type; supported types are Ed25519, ECDSA, and RSA";
            return Some(FieldError::invalid(&at, shown, detail));
        }
    };
    let key = UnparsedPublicKey::new(algorithm, &*key.subject_public_key.data);
    key.verify(uid.as_bytes(), proof).is_err().then(|| unproved(path))
}

/// Returns the first error of the issued certificate of a request.
pub(super) fn issued_problem(request: &Value, old: &Value, now: i64) -> FieldErrors {
    let path = FieldPath::new("status");
    let chain_path = path.child("certificateChain");
    let chain = request.str_at(&["status", "certificateChain"]);
    let one = |detail: &str| FieldErrors::from(FieldError::invalid(&chain_path, chain, detail));
    if chain.len() > CHAIN_MAX {
        return FieldError::too_long(&chain_path, CHAIN_MAX).into();
    }
    let blocks = pem::blocks(chain.as_bytes());
    let Some((leaf, rest)) = blocks.split_first() else {
        return one("issued certificate chain must contain at least one certificate");
    };
    if leaf.kind != "CERTIFICATE" {
        return one("issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
    }
    let Ok(([], leaf)) = X509Certificate::from_der(&leaf.bytes) else {
        return one("leaf certificate does not parse as valid X.509");
    };
    let mut errors = wrong_names(&leaf, &chain_path);
    if !is_for_key(&leaf, old) {
        errors.extend(one("leaf certificate was not issued to the requested public key"));
        return errors;
    }
    let times = ["notBefore", "notAfter", "beginRefreshAt"].map(|name| {
        let text = request.str_at(&["status", name]);
        (path.child(name), Time::parse(text).ok().map(|time| time.unix_seconds()), text)
    });
    for (i, (at, time, _)) in errors.while_room(times.iter().enumerate()) {
        if time.is_none() {
            let detail = if i == 2 {
                "must be present and in the range [notbefore+10min, notafter-10min]"
            } else {
                "must be present and consistent with the issued certificate"
            };
            errors.push(FieldError::required(at, detail));
        }
    }
    let [
        (before_at, Some(before), before_text),
        (after_at, Some(after), after_text),
        (refresh_at, Some(refresh), refresh_text),
    ] = times
    else {
        return errors;
    };
    if !errors.is_empty() {
        return errors;
    }
    let validity = leaf.validity();
    let (from, to) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let lifetime = to - from;
    let max = request.int_at(&["spec", "maxExpirationSeconds"]).unwrap_or(0);
    let lifetime_problem = |detail: &str| {
        let shown = ErrorValue::raw(i128::from(lifetime).saturating_mul(1_000_000_000).to_string());
        FieldError::invalid(&chain_path, shown, detail)
    };
    let found = if before != from {
        FieldError::invalid(
            &before_at,
            before_text,
            "must be set to the NotBefore time encoded in the leaf certificate",
        )
    } else if (before - now).abs() >= 5 * MINUTE {
        let detail = "must be set to within 5 minutes of kube-apiserver's current time";
        FieldError::invalid(&before_at, before_text, detail)
    } else if after != to {
        FieldError::invalid(&after_at, after_text, "must be set to the NotAfter time encoded in the leaf certificate")
    } else if lifetime < 60 * MINUTE {
        lifetime_problem("leaf certificate lifetime must be >= 1 hour")
    } else if lifetime > max {
        lifetime_problem(&format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({max})"))
    } else if refresh < before + 10 * MINUTE {
        FieldError::invalid(&refresh_at, refresh_text, "must be at least 10 minutes after status.notBefore")
    } else if refresh > after - 10 * MINUTE {
        FieldError::invalid(&refresh_at, refresh_text, "must be at least 10 minutes before status.notAfter")
    } else if rest.iter().any(|block| block.kind != "CERTIFICATE") {
        return one("issued certificate chain must consist entirely of CERTFICATE PEM blocks");
    } else if rest.iter().any(|block| !matches!(X509Certificate::from_der(&block.bytes), Ok(([], _)))) {
        return one("intermediate certificate does not parse as valid X.509");
    } else {
        return errors;
    };
    found.into()
}

/// A public key, with the facts that the rules need.
enum Key {
    Ed25519,
    P256,
    P384,
    P521,
    OtherCurve(&'static str),
    Rsa(usize),
    Unknown,
}

impl Key {
    fn of(key: &SubjectPublicKeyInfo<'_>) -> Self {
        let curve = key.algorithm.parameters.as_ref().and_then(|parameters| parameters.as_oid().ok());
        match key.algorithm.algorithm.to_id_string().as_str() {
            "1.3.101.112" => Self::Ed25519,
            "1.2.840.10045.2.1" => match curve.map(|curve| curve.to_id_string()).as_deref() {
                Some("1.2.840.10045.3.1.7") => Self::P256,
                Some("1.3.132.0.34") => Self::P384,
                Some("1.3.132.0.35") => Self::P521,
                Some("1.3.132.0.33") => Self::OtherCurve("P-224"),
                _ => Self::Unknown,
            },
            "1.2.840.113549.1.1.1" => match key.parsed() {
                Ok(x509_parser::public_key::PublicKey::RSA(rsa)) => Self::Rsa(rsa.key_size()),
                _ => Self::Unknown,
            },
            _ => Self::Unknown,
        }
    }
}

fn is_for_key(leaf: &X509Certificate<'_>, request: &Value) -> bool {
    let spec = |name| STANDARD.decode(request.str_at(&["spec", name])).unwrap_or_default();
    let (stub, plain) = (spec("stubPKCS10Request"), spec("pkixPublicKey"));
    if stub.is_empty() {
        return plain == leaf.public_key().raw;
    }
    X509CertificationRequest::from_der(&stub)
        .is_ok_and(|(_, stub)| stub.certification_request_info.subject_pki.raw == leaf.public_key().raw)
}

fn wrong_names(leaf: &X509Certificate<'_>, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let Ok(Some(names)) = leaf.subject_alternative_name() else { return errors };
    for name in errors.while_room(&names.value.general_names) {
        let GeneralName::DNSName(name) = name else { continue };
        let mut refuse = |detail: &str| errors.push(FieldError::invalid(path, *name, detail));
        if name.is_empty() {
            refuse("leaf certificate should not contain empty DNSName");
        }
        if name.contains("..") {
            refuse("leaf certificate's DNSName should not contain '..'");
        }
        if name.starts_with('.') || name.ends_with('.') {
            refuse("leaf certificate's DNSName should not start or end with '.'");
        }
    }
    errors
}

fn wrong_modulus(path: &FieldPath, bits: usize) -> FieldError {
    FieldError::invalid(path, &format!("{bits}-bit modulus"), "RSA keys must have modulus size 3072 or 4096")
}

fn unproved(path: &FieldPath) -> FieldError {
    omitted(&path.child("proofOfPossession"), "could not verify proof-of-possession signature")
}
