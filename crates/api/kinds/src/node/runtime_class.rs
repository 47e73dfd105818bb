//! RuntimeClass: a way to run the containers of a pod.

use std::collections::HashSet;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::Toleration;
use binnacle_fields::node::v1::{Overhead, RuntimeClass as Class, Scheduling};
use binnacle_fields::types::List;
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::{checks, metadata, resource_names, tolerations};

use super::deprecated_label;
use crate::checks::immutable;
use crate::{MetadataChecks, Strategy, StrategyContext, internal};

pub(crate) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let class = FieldRef::root(object);
        let (handler, scheduling) = (class.at(Class::HANDLER), class.at(Class::SCHEDULING));
        if handler.is_empty() {
            errors.push(handler.required(""));
        } else {
            checks::label(&handler, handler.str(), &mut errors);
        }
        validate_overhead(class.at(Class::OVERHEAD), &mut errors);
        metadata::validate_labels(scheduling.at(Scheduling::NODE_SELECTOR), &mut errors);
        validate_tolerations(scheduling.at(Scheduling::TOLERATIONS), &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        immutable(new.at(Class::HANDLER), old.at(Class::HANDLER), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let class = FieldRef::root(object);
        let scheduling = class.at(Class::SCHEDULING);
        let labels = scheduling.at(Scheduling::NODE_SELECTOR);
        labels
            .entries()
            .filter_map(|(key, _)| deprecated_label(key))
            .map(|m| format!("scheduling.nodeSelector: {m}"))
            .collect()
    }
}

/// Validates the overhead of a runtime class like the limits of a container.
fn validate_overhead(overhead: FieldRef<Overhead>, errors: &mut FieldErrors) {
    // kube-apiserver reports them as limits.
    let amounts = overhead.at(Overhead::POD_FIXED).reported_as("limits");
    let (mut compute, mut huge_pages) = (false, false);
    for (name, amount) in errors.while_room(amounts.entries()) {
        resource_names::of_containers(&amount, name, errors);
        resource_names::amount(&amount, name, amount.str(), errors);
        resource_names::huge_pages(&amount, name, amount.str(), errors);
        huge_pages |= resource_names::is_huge_pages(name);
        compute |= matches!(name, "cpu" | "memory");
    }
    if huge_pages && !compute {
        errors.push(overhead.forbidden("HugePages require cpu or memory"));
    }
}

fn validate_tolerations(list: FieldRef<List<Toleration>>, errors: &mut FieldErrors) {
    tolerations::validate(list.items(), false, errors);
    let mut seen = HashSet::new();
    for toleration in errors.while_room(list.items()) {
        let identity = [Toleration::KEY, Toleration::OPERATOR, Toleration::VALUE, Toleration::EFFECT];
        if !seen.insert(identity.map(|field| toleration.at(field).str())) {
            errors.push(FieldError::duplicate(&toleration, internal::shown(toleration)));
        }
    }
}
