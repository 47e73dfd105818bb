//! RoleBinding and ClusterRoleBinding: who has a role.

use binnacle_schema::Value;

use super::validate_name;
use crate::Strategy;
use crate::prepare::{default_zero_to, objects_at};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) struct ClusterRoleBinding;

pub(crate) struct RoleBinding;

impl Strategy for ClusterRoleBinding {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(object);
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_name(name, prefix)
    }
}

impl Strategy for RoleBinding {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(object);
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
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
