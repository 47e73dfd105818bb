//! Validation of stateful sets.

use std::collections::HashSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::metadata::{self, shown};
use binnacle_validation::numbers::not_more_than_100_percent;
use binnacle_validation::{checks, selectors};

use crate::Features;
use crate::apps::TEMPLATE;
use crate::core::persistent_volume_claim;
use crate::equality::equal_as;
use crate::internal;
use crate::pod_spec::validation::{self as pod_validation, PodValidationOptions, annotations};
use crate::tree_names::{keep_at, member};
use crate::workload_names::validation::{
    SELECTOR, amount, collision_count, is_empty, lasting, mismatch, not_more, not_negative, number, selects,
};

const SPEC: &str = "io.k8s.api.apps.v1.StatefulSetSpec";
const POLICIES: [&str; 2] = ["OrderedReady", "Parallel"];

/// The fields of a spec that an update may change.
const CHANGEABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

/// The parts of a spec that an update does not validate.
#[derive(Clone, Copy, Default)]
struct Skip {
    service_name: bool,
    template_spec: bool,
    claim_templates: bool,
}

pub(super) fn validate(features: &Features, object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    spec_rules(
        spec,
        &FieldPath::new("spec"),
        &PodValidationOptions::for_template(features),
        Skip::default(),
        &mut errors,
    );
    errors
}

/// Validates an update. A set that was accepted once stays changeable: immutable fields are not validated again.
pub(super) fn validate_update(features: &Features, object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let null = Value::Null;
    let (spec, old_spec) = (object.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    let options = PodValidationOptions::for_update(features, old.at(TEMPLATE).unwrap_or(&null));
    let path = FieldPath::new("spec");
    let mut skip = Skip { service_name: true, claim_templates: true, template_spec: false };
    let mut of_old = FieldErrors::new();
    spec_rules(old_spec, &path, &options, skip, &mut of_old);
    skip.template_spec = !of_old.is_empty();
    spec_rules(spec, &path, &options, skip, &mut errors);

    let mut rest = spec.clone();
    for field in CHANGEABLE {
        keep_at(&mut rest, old_spec, &[field]);
    }
    if !equal_as(SPEC, Some(&rest), Some(old_spec)) {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
        errors.push(FieldError::forbidden(&path, why));
    }
    errors
}

pub(super) fn validate_status(object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status");
    let status = object.get("status").unwrap_or(&Value::Null);
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    not_negative(status, &counts, &path, &mut errors);
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    not_more(status, &parts, "replicas", "cannot be greater than status.replicas", &path, &mut errors);
    let why = "cannot be greater than status.readyReplicas";
    not_more(status, &["availableReplicas"], "readyReplicas", why, &path, &mut errors);
    collision_count(object, old, &mut errors);
    errors
}

fn spec_rules(
    spec: &Value,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    skip: Skip,
    errors: &mut FieldErrors,
) {
    let null = Value::Null;
    match spec.str_at(&["podManagementPolicy"]) {
        "" => errors.push(FieldError::required(&path.child("podManagementPolicy"), "")),
        policy if !POLICIES.contains(&policy) => {
            let why = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid(&path.child("podManagementPolicy"), policy, why));
        }
        _ => {}
    }
    update_strategy(spec.get("updateStrategy").unwrap_or(&null), &path.child("updateStrategy"), errors);
    if let Some(policy) = member(spec, "persistentVolumeClaimRetentionPolicy") {
        for field in ["whenDeleted", "whenScaled"] {
            let at = path.child("persistentVolumeClaimRetentionPolicy").child(field);
            checks::one_of(&at, policy.str_at(&[field]), &["Retain", "Delete"], errors);
        }
    }
    if !skip.claim_templates {
        for (i, claim) in errors.while_room(spec.list_at(&["volumeClaimTemplates"]).iter().enumerate()) {
            let at = path.child("volumeClaimTemplates").index(i).child("spec");
            persistent_volume_claim::validate_spec(claim.get("spec").unwrap_or(&null), &at, errors);
        }
    }
    not_negative(spec, &["replicas", "minReadySeconds"], path, errors);
    if let Some(ordinals) = member(spec, "ordinals") {
        checks::not_negative(&path.child("ordinals").child("start"), ordinals.int_at(&["start"]), errors);
    }
    let service = spec.str_at(&["serviceName"]);
    if !skip.service_name && !service.is_empty() {
        checks::label(&path.child("serviceName"), service, errors);
    }
    selector_and_template(spec, path, options, skip, errors);
}

