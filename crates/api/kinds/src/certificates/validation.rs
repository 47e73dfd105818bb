//! Validation of a CertificateSigningRequest. Updates may keep values that older releases accepted.

use std::hash::Hash;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_fields::FieldRef;
use binnacle_fields::certificates::v1::{
    CertificateSigningRequest as Request, CertificateSigningRequestCondition as Condition,
    CertificateSigningRequestSpec as Spec, CertificateSigningRequestStatus as Status,
};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::{checks, repeated};

use super::{pem, signer_name, x509};
use crate::prepare::semantically_equal;

const LEGACY_SIGNER: &str = "kubernetes.io/legacy-unknown";

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

const DECISIONS: [&str; 2] = ["Approved", "Denied"];

/// The endpoint of an update.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Endpoint {
    Main,
    Status,
    Approval,
}

/// Returns the conditions of a type.
pub(super) fn conditions_of<'v>(request: FieldRef<'_, 'v, Request>, kind: &str) -> Vec<&'v Value> {
    let status = request.at(Request::STATUS);
    let conditions = status.at(Status::CONDITIONS);
    let of_kind = conditions.items().filter(|condition| condition.at(Condition::TYPE).str() == kind);
    of_kind.map(|condition| condition.value()).collect()
}

/// Validates an update.
pub(super) fn update(request: FieldRef<Request>, old: FieldRef<Request>, endpoint: Endpoint) -> FieldErrors {
    let mut errors = validate(request, Some(old));
    let (status, old_status) = (request.at(Request::STATUS), old.at(Request::STATUS));
    let conditions = status.at(Status::CONDITIONS);
    for kind in ["Approved", "Denied", "Failed"] {
        if conditions_of(request, kind).len() < conditions_of(old, kind).len() {
            errors.push(conditions.forbidden(format!("updates may not remove a condition of type {kind:?}")));
        }
    }
    for kind in DECISIONS.iter().filter(|_| endpoint != Endpoint::Approval) {
        let (new_ones, old_ones) = (conditions_of(request, kind), conditions_of(old, kind));
        if new_ones.len() > old_ones.len() {
            errors.push(conditions.forbidden(format!("updates may not add a condition of type {kind:?}")));
        } else if new_ones.len() == old_ones.len() && new_ones != old_ones {
            errors.push(conditions.forbidden(format!("updates may not modify a condition of type {kind:?}")));
        }
    }
    let (certificate, old) = (status.at(Status::CERTIFICATE), old_status.at(Status::CERTIFICATE));
    if certificate.str() != old.str() {
        if endpoint != Endpoint::Status {
            errors.push(certificate.forbidden("updates may not set certificate content"));
        } else if !old.is_empty() {
            errors.push(certificate.forbidden("updates may not modify existing certificate content"));
        }
    }
    errors
}

/// Validates a request, which is new or replaces an old one.
pub(super) fn validate(request: FieldRef<Request>, old: Option<FieldRef<Request>>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = request.at(Request::SPEC);
    let encoded = spec.at(Spec::REQUEST);
    if let Some(problem) = request_problem(encoded.str()) {
        errors.push(encoded.invalid(problem));
    }
    let old_spec = old.as_ref().map(|old| old.at(Request::SPEC));
    usages(spec, old_spec, &mut errors);
    let signer = spec.at(Spec::SIGNER_NAME);
    let legacy = old_spec.is_some_and(|old| old.at(Spec::SIGNER_NAME).str() == LEGACY_SIGNER);
    if !legacy && signer.str() == LEGACY_SIGNER {
        errors.push(signer.invalid("the legacy signerName is not allowed via this API version"));
    } else {
        signer_name::validate(signer, &mut errors);
    }
    let expiration = spec.at(Spec::EXPIRATION_SECONDS);
    if expiration.int().is_some_and(|seconds| seconds < 600) {
        errors.push(expiration.invalid("may not specify a duration less than 600 seconds (10 minutes)"));
    }
    conditions(request, old, &mut errors);
    certificate(request, old, &mut errors);
    errors
}

fn request_problem(encoded: &str) -> Option<String> {
    let text = STANDARD.decode(encoded).unwrap_or_default();
    match pem::blocks(&text).into_iter().next().filter(|block| block.kind == "CERTIFICATE REQUEST") {
        Some(block) => x509::request_problem(&block.bytes),
        None => Some("PEM block type must be CERTIFICATE REQUEST".to_owned()),
    }
}

