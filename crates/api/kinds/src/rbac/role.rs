//! Role and ClusterRole: permissions.

use binnacle_fields::FieldRef;
use binnacle_fields::rbac::v1::{self, AggregationRule, PolicyRule};
use binnacle_fields::types::List;
use binnacle_meta::{ErrorValue, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::selectors;

use super::validate_name;
use crate::Features;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct ClusterRole;

pub(crate) struct Role;

impl Strategy for ClusterRole {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        cluster_role(FieldRef::root(object), false)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let old_role = FieldRef::root(old);
        let aggregation = old_role.at(v1::ClusterRole::AGGREGATION_RULE);
        let selectors = aggregation.at(AggregationRule::CLUSTER_ROLE_SELECTORS).list();
        let any_label_value = selectors.iter().any(|selector| selectors::is_invalid(Some(selector)));
        let mut errors = cluster_role(FieldRef::root(object), any_label_value);
        errors.extend(self.validate_metadata_change(object, old));
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, _: bool) -> Vec<String> {
        validate_name(name)
    }
}

impl Strategy for Role {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        rules(FieldRef::root(object).at(v1::Role::RULES), true, &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, _: bool) -> Vec<String> {
        validate_name(name)
    }
}

fn cluster_role(role: FieldRef<v1::ClusterRole>, any_label_value: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    rules(role.at(v1::ClusterRole::RULES), false, &mut errors);
    let aggregation = role.at(v1::ClusterRole::AGGREGATION_RULE);
    let selectors = aggregation.at(AggregationRule::CLUSTER_ROLE_SELECTORS);
    if aggregation.is_set() && selectors.is_empty() {
        errors.push(selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
    for selector in errors.while_room(selectors.items()) {
        selectors::validate(selector, any_label_value, &mut errors);
        // kube-apiserver parses the selector again, which fails for the same reasons; that error shows no value.
        if selectors::is_invalid(selector.get()) {
            errors.push(selector.invalid_as(ErrorValue::raw("null"), "invalid label selector."));
        }
    }
    errors
}

fn rules(rules: FieldRef<List<PolicyRule>>, namespaced: bool, errors: &mut FieldErrors) {
    for rule in errors.while_room(rules.items()) {
        policy_rule(rule, namespaced, errors);
    }
}

fn policy_rule(rule: FieldRef<PolicyRule>, namespaced: bool, errors: &mut FieldErrors) {
    let (verbs, urls) = (rule.at(PolicyRule::VERBS), rule.at(PolicyRule::NON_RESOURCE_URLS));
    let (groups, resources) = (rule.at(PolicyRule::API_GROUPS), rule.at(PolicyRule::RESOURCES));
    if verbs.is_empty() {
        errors.push(verbs.required("verbs must contain at least one value"));
    }
    if !urls.is_empty() {
        if namespaced {
            errors.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        if [groups, resources, rule.at(PolicyRule::RESOURCE_NAMES)].iter().any(|list| !list.is_empty()) {
            errors.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return;
    }
    if groups.is_empty() {
        errors.push(groups.required("resource rules must supply at least one api group"));
    }
    if resources.is_empty() {
        errors.push(resources.required("resource rules must supply at least one resource"));
    }
}
