//! RoleBinding and ClusterRoleBinding: the subjects that have a role.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::names;

use super::validate_name;
use crate::Features;
use crate::checks::{invalid_each, items, one_of};
use crate::prepare::{default_zero_to, objects_at};
use crate::{MetadataChecks, Strategy, StrategyContext, internal};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) struct ClusterRoleBinding;

pub(crate) struct RoleBinding;

impl Strategy for ClusterRoleBinding {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(object);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(object, &["ClusterRole"], false)
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        same_role(object, old, &mut errors);
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        validate_name(name, prefix)
    }
}

impl Strategy for RoleBinding {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(object);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(object, &["Role", "ClusterRole"], true)
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        same_role(object, old, &mut errors);
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        validate_name(name, prefix)
    }
}

fn set_defaults(object: &mut Value) {
    default_zero_to(object.make_at(&["roleRef"]), "apiGroup", GROUP);
    for subject in objects_at(object, &["subjects"]) {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            default_zero_to(subject, "apiGroup", GROUP);
        }
    }
}

fn validate(binding: &Value, roles: &[&str], namespaced: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("roleRef");
    one_of(&path.child("apiGroup"), binding.str_at(&["roleRef", "apiGroup"]), &[GROUP], &mut errors);
    one_of(&path.child("kind"), binding.str_at(&["roleRef", "kind"]), roles, &mut errors);
    let name = binding.str_at(&["roleRef", "name"]);
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    } else {
        invalid_each(&path.child("name"), name, &validate_name(name, false), &mut errors);
    }
    for (at, subject) in errors.while_room(items(binding, "subjects", &FieldPath::root())) {
        validate_subject(subject, namespaced, &at, &mut errors);
    }
    errors
}

fn validate_subject(subject: &Value, namespaced: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let (kind, name, group) = (subject.str_at(&["kind"]), subject.str_at(&["name"]), subject.str_at(&["apiGroup"]));
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    match kind {
        "ServiceAccount" => {
            if !name.is_empty() {
                invalid_each(&path.child("name"), name, &names::dns1123_subdomain(name), errors);
            }
            one_of(&path.child("apiGroup"), group, &[""], errors);
            if !namespaced && subject.str_at(&["namespace"]).is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => one_of(&path.child("apiGroup"), group, &[GROUP], errors),
        _ => one_of(&path.child("kind"), kind, &["ServiceAccount", "User", "Group"], errors),
    }
}

/// Reports a change of the role. A binding with another role would grant permissions that its author never had.
fn same_role(binding: &Value, old: &Value, errors: &mut FieldErrors) {
    let role = binding.get("roleRef");
    if role != old.get("roleRef") {
        let shown = internal::shown_as("io.k8s.api.rbac.v1.RoleRef", role);
        errors.push(FieldError::invalid(&FieldPath::new("roleRef"), shown, "cannot change roleRef"));
    }
}