fn usages(spec: FieldRef<Spec>, old: Option<FieldRef<Spec>>, errors: &mut FieldErrors) {
    let usages = spec.at(Spec::USAGES);
    let old: Vec<&str> = old.map(|old| old.at(Spec::USAGES).strs().collect()).unwrap_or_default();
    if usages.is_empty() {
        errors.push(usages.required(""));
    }
    if old.iter().all(|usage| USAGES.contains(usage)) {
        for usage in errors.while_room(usages.items().filter(|usage| !USAGES.contains(&usage.str()))) {
            errors.push(usage.not_supported(&USAGES));
        }
    }
    if !has_duplicates(&old) {
        let repeated = repeated(usages.list(), Value::as_str);
        for (_, usage) in errors.while_room(usages.items().enumerate().filter(|(i, _)| repeated[*i])) {
            errors.push(FieldError::duplicate(&usage, usage.shown_as_json()));
        }
    }
}

fn conditions(request: FieldRef<Request>, old: Option<FieldRef<Request>>, errors: &mut FieldErrors) {
    let old_kinds = old.map(kinds_of).unwrap_or_default();
    let both_before = DECISIONS.iter().all(|kind| old_kinds.contains(kind));
    let empty_before = old_kinds.contains(&"");
    let duplicates_before = has_duplicates(&old_kinds);
    let kinds = kinds_of(request);
    let repeated = repeated(&kinds, |kind| *kind);
    // The index of the first condition of each of two mutually exclusive types.
    let [approved, denied] = DECISIONS.map(|kind| kinds.iter().position(|other| *other == kind));
    let status = request.at(Request::STATUS);
    let conditions = status.at(Status::CONDITIONS);
    for (i, condition) in errors.while_room(conditions.items().enumerate()) {
        let kind = condition.at(Condition::TYPE);
        if !empty_before && kind.is_empty() {
            errors.push(kind.required(""));
        }
        let supported: &[&str] = match kind.str() {
            "Approved" | "Denied" | "Failed" => &["True"],
            _ => &["False", "True", "Unknown"],
        };
        let status = condition.at(Condition::STATUS);
        checks::required_one_of(&status, status.str(), supported, errors);
        let other = match kind.str() {
            "Approved" => denied,
            "Denied" => approved,
            _ => None,
        };
        if !both_before && other.is_some_and(|first| first < i) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            errors.push(conditions.invalid_as(kind.str(), detail));
        }
        if !duplicates_before && repeated[i] {
            errors.push(FieldError::duplicate(&kind, kind.shown_as_json()));
        }
    }
}

/// Returns the types of all conditions.
fn kinds_of<'v>(request: FieldRef<'_, 'v, Request>) -> Vec<&'v str> {
    let status = request.at(Request::STATUS);
    let conditions = status.at(Status::CONDITIONS);
    conditions.items().map(|condition| condition.at(Condition::TYPE).str()).collect()
}

fn certificate(request: FieldRef<Request>, old: Option<FieldRef<Request>>, errors: &mut FieldErrors) {
    let status = request.at(Request::STATUS);
    let certificate = status.at(Status::CERTIFICATE);
    let anything_goes = old.is_some_and(|old| {
        let status = old.at(Request::STATUS);
        let old = status.at(Status::CERTIFICATE);
        semantically_equal(certificate.get(), old.get()) || certificate_problem(old.str()).is_some()
    });
    if let Some(problem) = certificate_problem(certificate.str()).filter(|_| !anything_goes) {
        errors.push(certificate.invalid_as("<certificate data>", problem));
    }
}

fn certificate_problem(encoded: &str) -> Option<String> {
    if encoded.is_empty() {
        return None;
    }
    let blocks = pem::blocks(&STANDARD.decode(encoded).unwrap_or_default());
    for block in &blocks {
        if block.kind != "CERTIFICATE" {
            return Some(format!(
                "only CERTIFICATE PEM blocks are allowed, found {}",
                binnacle_meta::go_quote(&block.kind)
            ));
        }
        if block.has_headers {
            return Some("no PEM block headers are permitted".to_owned());
        }
        if block.bytes.is_empty() {
            return Some("found CERTIFICATE PEM block containing 0 certificates".to_owned());
        }
        if let Some(problem) = x509::certificate_problem(&block.bytes) {
            return Some(problem.to_owned());
        }
    }
    blocks.is_empty().then(|| "must contain at least one CERTIFICATE PEM block".to_owned())
}

fn has_duplicates<T: Eq + Hash>(items: &[T]) -> bool {
    repeated(items, |item| item).contains(&true)
}
