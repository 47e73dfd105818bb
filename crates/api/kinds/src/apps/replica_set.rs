//! `ReplicaSet`: keeps a number of pods running.

use binnacle_fields::apps::v1::{self, ReplicaSetSpec as Spec, ReplicaSetStatus as Status};
use binnacle_fields::core::v1::PodTemplateSpec;
use binnacle_fields::meta::v1::LabelSelector;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use crate::gated::drop_disabled;
use crate::internal;
use crate::pod_spec::set_template_defaults;
use crate::pod_spec::validation::PodValidationOptions;
use crate::workload::validation::{
    immutable_selector, labels, lasting_template, mismatch, not_more, not_negative, options_for_update,
    required_selector, selects,
};
use crate::workload::{
    REPLICA_SET_GATED, dns_label_recommended, prepare_create, prepare_subresource, prepare_update, template_warnings,
    validate_subresource,
};
use crate::{Strategy, StrategyContext};

pub(super) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut replica_set = FieldMut::<v1::ReplicaSet>::root(object);
        let mut spec = replica_set.entry(v1::ReplicaSet::SPEC);
        spec.default_nil(Spec::REPLICAS, 1i64);
        set_template_defaults(spec.entry(Spec::TEMPLATE).object());
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        prepare_create(ctx.features, &mut FieldMut::<v1::ReplicaSet>::root(object));
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        prepare_update(ctx.features, &mut FieldMut::<v1::ReplicaSet>::root(object), FieldRef::root(old));
    }

    fn prepare_for_subresource(&self, subresource: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        if !prepare_subresource::<v1::ReplicaSet>(self, subresource, ctx, object, old) {
            drop_disabled(ctx.features, &mut FieldMut::root(object), Some(FieldRef::root(old)), REPLICA_SET_GATED);
        }
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec_rules(FieldRef::root(object), &PodValidationOptions::for_template(ctx.features), &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::<v1::ReplicaSet>::root(object), FieldRef::root(old));
        spec_rules(new, &options_for_update(ctx.features, old), &mut errors);
        let (spec, old_spec) = (new.at(v1::ReplicaSet::SPEC), old.at(v1::ReplicaSet::SPEC));
        immutable_selector(spec.at(Spec::SELECTOR), old_spec.at(Spec::SELECTOR), &mut errors);
        errors
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        ctx: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        validate_subresource(self, subresource, ctx, (object, old), validate_status)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let replica_set = FieldRef::<v1::ReplicaSet>::root(object);
        let mut warnings = if old.is_some() { Vec::new() } else { dns_label_recommended(replica_set) };
        warnings.extend(template_warnings(replica_set, old.map(FieldRef::root)));
        warnings
    }
}

fn spec_rules(replica_set: FieldRef<v1::ReplicaSet>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let spec = replica_set.at(v1::ReplicaSet::SPEC);
    not_negative(spec, &[Spec::REPLICAS, Spec::MIN_READY_SECONDS], errors);
    let (selector, template) = (spec.at(Spec::SELECTOR), spec.at(Spec::TEMPLATE));
    // Messages for replica sets say "deployment" too, as in kube-apiserver.
    replica_template(selector, template, "deployment", options, errors);
}

/// Validates the selector and template of replica sets and deployments.
pub(super) fn replica_template(
    selector: FieldRef<LabelSelector>,
    template: FieldRef<PodTemplateSpec>,
    kind: &str,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    required_selector(selector, kind, errors);
    let Some(selected) = selects(selector, labels(template)) else {
        return errors.push(selector.invalid_as(internal::shown(selector), "invalid label selector"));
    };
    if !selected {
        errors.push(mismatch(template));
    }
    lasting_template(template, "ReplicaSet", options, errors);
}

fn validate_status(new: FieldRef<v1::ReplicaSet>, _: FieldRef<v1::ReplicaSet>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let status = new.at(v1::ReplicaSet::STATUS);
    let counts = [
        Status::REPLICAS,
        Status::FULLY_LABELED_REPLICAS,
        Status::READY_REPLICAS,
        Status::AVAILABLE_REPLICAS,
        Status::OBSERVED_GENERATION,
        Status::TERMINATING_REPLICAS,
    ];
    not_negative(status, &counts, &mut errors);
    let parts = [Status::FULLY_LABELED_REPLICAS, Status::READY_REPLICAS, Status::AVAILABLE_REPLICAS];
    not_more(status, &parts, Status::REPLICAS, "cannot be greater than status.replicas", &mut errors);
    let why = "cannot be greater than readyReplicas";
    let ready = Status::READY_REPLICAS;
    not_more(status, &[Status::AVAILABLE_REPLICAS], ready, why, &mut errors);
    errors
}
