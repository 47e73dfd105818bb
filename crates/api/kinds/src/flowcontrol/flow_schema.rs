//! FlowSchema: assigns requests to priority levels.

use binnacle_fields::flowcontrol::v1::{
    self, FlowDistinguisherMethod, FlowSchemaSpec as Spec, GroupSubject, NonResourcePolicyRule,
    PolicyRulesWithSubjects, PriorityLevelConfigurationReference, ResourcePolicyRule, ServiceAccountSubject, Subject,
    UserSubject,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Json, List, Str};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::{Value, value};
use binnacle_validation::{checks, names};

use crate::prepare::semantically_equal;
use crate::{MetadataChecks, Strategy, StrategyContext, internal};

const PRECEDENCE_MAX: i64 = 10000;

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub(crate) struct FlowSchema;

impl Strategy for FlowSchema {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        FieldMut::root(object).entry(v1::FlowSchema::SPEC).default_zero(Spec::MATCHING_PRECEDENCE, 1000i64);
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        super::prepare_for_create(FieldMut::root(object), v1::FlowSchema::STATUS);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (spec, status) = (v1::FlowSchema::SPEC, v1::FlowSchema::STATUS);
        super::prepare_for_update(FieldMut::root(object), FieldRef::root(old), spec, status);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_status(FieldMut::root(object), FieldRef::root(old), v1::FlowSchema::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let schema = FieldRef::root(object);
        let name = schema.at(v1::FlowSchema::METADATA).at(ObjectMeta::NAME).str();
        let spec = schema.at(v1::FlowSchema::SPEC);
        validate_spec(spec, name, &mut errors);
        if let Some(fixed) = mandatory_spec(name)
            && !semantically_equal(spec.get(), Some(&fixed))
        {
            let detail = format!("spec of '{name}' must equal the fixed value");
            errors.push(spec.invalid_as(internal::shown(spec), detail));
        }
        errors.extend(super::status_errors(schema.at(v1::FlowSchema::STATUS)));
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        super::status_errors(FieldRef::root(object).at(v1::FlowSchema::STATUS))
    }
}

/// Returns the spec of a mandatory schema, which is immutable because the server could otherwise lock out all users.
fn mandatory_spec(name: &str) -> Option<Value> {
    let everything = |groups: Vec<Value>| {
        value!([{
            "subjects": groups,
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        }])
    };
    let group = |name: &'static str| value!({"kind": "Group", "group": {"name": name}});
    match name {
        "exempt" => {
            let rules = everything(vec![group("system:masters")]);
            Some(value!({
                "priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 1i64, "rules": rules
            }))
        }
        "catch-all" => {
            let rules = everything(vec![group("system:unauthenticated"), group("system:authenticated")]);
            Some(value!({
                "priorityLevelConfiguration": {"name": "catch-all"}, "matchingPrecedence": 10000i64,
                "distinguisherMethod": {"type": "ByUser"}, "rules": rules
            }))
        }
        _ => None,
    }
}

fn validate_spec(spec: FieldRef<Spec>, name: &str, errors: &mut FieldErrors) {
    let field = spec.at(Spec::MATCHING_PRECEDENCE);
    let precedence = field.int_or_zero();
    if precedence <= 0 {
        errors.push(field.invalid_as(precedence, "must be a positive value"));
    }
    if precedence > PRECEDENCE_MAX {
        errors.push(field.invalid(format!("must not be greater than {PRECEDENCE_MAX}")));
    }
    if precedence == 1 && name != "exempt" {
        errors.push(field.invalid("only the schema named 'exempt' may have matchingPrecedence 1"));
    }
    let method = spec.at(Spec::DISTINGUISHER_METHOD);
    let kind = method.at(FlowDistinguisherMethod::TYPE);
    if method.is_set() && !matches!(kind.str(), "ByNamespace" | "ByUser") {
        errors.push(FieldError::not_supported(&kind, internal::shown(method), &["ByNamespace", "ByUser"]));
    }
    let level = spec.at(Spec::PRIORITY_LEVEL_CONFIGURATION);
    let level_name = level.at(PriorityLevelConfigurationReference::NAME);
    if level_name.is_empty() {
        errors.push(level_name.required("must reference a priority level"));
    } else {
        checks::subdomain(&level_name, level_name.str(), errors);
    }
    let rules = spec.at(Spec::RULES);
    for rule in errors.while_room(rules.items()) {
        validate_rule(rule, errors);
    }
}

fn validate_rule(rule: FieldRef<PolicyRulesWithSubjects>, errors: &mut FieldErrors) {
    let subjects = rule.at(PolicyRulesWithSubjects::SUBJECTS);
    if subjects.is_empty() {
        errors.push(subjects.required("subjects must contain at least one value"));
    }
    for subject in errors.while_room(subjects.items()) {
        validate_subject(subject, errors);
    }
    let resource_rules = rule.at(PolicyRulesWithSubjects::RESOURCE_RULES);
    let non_resource_rules = rule.at(PolicyRulesWithSubjects::NON_RESOURCE_RULES);
    if resource_rules.is_empty() && non_resource_rules.is_empty() {
        errors.push(rule.required("at least one of resourceRules and nonResourceRules has to be non-empty"));
    }
    for rule in errors.while_room(resource_rules.items()) {
        resource_rule(rule, errors);
    }
    for rule in errors.while_room(non_resource_rules.items()) {
        non_resource_rule(rule, errors);
    }
}

