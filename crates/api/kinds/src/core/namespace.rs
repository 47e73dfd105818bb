//! `Namespace`: the scope of names.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value, value};
use binnacle_validation::{checks, metadata, names};

use crate::Features;
use crate::tree_names::{default_zero, keep, keep_at, struct_mut, text};
use crate::{MetadataChecks, Strategy, StrategyContext};

const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) struct Namespace;

impl Strategy for Namespace {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        label_with_name(object);
        default_zero(object.make_at(&["status"]), "phase", "Active");
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        // A generated name is known from here on.
        label_with_name(object);
        object.make_object().insert("status", value!({"phase": "Active"}));
        let spec = object.make_at(&["spec"]);
        let finalizers = spec.get("finalizers").and_then(Value::as_list).unwrap_or(&[]);
        if !finalizers.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER)) {
            // Not a default, because the finalizer is removed later.
            let mut all = finalizers.to_vec();
            all.push(FINALIZER.into());
            spec.insert("finalizers", all);
        }
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        // Admission may have removed the label.
        label_with_name(object);
        keep_at(object, old, &["spec", "finalizers"]);
        keep(object, old, "status");
    }

    /// Keeps the status in `finalize`, the only subresource that changes `spec.finalizers`, and the spec in others.
    fn prepare_for_subresource(&self, subresource: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, if subresource == "finalize" { "status" } else { "spec" });
    }

    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        names::dns1123_label_name(name, prefix)
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("spec").child("finalizers");
        object
            .list_at(&["spec", "finalizers"])
            .iter()
            .filter_map(Value::as_str)
            .for_each(|f| finalizer(f, &path, &mut errors));
        errors
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        _: &StrategyContext<'_>,
        object: &Value,
        _: &Value,
    ) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if subresource == "finalize" {
            let path = FieldPath::new("spec").child("finalizers");
            for (i, name) in
                errors.while_room(object.list_at(&["spec", "finalizers"]).iter().filter_map(Value::as_str).enumerate())
            {
                finalizer(name, &path.index(i), &mut errors);
            }
            return errors;
        }
        let deleting = object.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null());
        let (phase, why) = if deleting {
            ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
        } else {
            ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
        };
        let given = object.str_at(&["status", "phase"]);
        if given != phase {
            errors.push(FieldError::invalid(&FieldPath::new("status").child("Phase"), given, why));
        }
        errors
    }
}

/// Validates a finalizer, which needs a domain unless it is a system finalizer.
fn finalizer(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    checks::qualified_name(path, name, errors);
    if metadata::lacks_domain(name) {
        errors.push(FieldError::invalid(path, name, metadata::NO_DOMAIN));
    }
}

/// Adds the name as a label, because selectors only match labels.
fn label_with_name(object: &mut Value) {
    let metadata = object.make_at(&["metadata"]);
    let name = text(metadata, "name").to_owned();
    if name.is_empty() {
        return;
    }
    match struct_mut(metadata, "labels") {
        Some(labels) => {
            labels.insert(NAME_LABEL, name);
        }
        None => {
            metadata.insert("labels", Object::from_iter([(NAME_LABEL, name)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create() {
        let mut object =
            value!({"metadata": {"name": "a"}, "spec": {"finalizers": ["x/y"]}, "status": {"phase": "Terminating"}});
        Namespace.set_defaults("v1", &mut object);
        Namespace.prepare_for_create(&crate::testing::situation(""), &mut object);
        assert_eq!(
            object,
            value!({
                "metadata": {"name": "a", "labels": {"kubernetes.io/metadata.name": "a"}},
                "spec": {"finalizers": ["x/y", "kubernetes"]},
                "status": {"phase": "Active"}
            })
        );
    }
}
