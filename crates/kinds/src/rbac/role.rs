//! Role and ClusterRole: what may be done.

use super::validate_name;
use crate::Strategy;

pub(crate) struct ClusterRole;

pub(crate) struct Role;

impl Strategy for ClusterRole {
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_name(name, prefix)
    }
}

impl Strategy for Role {
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        validate_name(name, prefix)
    }
}
