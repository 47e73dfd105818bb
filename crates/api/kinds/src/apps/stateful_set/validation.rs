//! Validation of stateful sets.

use std::collections::HashSet;

use binnacle_fields::apps::v1::{
    RollingUpdateStatefulSetStrategy as RollingUpdate, StatefulSet, StatefulSetOrdinals as Ordinals,
    StatefulSetPersistentVolumeClaimRetentionPolicy as RetentionPolicy, StatefulSetSpec as Spec,
    StatefulSetStatus as Status, StatefulSetUpdateStrategy as UpdateStrategy,
};
use binnacle_fields::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec, Volume,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, Route, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::numbers::not_more_than_100_percent;
use binnacle_validation::{checks, metadata};

use crate::Features;
use crate::equality::equal;
use crate::internal;
use crate::pod_spec::validation::{self as pod_validation, PodValidationOptions, annotations};
use crate::volume_claims;
use crate::workload::validation::{
    amount, collision_count, labels, lasting, mismatch, not_more, not_negative, number, options_for_update,
    required_selector, selects,
};

const POLICIES: [&str; 2] = ["OrderedReady", "Parallel"];

/// The fields of a spec that an update may change.
const CHANGEABLE: [Route<Spec>; 7] = [
    route![Spec::REPLICAS],
    route![Spec::TEMPLATE],
    route![Spec::UPDATE_STRATEGY],
    route![Spec::MIN_READY_SECONDS],
    route![Spec::ORDINALS],
    route![Spec::REVISION_HISTORY_LIMIT],
    route![Spec::PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY],
];

/// The parts of a spec that an update does not validate.
#[derive(Clone, Copy, Default)]
struct SkippedRules {
    service_name: bool,
    template_spec: bool,
    claim_templates: bool,
}

pub(super) fn validate(features: &Features, set: FieldRef<StatefulSet>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let options = PodValidationOptions::for_template(features);
    spec_rules(set.at(StatefulSet::SPEC), &options, SkippedRules::default(), &mut errors);
    errors
}

/// Validates an update. Immutable fields are not validated again, so that every stored set can be updated.
pub(super) fn validate_update(
    features: &Features,
    new: FieldRef<StatefulSet>,
    old: FieldRef<StatefulSet>,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, old_spec) = (new.at(StatefulSet::SPEC), old.at(StatefulSet::SPEC));
    let options = options_for_update(features, old);
    let mut skip = SkippedRules { service_name: true, claim_templates: true, template_spec: false };
    let mut of_old = FieldErrors::new();
    spec_rules(old_spec, &options, skip, &mut of_old);
    skip.template_spec = !of_old.is_empty();
    spec_rules(spec, &options, skip, &mut errors);

    let mut rest = spec.value().clone();
    let mut rest = FieldMut::root(&mut rest);
    CHANGEABLE.iter().for_each(|field| rest.keep_at(old_spec, *field));
    if !equal(rest.read(), old_spec) {
        errors.push(spec.forbidden("updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"));
    }
    errors
}

pub(super) fn validate_status(new: FieldRef<StatefulSet>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let status = new.at(StatefulSet::STATUS);
    let parts =
        [Status::READY_REPLICAS, Status::CURRENT_REPLICAS, Status::UPDATED_REPLICAS, Status::AVAILABLE_REPLICAS];
    not_negative(status, &[Status::REPLICAS], &mut errors);
    not_negative(status, &parts, &mut errors);
    not_negative(status, &[Status::OBSERVED_GENERATION, Status::COLLISION_COUNT], &mut errors);
    not_more(status, &parts, Status::REPLICAS, "cannot be greater than status.replicas", &mut errors);
    let why = "cannot be greater than status.readyReplicas";
    not_more(status, &[Status::AVAILABLE_REPLICAS], Status::READY_REPLICAS, why, &mut errors);
    errors
}

pub(super) fn validate_collision_count(
    new: FieldRef<StatefulSet>,
    old: FieldRef<StatefulSet>,
    errors: &mut FieldErrors,
) {
    let (status, old) = (new.at(StatefulSet::STATUS), old.at(StatefulSet::STATUS));
    collision_count(status.at(Status::COLLISION_COUNT), old.at(Status::COLLISION_COUNT), errors);
}

