//! Keys and certificates of a PodCertificateRequest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_crypto::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, ED25519, RSA_PSS_2048_8192_SHA256, UnparsedPublicKey,
    VerificationAlgorithm,
};
use binnacle_crypto::{ecdsa, verify_certificate_request};
use binnacle_fields::FieldRef;
use binnacle_fields::certificates::v1beta1::{
    PodCertificateRequest as Request, PodCertificateRequestSpec as Spec, PodCertificateRequestStatus as Status,
};
use binnacle_fields::types::{Bytes, Str};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, Time};
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::SubjectPublicKeyInfo;

use super::pem;

const CHAIN_MAX: usize = 100 * 1024;
const MINUTE: i64 = 60;

/// An error whose message omits the value.
pub(super) fn omitted<T>(field: FieldRef<T>, detail: &str) -> FieldError {
    field.invalid_as(ErrorValue::raw(detail), "")
}

/// Returns the error of the stub certificate request, which holds the key.
pub(super) fn stub_request_problem(der: &[u8], field: FieldRef<Bytes>) -> Option<FieldError> {
    let Ok(([], request)) = X509CertificationRequest::from_der(der) else {
        return Some(omitted(field, "must be a valid PKCS#10 CSR"));
    };
    match Key::of(&request.certification_request_info.subject_pki) {
        Key::OtherCurve(curve) => {
            let detail = "elliptic public keys must use curve P256, P384, or P521";
            Some(field.invalid_as(&format!("curve {curve}"), detail))
        }
        Key::Rsa(bits) if !matches!(bits, 3072 | 4096) => Some(wrong_modulus(field, bits)),
        Key::Unknown => Some(omitted(field, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")),
        _ => verify_certificate_request(&request).is_err().then(|| omitted(field, "invalid signature")),
    }
}

/// Returns the error of the public key or of the proof of possession: the pod's uid, signed.
pub(super) fn proof_problem(spec: FieldRef<Spec>, der: &[u8], proof: &[u8]) -> Option<FieldError> {
    let field = spec.at(Spec::PKIX_PUBLIC_KEY);
    let Ok(([], key)) = SubjectPublicKeyInfo::from_der(der) else {
        return Some(field.invalid("must be a valid PKIX-serialized public key"));
    };
    let algorithm: &dyn VerificationAlgorithm = match Key::of(&key) {
        Key::Ed25519 => &ED25519,
        Key::P256 => &ECDSA_P256_SHA256_ASN1,
        Key::P384 => &ECDSA_P384_SHA256_ASN1,
        Key::Rsa(3072 | 4096) => &RSA_PSS_2048_8192_SHA256,
        Key::Rsa(bits) => return Some(wrong_modulus(field, bits)),
        Key::OtherCurve(curve) => {
            let detail = "elliptic public keys must use curve P256 or P384";
            return Some(field.invalid_as(&format!("curve {curve}"), detail));
        }
        // Without an algorithm for this curve, the proof fails.
        Key::P521 => match ecdsa::P521_SHA256_ASN1 {
            Some(algorithm) => algorithm,
            None => return Some(unproved(spec)),
        },
        Key::Unknown => {
            return Some(field.invalid("unknown public key type; supported types are Ed25519, ECDSA, and RSA"));
        }
    };
    let key = UnparsedPublicKey::new(algorithm, &*key.subject_public_key.data);
    key.verify(spec.at(Spec::POD_UID).str().as_bytes(), proof).is_err().then(|| unproved(spec))
}

/// Returns the first error of the issued certificate of a request.
pub(super) fn issued_problem(request: FieldRef<Request>, old: FieldRef<Request>, now: i64) -> FieldErrors {
    let status = request.at(Request::STATUS);
    let chain = status.at(Status::CERTIFICATE_CHAIN);
    let one = |detail: &str| FieldErrors::from(chain.invalid(detail));
    if chain.str().len() > CHAIN_MAX {
        return chain.too_long(CHAIN_MAX).into();
    }
    let blocks = pem::blocks(chain.str().as_bytes());
    let Some((leaf, rest)) = blocks.split_first() else {
        return one("issued certificate chain must contain at least one certificate");
    };
    if leaf.kind != "CERTIFICATE" {
        return one("issued certificate chain must consist entirely of CERTIFICATE PEM blocks");
    }
    let Ok(([], leaf)) = X509Certificate::from_der(&leaf.bytes) else {
        return one("leaf certificate does not parse as valid X.509");
    };
    let mut errors = wrong_names(&leaf, chain);
    if !is_for_key(&leaf, old) {
        errors.extend(one("leaf certificate was not issued to the requested public key"));
        return errors;
    }
    let times = [Status::NOT_BEFORE, Status::NOT_AFTER, Status::BEGIN_REFRESH_AT].map(|field| {
        let time = status.at(field);
        (time, Time::parse(time.str()).ok().map(|time| time.unix_seconds()))
    });
    for (i, (field, time)) in errors.while_room(times.iter().enumerate()) {
        if time.is_none() {
            let detail = if i == 2 {
                "must be present and in the range [notbefore+10min, notafter-10min]"
            } else {
                "must be present and consistent with the issued certificate"
            };
            errors.push(field.required(detail));
        }
    }
    let [(not_before, Some(before)), (not_after, Some(after)), (begin_refresh, Some(refresh))] = times else {
        return errors;
    };
    if !errors.is_empty() {
        return errors;
    }
    let validity = leaf.validity();
    let (from, to) = (validity.not_before.timestamp(), validity.not_after.timestamp());
    let lifetime = to - from;
    let max = request.at(Request::SPEC).at(Spec::MAX_EXPIRATION_SECONDS).int_or_zero();
    let lifetime_problem = |detail: &str| {
        let shown = ErrorValue::raw(i128::from(lifetime).saturating_mul(1_000_000_000).to_string());
        chain.invalid_as(shown, detail)
    };
    let found = if before != from {
        not_before.invalid("must be set to the NotBefore time encoded in the leaf certificate")
    } else if (before - now).abs() >= 5 * MINUTE {
        not_before.invalid("must be set to within 5 minutes of kube-apiserver's current time")
    } else if after != to {
        not_after.invalid("must be set to the NotAfter time encoded in the leaf certificate")
    } else if lifetime < 60 * MINUTE {
        lifetime_problem("leaf certificate lifetime must be >= 1 hour")
    } else if lifetime > max {
        lifetime_problem(&format!("leaf certificate lifetime must be <= spec.maxExpirationSeconds ({max})"))
    } else if refresh < before + 10 * MINUTE {
        begin_refresh.invalid("must be at least 10 minutes after status.notBefore")
    } else if refresh > after - 10 * MINUTE {
        begin_refresh.invalid("must be at least 10 minutes before status.notAfter")
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

fn is_for_key(leaf: &X509Certificate<'_>, request: FieldRef<Request>) -> bool {
    let spec = request.at(Request::SPEC);
    let [stub, plain] = [Spec::STUB_PKCS10_REQUEST, Spec::PKIX_PUBLIC_KEY]
        .map(|field| STANDARD.decode(spec.at(field).str()).unwrap_or_default());
    if stub.is_empty() {
        return plain == leaf.public_key().raw;
    }
    X509CertificationRequest::from_der(&stub)
        .is_ok_and(|(_, stub)| stub.certification_request_info.subject_pki.raw == leaf.public_key().raw)
}

fn wrong_names(leaf: &X509Certificate<'_>, chain: FieldRef<Str>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let Ok(Some(names)) = leaf.subject_alternative_name() else { return errors };
    for name in errors.while_room(&names.value.general_names) {
        let GeneralName::DNSName(name) = name else { continue };
        let mut refuse = |detail: &str| errors.push(chain.invalid_as(*name, detail));
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

fn wrong_modulus<T>(field: FieldRef<T>, bits: usize) -> FieldError {
    field.invalid_as(&format!("{bits}-bit modulus"), "RSA keys must have modulus size 3072 or 4096")
}

fn unproved(spec: FieldRef<Spec>) -> FieldError {
    omitted(spec.at(Spec::PROOF_OF_POSSESSION), "could not verify proof-of-possession signature")
}
