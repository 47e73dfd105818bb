//! Role and ClusterRole: permissions.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::shown;
use binnacle_validation::selectors;

use super::validate_name;
use crate::Features;
use crate::checks::{items, present};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct ClusterRole;

pub(crate) struct Role;

impl Strategy for ClusterRole {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        cluster_role(object, false)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let selectors = old.list_at(&["aggregationRule", "clusterRoleSelectors"]);
        cluster_role(object, selectors.iter().any(|selector| selectors::is_invalid(Some(selector))))
    }

    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        validate_name(name, prefix)
    }
}

impl Strategy for Role {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        rules(object, true, &mut errors);
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        validate_name(name, prefix)
    }
}

fn cluster_role(role: &Value, any_label_value: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    rules(role, false, &mut errors);
    let Some(aggregation) = present(role, "aggregationRule") else { return errors };
    let path = FieldPath::new("aggregationRule");
    if aggregation.list_at(&["clusterRoleSelectors"]).is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.push(FieldError::required(&path.child("clusterRoleSelectors"), detail));
    }
    for (at, selector) in errors.while_room(items(aggregation, "clusterRoleSelectors", &path)) {
        selectors::label_selector(Some(selector), any_label_value, &at, &mut errors);
        // kube-apiserver parses the selector again, which fails for the same reasons with nothing to show.
        if selectors::is_invalid(Some(selector)) {
            errors.push(FieldError::invalid(&at, binnacle_meta::ErrorValue::raw("null"), "invalid label selector."));
        }
    }
    errors
}

fn rules(role: &Value, namespaced: bool, errors: &mut FieldErrors) {
    for (at, rule) in errors.while_room(items(role, "rules", &FieldPath::root())) {
        policy_rule(rule, namespaced, &at, errors);
    }
}

fn policy_rule(rule: &Value, namespaced: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let is_empty = |name| rule.list_at(&[name]).is_empty();
    if is_empty("verbs") {
        errors.push(FieldError::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    if !is_empty("nonResourceURLs") {
        let at = path.child("nonResourceURLs");
        let mut refuse = |detail| errors.push(FieldError::invalid(&at, shown(rule.get("nonResourceURLs")), detail));
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !is_empty(name)) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if is_empty("apiGroups") {
        let detail = "resource rules must supply at least one api group";
        errors.push(FieldError::required(&path.child("apiGroups"), detail));
    }
    if is_empty("resources") {
        let detail = "resource rules must supply at least one resource";
        errors.push(FieldError::required(&path.child("resources"), detail));
    }
}
