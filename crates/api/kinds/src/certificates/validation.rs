//! Validation of a CertificateSigningRequest. Updates may keep values that older releases accepted.

use std::hash::Hash;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::repeated;

use super::{pem, signer_name, x509};
use crate::checks::{member, present, spec_path, texts};
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

/// Validates a new request.
pub(super) fn create(request: &Value) -> FieldErrors {
    validate(request, None)
}

/// Validates an update.
pub(super) fn update(request: &Value, old: &Value, endpoint: Endpoint) -> FieldErrors {
    let mut errors = validate(request, Some(old));
    let path = FieldPath::new("status").child("conditions");
    let of_kind = |request: &Value, kind: &str| -> Vec<Value> {
        let conditions = request.list_at(&["status", "conditions"]).iter();
        conditions.filter(|condition| condition.str_at(&["type"]) == kind).cloned().collect()
    };
    for kind in ["Approved", "Denied", "Failed"] {
        if of_kind(request, kind).len() < of_kind(old, kind).len() {
            let detail = format!("updates may not remove a condition of type {kind:?}");
            errors.push(FieldError::forbidden(&path, detail));
        }
    }
    for kind in DECISIONS.iter().filter(|_| endpoint != Endpoint::Approval) {
        let (new_ones, old_ones) = (of_kind(request, kind), of_kind(old, kind));
        if new_ones.len() > old_ones.len() {
            errors.push(FieldError::forbidden(&path, format!("updates may not add a condition of type {kind:?}")));
        } else if new_ones.len() == old_ones.len() && new_ones != old_ones {
            errors.push(FieldError::forbidden(&path, format!("updates may not modify a condition of type {kind:?}")));
        }
    }
    let certificate = |request: &Value| request.str_at(&["status", "certificate"]).to_owned();
    if certificate(request) != certificate(old) {
        let path = FieldPath::new("status").child("certificate");
        if endpoint != Endpoint::Status {
            errors.push(FieldError::forbidden(&path, "updates may not set certificate content"));
        } else if !certificate(old).is_empty() {
            errors.push(FieldError::forbidden(&path, "updates may not modify existing certificate content"));
        }
    }
    errors
}

fn validate(request: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(request, "spec"), spec_path());
    let encoded = spec.str_at(&["request"]);
    if let Some(problem) = request_problem(encoded) {
        // Empty bytes are not the same as an absent field.
        let absent = present(spec, "request").is_none();
        let shown = if absent { ErrorValue::raw("null") } else { encoded.into() };
        errors.push(FieldError::invalid(&path.child("request"), shown, problem));
    }
    usages(spec, old.map(|old| member(old, "spec")), &path, &mut errors);
    let (signer, at) = (spec.str_at(&["signerName"]), path.child("signerName"));
    let legacy = old.is_some_and(|old| old.str_at(&["spec", "signerName"]) == LEGACY_SIGNER);
    if !legacy && signer == LEGACY_SIGNER {
        let detail = "the legacy signerName is not allowed via this API version";
        errors.push(FieldError::invalid(&at, signer, detail));
    } else {
        signer_name::validate(&at, signer, &mut errors);
    }
    if let Some(seconds) = spec.int_at(&["expirationSeconds"]).filter(|seconds| *seconds < 600) {
        let detail = "may not specify a duration less than 600 seconds (10 minutes)";
        errors.push(FieldError::invalid(&path.child("expirationSeconds"), seconds, detail));
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

fn usages(spec: &Value, old: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    let (usages, at) = (texts(spec, "usages"), path.child("usages"));
    let old = old.map(|old| texts(old, "usages")).unwrap_or_default();
    if usages.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    if old.iter().all(|usage| USAGES.contains(usage)) {
        for (i, usage) in errors.while_room(usages.iter().enumerate().filter(|(_, usage)| !USAGES.contains(usage))) {
            errors.push(FieldError::not_supported(&at.index(i), *usage, &USAGES));
        }
    }
    if !has_duplicates(&old) {
        let repeated = repeated(&usages, |usage| *usage);
        for (i, usage) in errors.while_room(usages.iter().enumerate().filter(|(i, _)| repeated[*i])) {
            errors.push(FieldError::duplicate(&at.index(i), *usage));
        }
    }
}

fn conditions(request: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    const CONDITIONS: &[&str] = &["status", "conditions"];
    let kinds_of = |request: &Value| -> Vec<String> {
        request.list_at(CONDITIONS).iter().map(|condition| condition.str_at(&["type"]).to_owned()).collect()
    };
    let old_kinds = old.map(kinds_of).unwrap_or_default();
    let both_before = DECISIONS.iter().all(|kind| old_kinds.iter().any(|old| old == kind));
    let empty_before = old_kinds.iter().any(String::is_empty);
    let duplicates_before = has_duplicates(&old_kinds);
    let kinds = kinds_of(request);
    let repeated = repeated(&kinds, String::as_str);
    // The index of the first condition of each of two mutually exclusive types.
    let [approved, denied] = ["Approved", "Denied"].map(|kind| kinds.iter().position(|other| other == kind));
    let path = FieldPath::new("status").child("conditions");
    for (i, condition) in errors.while_room(request.list_at(CONDITIONS).iter().enumerate()) {
        let (kind, at) = (kinds[i].as_str(), path.index(i));
        if !empty_before && kind.is_empty() {
            errors.push(FieldError::required(&at.child("type"), ""));
        }
        let (status, status_path) = (condition.str_at(&["status"]), at.child("status"));
        let supported: &[&str] =
            if matches!(kind, "Approved" | "Denied" | "Failed") { &["True"] } else { &["False", "True", "Unknown"] };
        if status.is_empty() {
            errors.push(FieldError::required(&status_path, ""));
        } else if !supported.contains(&status) {
            errors.push(FieldError::not_supported(&status_path, status, supported));
        }
        let other = match kind {
            "Approved" => denied,
            "Denied" => approved,
            _ => None,
        };
        if !both_before && other.is_some_and(|first| first < i) {
            errors.push(FieldError::invalid(&path, kind, "Approved and Denied conditions are mutually exclusive"));
        }
        if !duplicates_before && repeated[i] {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
    }
}

fn certificate(request: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    const CERTIFICATE: &[&str] = &["status", "certificate"];
    let problem = |request: &Value| certificate_problem(request.str_at(CERTIFICATE));
    let anything_goes = old
        .is_some_and(|old| semantically_equal(request.at(CERTIFICATE), old.at(CERTIFICATE)) || problem(old).is_some());
    if let Some(problem) = problem(request).filter(|_| !anything_goes) {
        let path = FieldPath::new("status").child("certificate");
        errors.push(FieldError::invalid(&path, "<certificate data>", problem));
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