fn update_strategy(strategy: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("rollingUpdate");
    match (strategy.str_at(&["type"]), member(strategy, "rollingUpdate")) {
        ("", _) => errors.push(FieldError::required(path, "")),
        ("OnDelete", Some(rolling)) => {
            let shown = internal::shown_as("io.k8s.api.apps.v1.RollingUpdateStatefulSetStrategy", Some(rolling));
            errors.push(FieldError::invalid(&at, shown, "only allowed for updateStrategy 'RollingUpdate'"));
        }
        ("RollingUpdate", Some(rolling)) => {
            not_negative(rolling, &["partition"], &at, errors);
            let Some(unavailable) = member(rolling, "maxUnavailable") else { return };
            amount(rolling, "maxUnavailable", &at, errors);
            let at = at.child("maxUnavailable");
            if number(rolling, "maxUnavailable") == 0 {
                errors.push(FieldError::invalid(&at, shown(Some(unavailable)), "cannot be 0"));
            }
            not_more_than_100_percent(&at, unavailable, errors);
        }
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => {
            let shown = internal::shown_as("io.k8s.api.apps.v1.StatefulSetUpdateStrategy", Some(strategy));
            errors.push(FieldError::invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

fn selector_and_template(
    spec: &Value,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    skip: Skip,
    errors: &mut FieldErrors,
) {
    let null = Value::Null;
    let (selector, given) = (member(spec, "selector"), spec.get("template").unwrap_or(&null));
    let at = path.child("selector");
    match selector {
        None => errors.push(FieldError::required(&at, "")),
        Some(selector) => {
            selectors::label_selector(Some(selector), false, &at, errors);
            if is_empty(selector) {
                let why = "empty selector is invalid for statefulset";
                errors.push(FieldError::invalid(&at, internal::shown_as(SELECTOR, Some(selector)), why));
            }
        }
    }
    let template_at = path.child("template");
    match selects(selector, given.at(&["metadata", "labels"])) {
        None => errors.push(FieldError::invalid(&at, shown(selector), "")),
        Some(selected) => {
            if !selected {
                errors.push(mismatch(given, &template_at));
            }
            template(spec, given, &template_at, options, skip, errors);
        }
    }
    lasting(given, "StatefulSet", &template_at, errors);
}

fn template(
    spec: &Value,
    given: &Value,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    skip: Skip,
    errors: &mut FieldErrors,
) {
    if !skip.template_spec {
        pod_validation::template(&as_made(spec, given), path, options, errors);
    }
    // kube-apiserver validates these twice.
    metadata::labels(given.at(&["metadata", "labels"]), &path.child("labels"), errors);
    let at = path.child("annotations");
    metadata::annotations(given.at(&["metadata", "annotations"]), &at, errors);
    let pod = given.get("spec").unwrap_or(&Value::Null);
    annotations::validate(given.object_at(&["metadata", "annotations"]), pod, &at, options, errors);
}

/// Returns the template as the controller uses it: with a volume for each claim, and the pods' own names.
fn as_made(spec: &Value, given: &Value) -> Value {
    let mut template = given.clone();
    let claims = spec.list_at(&["volumeClaimTemplates"]);
    let pod = template.make_at(&["spec"]);
    pod.remove("subdomain");
    pod.remove("hostname");
    if claims.is_empty() {
        return template;
    }
    let mut volumes: Vec<Value> = Vec::with_capacity(claims.len());
    let mut names = HashSet::new();
    for name in claims.iter().map(|claim| claim.str_at(&["metadata", "name"])) {
        if names.insert(name.to_owned()) {
            let source = Object::from_iter([("claimName", name)]);
            volumes.push(
                Object::from_iter([("name", Value::from(name)), ("persistentVolumeClaim", source.into())]).into(),
            );
        }
    }
    for volume in pod.get("volumes").and_then(Value::as_list).unwrap_or(&[]) {
        if !names.contains(volume.str_at(&["name"])) {
            volumes.push(volume.clone());
        }
    }
    pod.insert("volumes", volumes);
    template
}
