//! `ReplicationController`: keeps a number of pods running, superseded by replica sets.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::{checks, names};

use crate::pod_spec::set_template_defaults;
use crate::pod_spec::validation::PodValidationOptions;
use crate::tree_names::{default_nil, member, struct_mut};
use crate::workload_names::validation::{lasting_template, mismatch, not_more, not_negative};
use crate::workload_names::{
    dns_label_recommended, prepare_create, prepare_subresource, prepare_update, template_warnings, validate_subresource,
};
use crate::{Features, Strategy, StrategyContext};

/// The path of the template, which may be absent in this kind.
const TEMPLATE: &[&str] = &["spec", "template"];

pub(super) struct ReplicationController;

impl Strategy for ReplicationController {
    /// A bad prefix shows in the generated name, where it is reported.
    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        if prefix { Vec::new() } else { names::long_name(name) }
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(labels) = object.object_at(&["spec", "template", "metadata", "labels"]).cloned() {
            fill(object.make_at(&["spec"]), "selector", &labels);
            fill(object.make_at(&["metadata"]), "labels", &labels);
        }
        let spec = object.make_at(&["spec"]);
        default_nil(spec, "replicas", 1i64);
        if let Some(template) = struct_mut(spec, "template") {
            set_template_defaults(template);
        }
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        prepare_create(situation.features, object, TEMPLATE);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        prepare_update(situation.features, object, old, TEMPLATE, "io.k8s.api.core.v1.ReplicationControllerSpec");
    }

    fn prepare_for_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &mut Value,
        old: &Value,
    ) {
        prepare_subresource(self, subresource, situation, object, old);
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        spec_rules(object, &PodValidationOptions::for_template(situation.features))
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        spec_rules(
            object,
            &PodValidationOptions::for_update(situation.features, old.at(TEMPLATE).unwrap_or(&Value::Null)),
        )
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        validate_subresource(self, subresource, situation, (object, old), |object, _| validate_status(object))
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let generation = |object: &Value| object.int_at(&["metadata", "generation"]);
        match old {
            None => {
                let mut warnings = dns_label_recommended(object);
                warnings.extend(template_warnings(object, None, TEMPLATE));
                warnings
            }
            // On updates, kube-apiserver checks the old template.
            Some(old) if generation(old) != generation(object) => template_warnings(old, None, TEMPLATE),
            Some(_) => Vec::new(),
        }
    }
}

fn spec_rules(object: &Value, options: &PodValidationOptions<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    not_negative(spec, &["minReadySeconds"], &path, &mut errors);
    let labels = spec.object_at(&["selector"]).filter(|labels| !labels.is_empty());
    if labels.is_none() {
        errors.push(FieldError::required(&path.child("selector"), ""));
    }
    match spec.int_at(&["replicas"]) {
        None => errors.push(FieldError::required(&path.child("replicas"), "")),
        replicas => checks::not_negative(&path.child("replicas"), replicas, &mut errors),
    }
    let at = path.child("template");
    let Some(template) = member(spec, "template") else {
        errors.push(FieldError::required(&at, ""));
        return errors;
    };
    let own = template.at(&["metadata", "labels"]);
    let selected = |key: &str, value: &Value| own.and_then(|own| own.get(key)) == Some(value);
    if labels.is_some_and(|labels| !labels.iter().all(|(key, value)| selected(key, value))) {
        errors.push(mismatch(template, &at));
    }
    lasting_template(template, "ReplicationController", &at, options, &mut errors);
    errors
}

fn validate_status(object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status");
    let status = object.get("status").unwrap_or(&Value::Null);
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    not_negative(status, &["replicas"], &path, &mut errors);
    not_negative(status, &parts, &path, &mut errors);
    not_negative(status, &["observedGeneration"], &path, &mut errors);
    not_more(status, &parts, "replicas", "cannot be greater than status.replicas", &path, &mut errors);
    let why = "cannot be greater than readyReplicas";
    not_more(status, &["availableReplicas"], "readyReplicas", why, &path, &mut errors);
    errors
}

fn fill(object: &mut Object, name: &str, labels: &Object) {
    if object.get(name).and_then(Value::as_object).is_none_or(Object::is_empty) {
        object.insert(name, labels.clone());
    }
}
