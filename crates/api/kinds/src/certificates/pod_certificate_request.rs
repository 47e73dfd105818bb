//! PodCertificateRequest: a pod's request for a certificate.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_fields::certificates::v1beta1::{
    self, PodCertificateRequestSpec as Spec, PodCertificateRequestStatus as Status,
};
use binnacle_fields::meta::v1::Condition;
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors, Location};
use binnacle_schema::{Object, Value};
use binnacle_validation::{checks, conditions, domains};

use super::pod_certificate::{issued_problem, omitted, proof_problem, stub_request_problem};
use super::signer_name;
use crate::checks::immutable_struct;
use crate::prepare::{keep_metadata, semantically_equal};
use crate::{Strategy, StrategyContext};

const UID_MAX: usize = 128;
const REQUEST_MAX: usize = 10 * 1024;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// The types of conditions that end a request.
const ENDS: [&str; 3] = ["Issued", "Denied", "Failed"];

type Request = v1beta1::PodCertificateRequest;

pub(crate) struct PodCertificateRequest;

impl Strategy for PodCertificateRequest {
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        FieldMut::root(object).remove(Request::STATUS);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::root(object).keep(FieldRef::root(old), Request::STATUS);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<Request>::root(object), FieldRef::root(old));
        new.keep(old, Request::SPEC);
        keep_metadata(&mut new, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let request = FieldRef::<Request>::root(object);
        let spec = request.at(Request::SPEC);
        let signer = spec.at(Spec::SIGNER_NAME);
        signer_name::validate(signer, &mut errors);
        user_annotations(spec, &mut errors);
        type NameCheck = fn(&dyn Location, &str, &mut FieldErrors);
        for (name, check, uid) in [
            (Spec::POD_NAME, checks::subdomain as NameCheck, Spec::POD_UID),
            (Spec::SERVICE_ACCOUNT_NAME, checks::subdomain, Spec::SERVICE_ACCOUNT_UID),
            (Spec::NODE_NAME, checks::typed_subdomain, Spec::NODE_UID),
        ] {
            let (name, uid) = (spec.at(name), spec.at(uid));
            check(&name, name.str(), &mut errors);
            if uid.is_empty() {
                errors.push(uid.invalid("must not be empty"));
            }
            if uid.str().len() > UID_MAX {
                errors.push(uid.too_long(UID_MAX));
            }
        }
        let expiration = spec.at(Spec::MAX_EXPIRATION_SECONDS);
        let Some(seconds) = expiration.int() else {
            errors.push(expiration.required("must be set"));
            return errors;
        };
        let max = if signer_name::is_kubernetes(signer.str()) { DAY } else { 91 * DAY };
        if !(HOUR..=max).contains(&seconds) {
            errors.push(expiration.invalid(format!("must be in the range [{HOUR}, {max}]")));
        }
        key(spec, &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::<Request>::root(object), FieldRef::root(old));
        immutable_struct(new.at(Request::SPEC), old.at(Request::SPEC), &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (request, old) = (FieldRef::<Request>::root(object), FieldRef::root(old));
        let status = request.at(Request::STATUS);
        let list = status.at(Status::CONDITIONS);
        end_conditions(list, &mut errors);
        conditions::validate(list.items(), &mut errors);
        if !errors.is_empty() {
            return errors;
        }
        let changed = !semantically_equal(status.get(), old.at(Request::STATUS).get());
        let mut refuse = |detail: &str| errors.push(omitted(status, detail));
        if ENDS.iter().any(|kind| is_true(old, kind)) {
            if changed {
                refuse("immutable after PodCertificateRequest is issued, denied, or failed");
            }
        } else if is_true(request, "Denied") || is_true(request, "Failed") {
            let mut fields = status.object().into_iter().flat_map(Object::iter);
            if fields.any(|(name, value)| name != Status::CONDITIONS.name() && !value.is_null()) {
                refuse("non-condition status fields must be empty when denying or failing the PodCertificateRequest");
            }
        } else if is_true(request, "Issued") {
            errors.extend(issued_problem(request, old, ctx.now));
        } else if changed {
            refuse("status is immutable unless transitioning to \"Issued\", \"Denied\", or \"Failed\"");
        }
        errors
    }
}

/// Returns true if a condition of this type is true.
fn is_true(request: FieldRef<Request>, kind: &str) -> bool {
    request
        .at(Request::STATUS)
        .at(Status::CONDITIONS)
        .items()
        .any(|condition| condition.at(Condition::TYPE).str() == kind && condition.at(Condition::STATUS).str() == "True")
}

fn user_annotations(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let annotations = spec.at(Spec::UNVERIFIED_USER_ANNOTATIONS);
    let mut size = 0;
    for (key, value) in errors.while_room(annotations.entries()) {
        domains::domain_prefixed_key(&annotations, &key.to_lowercase(), errors);
        size += key.len() + value.str().len();
    }
    if size > ANNOTATIONS_MAX {
        errors.push(annotations.too_long(ANNOTATIONS_MAX));
    }
}

/// Validates the key: either in a certificate request that it signs, or as a public key with a proof of possession.
fn key(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let [request, public_key, proof] =
        [Spec::STUB_PKCS10_REQUEST, Spec::PKIX_PUBLIC_KEY, Spec::PROOF_OF_POSSESSION].map(|field| spec.at(field));
    match (request.is_empty(), public_key.is_empty(), proof.is_empty()) {
        (false, true, true) => {
            let der = STANDARD.decode(request.str()).unwrap_or_default();
            if der.len() > REQUEST_MAX {
                errors.push(request.too_long(REQUEST_MAX));
            } else {
                errors.extend(stub_request_problem(&der, request));
            }
        }
        (true, false, false) => {
            for field in [public_key, proof] {
                if field.str().len() / 4 * 3 > REQUEST_MAX {
                    errors.push(field.too_long(REQUEST_MAX));
                    return;
                }
            }
            let [der, proof] = [public_key, proof].map(|field| STANDARD.decode(field.str()).unwrap_or_default());
            errors.extend(proof_problem(spec, &der, &proof));
        }
        _ => {
            let detail = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set";
            errors.push(omitted(spec, detail));
        }
    }
}

/// Accepts at most one condition, whose type must be one of [`ENDS`].
fn end_conditions(conditions: FieldRef<List<Condition>>, errors: &mut FieldErrors) {
    let mut ended = false;
    for (i, condition) in errors.while_room(conditions.items().enumerate()) {
        // In kube-apiserver's path the index is a field name.
        let at = |field: Field<Condition, Str>| conditions.path().child(&format!("[{i}]")).child(field.name());
        let kind = condition.at(Condition::TYPE).str();
        if !ENDS.contains(&kind) {
            errors.push(FieldError::not_supported(&at(Condition::TYPE), kind, &ENDS));
            continue;
        }
        if std::mem::replace(&mut ended, true) {
            let detail = "There may be at most one condition with type \"Issued\", \"Denied\", or \"Failed\"";
            errors.push(FieldError::invalid(&at(Condition::TYPE), kind, detail));
        }
        checks::one_of(&at(Condition::STATUS), condition.at(Condition::STATUS).str(), &["True"], errors);
    }
}