fn validate_subject(subject: FieldRef<Subject>, errors: &mut FieldErrors) {
    let (account, user, group) =
        (subject.at(Subject::SERVICE_ACCOUNT), subject.at(Subject::USER), subject.at(Subject::GROUP));
    let fields = [
        ("ServiceAccount", Subject::SERVICE_ACCOUNT.name(), account.cast::<Json>()),
        ("User", Subject::USER.name(), user.cast()),
        ("Group", Subject::GROUP.name(), group.cast()),
    ];
    let kind = subject.at(Subject::KIND);
    let Some((_, field, own)) = fields.iter().find(|(name, ..)| *name == kind.str()) else {
        checks::one_of(&kind, kind.str(), &["Group", "ServiceAccount", "User"], errors);
        return;
    };
    match kind.str() {
        of if !own.is_set() => errors.push(own.required(format!("{field} is required when subject kind is '{of}'"))),
        "ServiceAccount" => service_account(account, errors),
        "User" => required(user.at(UserSubject::NAME), errors),
        _ => required(group.at(GroupSubject::NAME), errors),
    }
    for (name, field, member) in fields {
        if name != kind.str() && member.is_set() {
            errors.push(member.forbidden(format!("{field} is forbidden when subject kind is not '{name}'")));
        }
    }
}

fn required(name: FieldRef<Str>, errors: &mut FieldErrors) {
    checks::required(&name, name.str(), errors);
}

fn service_account(account: FieldRef<ServiceAccountSubject>, errors: &mut FieldErrors) {
    let (name, namespace) = (account.at(ServiceAccountSubject::NAME), account.at(ServiceAccountSubject::NAMESPACE));
    match name.str() {
        "" => errors.push(name.required("")),
        "*" => {}
        text => checks::subdomain(&name, text, errors),
    }
    match namespace.str() {
        "" => errors.push(namespace.required("must specify namespace for service account")),
        text => checks::label(&namespace, text, errors),
    }
}

fn validate_verbs(verbs: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    if verbs.is_empty() {
        errors.push(verbs.required("verbs must contain at least one value"));
    } else if verbs.contains("*") {
        alone(verbs, "verbs", errors);
    } else if !verbs.strs().all(|verb| VERBS.contains(&verb)) {
        errors.push(verbs.not_supported(&VERBS));
    }
}

/// Requires `*` to be the only item of its list.
fn alone(list: FieldRef<List<Str>>, what: &str, errors: &mut FieldErrors) {
    if list.len() > 1 && list.contains("*") {
        errors.push(list.invalid(format!("if '*' is present, must not specify other {what}")));
    }
}

fn resource_rule(rule: FieldRef<ResourcePolicyRule>, errors: &mut FieldErrors) {
    validate_verbs(rule.at(ResourcePolicyRule::VERBS), errors);
    for (field, one, what) in [
        (ResourcePolicyRule::API_GROUPS, "api group", "api groups"),
        (ResourcePolicyRule::RESOURCES, "resource", "resources"),
    ] {
        let list = rule.at(field);
        if list.is_empty() {
            errors.push(list.required(format!("resource rules must supply at least one {one}")));
        }
        alone(list, what, errors);
    }
    let namespaces = rule.at(ResourcePolicyRule::NAMESPACES);
    if namespaces.is_empty() && !rule.at(ResourcePolicyRule::CLUSTER_SCOPE).bool() {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(namespaces.required(detail));
    } else if namespaces.contains("*") {
        alone(namespaces, "namespaces", errors);
    } else {
        for namespace in errors.while_room(namespaces.items()) {
            let intro = "each member of this list must be '*' or a DNS-1123 label; ";
            let messages = names::dns1123_label(namespace.str()).iter().map(|m| format!("{intro}{m}")).collect();
            checks::invalid_for(&namespace, namespace.str(), messages, errors);
        }
    }
}

fn non_resource_rule(rule: FieldRef<NonResourcePolicyRule>, errors: &mut FieldErrors) {
    validate_verbs(rule.at(NonResourcePolicyRule::VERBS), errors);
    let urls = rule.at(NonResourcePolicyRule::NON_RESOURCE_URLS);
    if urls.is_empty() {
        errors.push(urls.required("nonResourceURLs must contain at least one value"));
    } else if urls.contains("*") {
        alone(urls, "non-resource URLs", errors);
    } else {
        for url in errors.while_room(urls.items()) {
            if let Some(problem) = url_problem(url.str()) {
                errors.push(url.invalid_as(url.str(), problem));
            }
        }
    }
}

fn url_problem(url: &str) -> Option<&'static str> {
    let wildcards = url.matches('*').count();
    if url.is_empty() {
        Some("must not be empty")
    } else if url == "/" {
        None
    } else if !url.starts_with('/') {
        Some("must start with slash")
    } else if url.contains(' ') {
        Some("must not contain white-space")
    } else if url.contains("//") {
        Some("must not contain double slash")
    } else if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) {
        Some("wildcard can only do suffix matching")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_changed_mandatory_schemas() {
        for (name, spec, valid) in [
            ("exempt", mandatory_spec("exempt").unwrap_or_default(), true),
            ("catch-all", mandatory_spec("catch-all").unwrap_or_default(), true),
            ("catch-all", mandatory_spec("exempt").unwrap_or_default(), false),
        ] {
            let schema = value!({"metadata": {"name": name}, "spec": spec});
            let ctx = crate::testing::ctx("");
            assert_eq!(FlowSchema.validate(&ctx, &schema).is_empty(), valid, "{name}");
        }
    }
}
