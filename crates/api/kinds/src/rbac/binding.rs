//! RoleBinding and ClusterRoleBinding: the subjects that have a role.

use binnacle_fields::rbac::v1::{RoleBinding as Binding, RoleRef, Subject};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::checks;

use super::validate_name;
use crate::Features;
use crate::{MetadataChecks, Strategy, StrategyContext, internal};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) struct ClusterRoleBinding;

pub(crate) struct RoleBinding;

impl Strategy for ClusterRoleBinding {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(FieldMut::root(object));
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(FieldRef::root(object), &["ClusterRole"], false)
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
        same_role(FieldRef::root(object), FieldRef::root(old), &mut errors);
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, _: bool) -> Vec<String> {
        validate_name(name)
    }
}

impl Strategy for RoleBinding {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(FieldMut::root(object));
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(FieldRef::root(object), &["Role", "ClusterRole"], true)
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
        same_role(FieldRef::root(object), FieldRef::root(old), &mut errors);
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, _: bool) -> Vec<String> {
        validate_name(name)
    }
}

// Cluster role bindings have the fields of role bindings, and their rules read them as such.

fn set_defaults(mut binding: FieldMut<Binding>) {
    binding.entry(Binding::ROLE_REF).default_zero(RoleRef::API_GROUP, GROUP);
    for mut subject in binding.items(Binding::SUBJECTS) {
        if matches!(subject.str(Subject::KIND), "User" | "Group") {
            subject.default_zero(Subject::API_GROUP, GROUP);
        }
    }
}

fn validate(binding: FieldRef<Binding>, roles: &[&str], namespaced: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let role = binding.at(Binding::ROLE_REF);
    let (group, kind, name) = (role.at(RoleRef::API_GROUP), role.at(RoleRef::KIND), role.at(RoleRef::NAME));
    checks::string_one_of(&group, group.str(), &[GROUP], &mut errors);
    checks::string_one_of(&kind, kind.str(), roles, &mut errors);
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        checks::invalid_for(&name, name.str(), validate_name(name.str()), &mut errors);
    }
    let subjects = binding.at(Binding::SUBJECTS);
    for subject in errors.while_room(subjects.items()) {
        validate_subject(subject, namespaced, &mut errors);
    }
    errors
}

fn validate_subject(subject: FieldRef<Subject>, namespaced: bool, errors: &mut FieldErrors) {
    let (kind, name, group) = (subject.at(Subject::KIND), subject.at(Subject::NAME), subject.at(Subject::API_GROUP));
    checks::required(&name, name.str(), errors);
    match kind.str() {
        "ServiceAccount" => {
            if !name.is_empty() {
                checks::subdomain(&name, name.str(), errors);
            }
            checks::string_one_of(&group, group.str(), &[""], errors);
            let namespace = subject.at(Subject::NAMESPACE);
            if !namespaced && namespace.is_empty() {
                errors.push(namespace.required(""));
            }
        }
        "User" | "Group" => checks::string_one_of(&group, group.str(), &[GROUP], errors),
        other => checks::string_one_of(&kind, other, &["ServiceAccount", "User", "Group"], errors),
    }
}

/// Reports a change of the role. With another role, the binding could grant permissions that its author does not have.
fn same_role(binding: FieldRef<Binding>, old: FieldRef<Binding>, errors: &mut FieldErrors) {
    let role = binding.at(Binding::ROLE_REF);
    if role.value() != old.at(Binding::ROLE_REF).value() {
        errors.push(role.invalid_as(internal::shown(role), "cannot change roleRef"));
    }
}