fn spec_rules(spec: FieldRef<Spec>, options: &PodValidationOptions<'_>, skip: SkippedRules, errors: &mut FieldErrors) {
    let policy = spec.at(Spec::POD_MANAGEMENT_POLICY);
    if policy.is_empty() {
        errors.push(policy.required(""));
    } else if !POLICIES.contains(&policy.str()) {
        errors.push(policy.invalid_as(checks::of_named_type(policy.str()), "must be 'OrderedReady' or 'Parallel'"));
    }
    update_strategy(spec.at(Spec::UPDATE_STRATEGY), errors);
    let retention = spec.at(Spec::PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY);
    if retention.is_set() {
        for field in [RetentionPolicy::WHEN_DELETED, RetentionPolicy::WHEN_SCALED] {
            let policy = retention.at(field);
            checks::one_of(&policy, policy.str(), &["Retain", "Delete"], errors);
        }
    }
    if !skip.claim_templates {
        for claim in errors.while_room(spec.at(Spec::VOLUME_CLAIM_TEMPLATES).items()) {
            volume_claims::validate_spec(claim.at(PersistentVolumeClaim::SPEC), errors);
        }
    }
    not_negative(spec, &[Spec::REPLICAS, Spec::MIN_READY_SECONDS], errors);
    not_negative(spec.at(Spec::ORDINALS), &[Ordinals::START], errors);
    let service = spec.at(Spec::SERVICE_NAME);
    if !skip.service_name && !service.is_empty() {
        checks::label(&service, service.str(), errors);
    }
    selector_and_template(spec, options, skip, errors);
}

fn update_strategy(strategy: FieldRef<UpdateStrategy>, errors: &mut FieldErrors) {
    let rolling = strategy.at(UpdateStrategy::ROLLING_UPDATE);
    match strategy.at(UpdateStrategy::TYPE).str() {
        "" => errors.push(strategy.required("")),
        "OnDelete" if rolling.is_set() => {
            let shown = internal::shown(rolling);
            errors.push(rolling.invalid_as(shown, "only allowed for updateStrategy 'RollingUpdate'"));
        }
        "RollingUpdate" => {
            not_negative(rolling, &[RollingUpdate::PARTITION], errors);
            let unavailable = rolling.at(RollingUpdate::MAX_UNAVAILABLE);
            amount(unavailable, errors);
            if unavailable.is_set() && number(unavailable) == 0 {
                errors.push(unavailable.invalid("cannot be 0"));
            }
            not_more_than_100_percent(&unavailable, unavailable.value(), errors);
        }
        "OnDelete" => {}
        _ => {
            let shown = internal::shown(strategy);
            errors.push(strategy.invalid_as(shown, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

fn selector_and_template(
    spec: FieldRef<Spec>,
    options: &PodValidationOptions<'_>,
    skip: SkippedRules,
    errors: &mut FieldErrors,
) {
    let (selector, given) = (spec.at(Spec::SELECTOR), spec.at(Spec::TEMPLATE));
    required_selector(selector, "statefulset", errors);
    match selects(selector, labels(given)) {
        None => errors.push(selector.invalid_as(internal::shown(selector), "")),
        Some(selected) => {
            if !selected {
                errors.push(mismatch(given));
            }
            template(spec, options, skip, errors);
        }
    }
    lasting(given, "StatefulSet", errors);
}

fn template(spec: FieldRef<Spec>, options: &PodValidationOptions<'_>, skip: SkippedRules, errors: &mut FieldErrors) {
    let given = spec.at(Spec::TEMPLATE);
    if !skip.template_spec {
        pod_validation::template(FieldRef::located(&as_made(spec), &given.path()), options, errors);
    }
    // kube-apiserver validates these twice, and its paths do not name the metadata.
    let own = given.at(PodTemplateSpec::METADATA).located_at(&given);
    metadata::validate_labels(own.at(ObjectMeta::LABELS), errors);
    metadata::validate_annotations(own.at(ObjectMeta::ANNOTATIONS), errors);
    annotations::validate(own.at(ObjectMeta::ANNOTATIONS), given.at(PodTemplateSpec::SPEC), options, errors);
}

/// Returns the template as the controller uses it: with a volume for each claim, and the pods' own names.
fn as_made(spec: FieldRef<Spec>) -> Value {
    let mut made = spec.at(Spec::TEMPLATE).value().clone();
    let mut template = FieldMut::<PodTemplateSpec>::root(&mut made);
    let mut pod = template.entry(PodTemplateSpec::SPEC);
    pod.remove(PodSpec::SUBDOMAIN);
    pod.remove(PodSpec::HOSTNAME);
    let claims = spec.at(Spec::VOLUME_CLAIM_TEMPLATES);
    if !claims.is_empty() {
        let mut names = HashSet::new();
        let mut volumes: Vec<Value> = Vec::with_capacity(claims.len());
        for claim in claims.items() {
            let name = claim.at(PersistentVolumeClaim::METADATA).at(ObjectMeta::NAME).str();
            if names.insert(name) {
                volumes.push(volume_of(name));
            }
        }
        let given = pod.read();
        let given = given.at(PodSpec::VOLUMES);
        let others = given.items().filter(|volume| !names.contains(volume.at(Volume::NAME).str()));
        volumes.extend(others.map(|volume| volume.value().clone()));
        pod.set(PodSpec::VOLUMES, volumes);
    }
    made
}

/// Returns the volume of a claim.
fn volume_of(claim: &str) -> Value {
    FieldMut::build(|mut volume| {
        volume.set(Volume::NAME, claim);
        let mut source = volume.entry(Volume::PERSISTENT_VOLUME_CLAIM);
        source.set(PersistentVolumeClaimVolumeSource::CLAIM_NAME, claim);
    })
}
