//! `Namespace`: the scope of names.

use binnacle_fields::core::v1::{self, NamespaceSpec as Spec, NamespaceStatus as Status};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::{FieldError, FieldErrors, Location};
use binnacle_schema::Value;
use binnacle_validation::{checks, metadata, names};

use crate::Features;
use crate::{MetadataChecks, Strategy, StrategyContext};

const FINALIZER: &str = "kubernetes";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) struct Namespace;

impl Strategy for Namespace {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut namespace = FieldMut::root(object);
        label_with_name(&mut namespace);
        namespace.entry(v1::Namespace::STATUS).default_zero(Status::PHASE, "Active");
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        let mut namespace = FieldMut::root(object);
        // A generated name is set by now.
        label_with_name(&mut namespace);
        namespace.remove(v1::Namespace::STATUS);
        namespace.entry(v1::Namespace::STATUS).set(Status::PHASE, "Active");
        let mut spec = namespace.entry(v1::Namespace::SPEC);
        if !spec.read().at(Spec::FINALIZERS).contains(FINALIZER) {
            // Not a default, because the finalizer is removed later.
            let mut all = spec.read().at(Spec::FINALIZERS).list().to_vec();
            all.push(FINALIZER.into());
            spec.set(Spec::FINALIZERS, all);
        }
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut namespace, old) = (FieldMut::root(object), FieldRef::root(old));
        // Admission may have removed the label.
        label_with_name(&mut namespace);
        namespace.keep_at(old, route![v1::Namespace::SPEC, Spec::FINALIZERS]);
        namespace.keep(old, v1::Namespace::STATUS);
    }

    /// Keeps the status in `finalize`, the only subresource that changes `spec.finalizers`, and the spec in others.
    fn prepare_for_subresource(&self, subresource: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut namespace, old) = (FieldMut::root(object), FieldRef::root(old));
        match subresource {
            "finalize" => namespace.keep(old, v1::Namespace::STATUS),
            _ => namespace.keep(old, v1::Namespace::SPEC),
        }
    }

    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        names::dns1123_label_name(name, prefix)
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let namespace = FieldRef::<v1::Namespace>::root(object);
        let spec = namespace.at(v1::Namespace::SPEC);
        let finalizers = spec.at(Spec::FINALIZERS);
        // kube-apiserver leaves the index out of the path.
        finalizers.strs().for_each(|name| finalizer(&finalizers, name, &mut errors));
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
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
        let namespace = FieldRef::<v1::Namespace>::root(object);
        if subresource == "finalize" {
            for name in errors.while_room(namespace.at(v1::Namespace::SPEC).at(Spec::FINALIZERS).items()) {
                finalizer(&name, name.str(), &mut errors);
            }
            return errors;
        }
        let (metadata, status) = (namespace.at(v1::Namespace::METADATA), namespace.at(v1::Namespace::STATUS));
        let (phase, why) = if metadata.at(ObjectMeta::DELETION_TIMESTAMP).is_set() {
            ("Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty")
        } else {
            ("Active", "may only be 'Active' if `deletionTimestamp` is empty")
        };
        let given = status.at(Status::PHASE).reported_as("Phase");
        if given.str() != phase {
            errors.push(given.invalid_as(checks::of_named_type(given.str()), why));
        }
        errors
    }
}

/// Validates a finalizer, which needs a domain unless it is a system finalizer.
fn finalizer(location: &dyn Location, name: &str, errors: &mut FieldErrors) {
    checks::qualified_name(location, name, errors);
    if metadata::lacks_domain(name) {
        errors.push(FieldError::invalid(location, name, metadata::NO_DOMAIN));
    }
}

/// Adds the name as a label, because selectors only match labels.
fn label_with_name(namespace: &mut FieldMut<v1::Namespace>) {
    let mut metadata = namespace.entry(v1::Namespace::METADATA);
    let name = metadata.str(ObjectMeta::NAME).to_owned();
    if !name.is_empty() {
        metadata.map_entry(ObjectMeta::LABELS).insert(NAME_LABEL, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn prepares_new_namespaces() {
        let mut object =
            value!({"metadata": {"name": "a"}, "spec": {"finalizers": ["x/y"]}, "status": {"phase": "Terminating"}});
        Namespace.set_defaults("v1", &mut object);
        Namespace.prepare_for_create(&crate::testing::ctx(""), &mut object);
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
