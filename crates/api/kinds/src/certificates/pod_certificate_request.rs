//! PodCertificateRequest: a pod's request for a certificate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{checks, conditions, domains};

use super::pod_certificate::{issued_problem, omitted, proof_problem, stub_request_problem};
use super::signer_name;
use crate::checks::{immutable_struct_as, member, spec_path};
use crate::prepare::{clear_status, put_back, put_back_metadata, semantically_equal};
use crate::{Strategy, StrategyContext};

const UID_MAX: usize = 128;
const REQUEST_MAX: usize = 10 * 1024;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// The types of conditions that end a request.
const ENDS: [&str; 3] = ["Issued", "Denied", "Failed"];

pub(crate) struct PodCertificateRequest;

impl Strategy for PodCertificateRequest {
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (member(object, "spec"), spec_path());
        let signer = spec.str_at(&["signerName"]);
        signer_name::validate(&path.child("signerName"), signer, &mut errors);
        user_annotations(spec, &path.child("unverifiedUserAnnotations"), &mut errors);
        for (name, uid) in [("podName", "podUID"), ("serviceAccountName", "serviceAccountUID"), ("nodeName", "nodeUID")]
        {
            checks::subdomain(&path.child(name), spec.str_at(&[name]), &mut errors);
            let (value, at) = (spec.str_at(&[uid]), path.child(uid));
            if value.is_empty() {
                errors.push(FieldError::invalid(&at, value, "must not be empty"));
            }
            if value.len() > UID_MAX {
                errors.push(FieldError::too_long(&at, UID_MAX));
            }
        }
        let at = path.child("maxExpirationSeconds");
        let Some(seconds) = spec.int_at(&["maxExpirationSeconds"]) else {
            errors.push(FieldError::required(&at, "must be set"));
            return errors;
        };
        let max = if signer_name::is_kubernetes(signer) { DAY } else { 91 * DAY };
        if !(HOUR..=max).contains(&seconds) {
            errors.push(FieldError::invalid(&at, seconds, format!("must be in the range [{HOUR}, {max}]")));
        }
        key(spec, &path, &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (object.get("spec"), old.get("spec"));
        immutable_struct_as(
            "io.k8s.api.certificates.v1beta1.PodCertificateRequestSpec",
            &spec_path(),
            new,
            old,
            &mut errors,
        );
        errors
    }

    fn validate_subresource(
        &self,
        _: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (status, path) = (member(object, "status"), FieldPath::new("status"));
        let list = status.list_at(&["conditions"]);
        end_conditions(list, &path, &mut errors);
        conditions::conditions(list, &path.child("conditions"), &mut errors);
        if !errors.is_empty() {
            return errors;
        }
        let is = |request: &Value, kind: &str| {
            let mut conditions = request.list_at(&["status", "conditions"]).iter();
            conditions.any(|c| c.str_at(&["type"]) == kind && c.str_at(&["status"]) == "True")
        };
        let changed = !semantically_equal(object.get("status"), old.get("status"));
        let mut refuse = |detail: &str| errors.push(omitted(&path, detail));
        if ENDS.iter().any(|kind| is(old, kind)) {
            if changed {
                refuse("immutable after PodCertificateRequest is issued, denied, or failed");
            }
        } else if is(object, "Denied") || is(object, "Failed") {
            let mut members = status.as_object().into_iter().flat_map(|status| status.iter());
            if members.any(|(name, value)| name != "conditions" && !value.is_null()) {
                refuse("non-condition status fields must be empty when denying or failing the PodCertificateRequest");
            }
        } else if is(object, "Issued") {
            errors.extend(issued_problem(object, old, situation.now));
        } else if changed {
            refuse("status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"");
        }
        errors
    }
}

fn user_annotations(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut size = 0;
    for (key, value) in
        errors.while_room(spec.object_at(&["unverifiedUserAnnotations"]).into_iter().flat_map(|a| a.iter()))
    {
        domains::domain_prefixed_key(path, &key.to_lowercase(), errors);
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX));
    }
}

/// Validates the key: either in a certificate request that it signs, or as a public key with a proof of possession.
fn key(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let [request, public_key, proof] =
        ["stubPKCS10Request", "pkixPublicKey", "proofOfPossession"].map(|name| spec.str_at(&[name]));
    match (request.is_empty(), public_key.is_empty(), proof.is_empty()) {
        (false, true, true) => {
            let at = path.child("stubPKCS10Request");
            let der = STANDARD.decode(request).unwrap_or_default();
            if der.len() > REQUEST_MAX {
                errors.push(FieldError::too_long(&at, REQUEST_MAX));
            } else {
                errors.extend(stub_request_problem(&der, &at));
            }
        }
        (true, false, false) => {
            for (name, value) in [("pkixPublicKey", public_key), ("proofOfPossession", proof)] {
                if value.len() / 4 * 3 > REQUEST_MAX {
                    errors.push(FieldError::too_long(&path.child(name), REQUEST_MAX));
                    return;
                }
            }
            let (der, proof) =
                (STANDARD.decode(public_key).unwrap_or_default(), STANDARD.decode(proof).unwrap_or_default());
            errors.extend(proof_problem(&der, &proof, public_key, spec.str_at(&["podUID"]), path));
        }
        _ => {
            let detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            errors.push(omitted(path, detail));
        }
    }
}

/// Accepts at most one condition, whose type must be one of [`ENDS`].
fn end_conditions(conditions: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let mut ended = false;
    for (i, condition) in errors.while_room(conditions.iter().enumerate()) {
        // In kube-apiserver's path the index is a field name.
        let at = path.child("conditions").child(&format!("[{i}]"));
        let kind = condition.str_at(&["type"]);
        if !ENDS.contains(&kind) {
            errors.push(FieldError::not_supported(&at.child("type"), kind, &ENDS));
            continue;
        }
        if std::mem::replace(&mut ended, true) {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.push(FieldError::invalid(&at.child("type"), kind, detail));
        }
        checks::one_of(&at.child("status"), condition.str_at(&["status"]), &["True"], errors);
    }
}
