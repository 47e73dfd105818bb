//! `ReplicaSet`: keeps a number of pods running.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use binnacle_validation::metadata::shown;

use super::TEMPLATE;
use crate::gated::drop_disabled;
use crate::pod_spec::set_template_defaults;
use crate::pod_spec::validation::PodValidationOptions;
use crate::tree::{default_nil, member};
use crate::workload::validation::{
    immutable_selector, lasting_template, mismatch, not_more, not_negative, required_selector, selects,
};
use crate::workload::{
    REPLICAS_GATED, dns_label_recommended, prepare_create, prepare_subresource, prepare_update, template_warnings,
    validate_subresource,
};
use crate::{Strategy, StrategyContext};

pub(super) struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        default_nil(spec, "replicas", 1i64);
        set_template_defaults(spec.object_entry("template"));
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        prepare_create(situation.features, object, TEMPLATE);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        prepare_update(situation.features, object, old, TEMPLATE, "io.k8s.api.apps.v1.ReplicaSetSpec");
    }

    fn prepare_for_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &mut Value,
        old: &Value,
    ) {
        if !prepare_subresource(self, subresource, situation, object, old) {
            drop_disabled(situation.features, object, Some(old), REPLICAS_GATED);
        }
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec_rules(object, &PodValidationOptions::for_template(situation.features), &mut errors);
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec_rules(
            object,
            &PodValidationOptions::for_update(situation.features, old.at(TEMPLATE).unwrap_or(&Value::Null)),
            &mut errors,
        );
        immutable_selector(object, old, &mut errors);
        errors
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        validate_subresource(self, subresource, situation, (object, old), validate_status)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = if old.is_some() { Vec::new() } else { dns_label_recommended(object) };
        warnings.extend(template_warnings(object, old, &["spec", "template"]));
        warnings
    }
}

fn spec_rules(object: &Value, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    not_negative(spec, &["replicas", "minReadySeconds"], &path, errors);
    // Messages for replica sets say "deployment" too, as in kube-apiserver.
    replica_template(spec, "deployment", &path, options, errors);
}

/// Validates the selector and template of replica sets and deployments.
pub(super) fn replica_template(
    spec: &Value,
    kind: &str,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    required_selector(spec, kind, path, errors);
    let null = Value::Null;
    let template = spec.get("template").unwrap_or(&null);
    let selector = member(spec, "selector");
    let Some(selected) = selects(selector, template.at(&["metadata", "labels"])) else {
        let at = path.child("selector");
        return errors.push(FieldError::invalid(&at, shown(selector), "invalid label selector"));
    };
    let path = path.child("template");
    if !selected {
        errors.push(mismatch(template, &path));
    }
    lasting_template(template, "ReplicaSet", &path, options, errors);
}

fn validate_status(object: &Value, _: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status");
    let status = object.get("status").unwrap_or(&Value::Null);
    let counts = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    not_negative(status, &counts, &path, &mut errors);
    let parts = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    not_more(status, &parts, "replicas", "cannot be greater than status.replicas", &path, &mut errors);
    let why = "cannot be greater than readyReplicas";
    not_more(status, &["availableReplicas"], "readyReplicas", why, &path, &mut errors);
    errors
}
