//! `ReplicationController`: keeps a number of pods running, superseded by replica sets.

use binnacle_fields::core::v1::{
    PodTemplateSpec, ReplicationController as Controller, ReplicationControllerSpec as Spec,
    ReplicationControllerStatus as Status,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Map, Str};
use binnacle_fields::{Field, FieldMut, FieldRef, Message};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};
use binnacle_validation::{checks, names};

use crate::pod_spec::set_template_defaults;
use crate::pod_spec::validation::PodValidationOptions;
use crate::workload::validation::{lasting_template, mismatch, not_more, not_negative, options_for_update};
use crate::workload::{
    dns_label_recommended, has_same_generation, prepare_create, prepare_subresource, prepare_update, template_warnings,
    validate_subresource,
};
use crate::{Features, Strategy, StrategyContext};

pub(super) struct ReplicationController;

impl Strategy for ReplicationController {
    /// A bad prefix shows in the generated name, where it is reported.
    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        if prefix { Vec::new() } else { names::long_name(name) }
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut controller = FieldMut::<Controller>::root(object);
        default_labels(&mut controller);
        let mut spec = controller.entry(Controller::SPEC);
        spec.default_nil(Spec::REPLICAS, 1i64);
        if let Some(mut template) = spec.structure(Spec::TEMPLATE) {
            set_template_defaults(template.object());
        }
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        prepare_create(ctx.features, &mut FieldMut::<Controller>::root(object));
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        prepare_update(ctx.features, &mut FieldMut::<Controller>::root(object), FieldRef::root(old));
    }

    fn prepare_for_subresource(&self, subresource: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        prepare_subresource::<Controller>(self, subresource, ctx, object, old);
        // Go sets defaults of the stored object, which has the old template again.
        default_labels(&mut FieldMut::root(object));
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        spec_rules(FieldRef::root(object), &PodValidationOptions::for_template(ctx.features))
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let old = FieldRef::<Controller>::root(old);
        spec_rules(FieldRef::root(object), &options_for_update(ctx.features, old))
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
        let controller = FieldRef::<Controller>::root(object);
        match old.map(FieldRef::root) {
            None => {
                let mut warnings = dns_label_recommended(controller);
                warnings.extend(template_warnings(controller, None));
                warnings
            }
            // On updates, kube-apiserver checks the old template.
            Some(old) if !has_same_generation(controller, old) => template_warnings(old, None),
            Some(_) => Vec::new(),
        }
    }
}

/// Sets the selector and the labels to those of the template.
fn default_labels(controller: &mut FieldMut<Controller>) {
    let given = controller.read();
    let spec = given.at(Controller::SPEC);
    let labels = spec.at(Spec::TEMPLATE).at(PodTemplateSpec::METADATA).at(ObjectMeta::LABELS).object().cloned();
    if let Some(labels) = labels {
        fill(controller.entry(Controller::SPEC), Spec::SELECTOR, &labels);
        fill(controller.entry(Controller::METADATA), ObjectMeta::LABELS, &labels);
    }
}

fn spec_rules(controller: FieldRef<Controller>, options: &PodValidationOptions<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = controller.at(Controller::SPEC);
    not_negative(spec, &[Spec::MIN_READY_SECONDS], &mut errors);
    let selector = spec.at(Spec::SELECTOR);
    if selector.is_empty() {
        errors.push(selector.required(""));
    }
    let replicas = spec.at(Spec::REPLICAS);
    match replicas.int() {
        None => errors.push(replicas.required("")),
        count => checks::not_negative(&replicas, count, &mut errors),
    }
    // The template may be absent in this kind.
    let template = spec.at(Spec::TEMPLATE);
    if !template.is_set() {
        errors.push(template.required(""));
        return errors;
    }
    let labels = template.at(PodTemplateSpec::METADATA).at(ObjectMeta::LABELS).value();
    if !selector.entries().all(|(key, value)| labels.get(key) == Some(value.value())) {
        errors.push(mismatch(template));
    }
    lasting_template(template, "ReplicationController", options, &mut errors);
    errors
}

fn validate_status(controller: FieldRef<Controller>, _: FieldRef<Controller>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let status = controller.at(Controller::STATUS);
    let parts = [Status::FULLY_LABELED_REPLICAS, Status::READY_REPLICAS, Status::AVAILABLE_REPLICAS];
    not_negative(status, &[Status::REPLICAS], &mut errors);
    not_negative(status, &parts, &mut errors);
    not_negative(status, &[Status::OBSERVED_GENERATION], &mut errors);
    not_more(status, &parts, Status::REPLICAS, "cannot be greater than status.replicas", &mut errors);
    let why = "cannot be greater than readyReplicas";
    not_more(status, &[Status::AVAILABLE_REPLICAS], Status::READY_REPLICAS, why, &mut errors);
    errors
}

fn fill<M: Message>(mut holder: FieldMut<M>, field: Field<M, Map<Str>>, labels: &Object) {
    let map = holder.map_entry(field);
    if map.is_empty() {
        *map = labels.clone();
    }
}
