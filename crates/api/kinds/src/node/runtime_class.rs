//! RuntimeClass: a way to run the containers of a pod.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::repeated;
use binnacle_validation::{checks, metadata, resource_names, tolerations};

use super::deprecated_label;
use crate::checks::{immutable_value, member, present};
use crate::{MetadataCheck, MetadataChecks, Strategy, StrategyContext, internal};

pub(crate) struct RuntimeClass;

impl Strategy for RuntimeClass {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        use MetadataCheck::{Change, Domains, Whole};
        MetadataChecks { main: &[Change, Whole, Domains], ..MetadataChecks::CHANGE }
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (handler, path) = (object.str_at(&["handler"]), FieldPath::new("handler"));
        if handler.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else {
            checks::label(&path, handler, &mut errors);
        }
        overhead(member(object, "overhead"), &mut errors);
        if let Some(scheduling) = present(object, "scheduling") {
            let path = FieldPath::new("scheduling");
            metadata::labels(scheduling.get("nodeSelector"), &path.child("nodeSelector"), &mut errors);
            validate_tolerations(scheduling.list_at(&["tolerations"]), &path.child("tolerations"), &mut errors);
        }
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        immutable_value(&FieldPath::new("handler"), object.get("handler"), old.get("handler"), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let labels = object.object_at(&["scheduling", "nodeSelector"]).into_iter().flat_map(|labels| labels.keys());
        labels.filter_map(|key| deprecated_label(key)).map(|m| format!("scheduling.nodeSelector: {m}")).collect()
    }
}

/// Validates the overhead of a runtime class like the limits of a container.
fn overhead(overhead: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("overhead");
    let amounts = overhead.object_at(&["podFixed"]);
    let (mut compute, mut huge_pages) = (false, false);
    for (name, amount) in errors.while_room(amounts.into_iter().flat_map(|amounts| amounts.iter())) {
        let at = path.child("limits").key(name);
        let amount = amount.as_str().unwrap_or_default();
        resource_names::of_containers(&at, name, errors);
        resource_names::amount(&at, name, amount, errors);
        resource_names::huge_pages(&at, name, amount, errors);
        huge_pages |= resource_names::is_huge_pages(name);
        compute |= matches!(name.as_str(), "cpu" | "memory");
    }
    if huge_pages && !compute {
        errors.push(FieldError::forbidden(&path, "HugePages require cpu or memory"));
    }
}

fn validate_tolerations(tolerations: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    tolerations::tolerations(tolerations, false, path, errors);
    let identity =
        |toleration: &Value| ["key", "operator", "value", "effect"].map(|field| toleration.str_at(&[field]).to_owned());
    let repeated = repeated(tolerations, identity);
    for (i, toleration) in errors.while_room(tolerations.iter().enumerate()) {
        if repeated[i] {
            let shown = internal::shown_as("io.k8s.api.core.v1.Toleration", Some(toleration));
            errors.push(FieldError::duplicate(&path.index(i), shown));
        }
    }
}
