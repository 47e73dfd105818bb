//! FlowSchema: assigns requests to priority levels.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Value, value};
use binnacle_validation::metadata::shown;
use binnacle_validation::{checks, names};

use crate::checks::{invalid_each, items, member, one_of, present, spec_path, texts};
use crate::prepare::{default_zero_to, semantically_equal};
use crate::{MetadataChecks, Strategy, StrategyContext, internal};

const PRECEDENCE_MAX: i64 = 10000;

const VERBS: [&str; 9] = ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

pub(crate) struct FlowSchema;

impl Strategy for FlowSchema {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        default_zero_to(object.make_at(&["spec"]), "matchingPrecedence", 1000i64);
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        super::prepare_for_create(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_update(object, old);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_status(object, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let name = object.str_at(&["metadata", "name"]);
        validate_spec(object, name, &mut errors);
        if let Some(fixed) = mandatory_spec(name)
            && !semantically_equal(object.get("spec"), Some(&fixed))
        {
            let shown = internal::shown_as("io.k8s.api.flowcontrol.v1.FlowSchemaSpec", object.get("spec"));
            let detail = format!("spec of '{name}' must equal the fixed value");
            errors.push(FieldError::invalid(&spec_path(), shown, detail));
        }
        errors.extend(super::status_errors(object));
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        super::status_errors(object)
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

fn validate_spec(object: &Value, name: &str, errors: &mut FieldErrors) {
    let (spec, path) = (member(object, "spec"), spec_path());
    let (precedence, at) = (spec.int_at(&["matchingPrecedence"]).unwrap_or(0), path.child("matchingPrecedence"));
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(&at, precedence, detail));
    if precedence <= 0 {
        refuse("must be a positive value");
    }
    if precedence > PRECEDENCE_MAX {
        refuse(&format!("must not be greater than {PRECEDENCE_MAX}"));
    }
    if precedence == 1 && name != "exempt" {
        refuse("only the schema named 'exempt' may have matchingPrecedence 1");
    }
    if let Some(method) = present(spec, "distinguisherMethod")
        && !matches!(method.str_at(&["type"]), "ByNamespace" | "ByUser")
    {
        let shown = internal::shown_as("io.k8s.api.flowcontrol.v1.FlowDistinguisherMethod", Some(method));
        let at = path.child("distinguisherMethod").child("type");
        errors.push(FieldError::not_supported(&at, shown, &["ByNamespace", "ByUser"]));
    }
    let level = spec.str_at(&["priorityLevelConfiguration", "name"]);
    let at = path.child("priorityLevelConfiguration").child("name");
    if level.is_empty() {
        errors.push(FieldError::required(&at, "must reference a priority level"));
    } else {
        checks::subdomain(&at, level, errors);
    }
    for (at, rule) in errors.while_room(items(spec, "rules", &path)) {
        validate_rule(rule, &at, errors);
    }
}

fn validate_rule(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let is_empty = |name| rule.list_at(&[name]).is_empty();
    if is_empty("subjects") {
        errors.push(FieldError::required(&path.child("subjects"), "subjects must contain at least one value"));
    }
    for (at, subject) in errors.while_room(items(rule, "subjects", path)) {
        validate_subject(subject, &at, errors);
    }
    if is_empty("resourceRules") && is_empty("nonResourceRules") {
        let detail = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, detail));
    }
    for (at, rule) in errors.while_room(items(rule, "resourceRules", path)) {
        resource_rule(rule, &at, errors);
    }
    for (at, rule) in errors.while_room(items(rule, "nonResourceRules", path)) {
        non_resource_rule(rule, &at, errors);
    }
}

fn validate_subject(subject: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const KINDS: [(&str, &str); 3] = [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];
    let kind = subject.str_at(&["kind"]);
    let Some((_, own)) = KINDS.iter().find(|(name, _)| *name == kind) else {
        one_of(&path.child("kind"), kind, &["Group", "ServiceAccount", "User"], errors);
        return;
    };
    let at = path.child(own);
    match present(subject, own) {
        None => errors.push(FieldError::required(&at, format!("{own} is required when subject kind is '{kind}'"))),
        Some(account) if kind == "ServiceAccount" => service_account(account, &at, errors),
        Some(other) => checks::required(&at.child("name"), other.str_at(&["name"]), errors),
    }
    for (name, field) in KINDS {
        if name != kind && present(subject, field).is_some() {
            let detail = format!("{field} is forbidden when subject kind is not '{name}'");
            errors.push(FieldError::forbidden(&path.child(field), detail));
        }
    }
}

fn service_account(account: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (name, namespace) = (account.str_at(&["name"]), account.str_at(&["namespace"]));
    if name.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    } else if name != "*" {
        checks::subdomain(&path.child("name"), name, errors);
    }
    if namespace.is_empty() {
        let detail = "must specify namespace for service account";
        errors.push(FieldError::required(&path.child("namespace"), detail));
    } else {
        checks::label(&path.child("namespace"), namespace, errors);
    }
}

fn verbs(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (verbs, at) = (texts(rule, "verbs"), path.child("verbs"));
    if verbs.is_empty() {
        errors.push(FieldError::required(&at, "verbs must contain at least one value"));
    } else if verbs.contains(&"*") {
        alone(rule, "verbs", "verbs", path, errors);
    } else if !verbs.iter().all(|verb| VERBS.contains(verb)) {
        errors.push(FieldError::not_supported(&at, shown(rule.get("verbs")), &VERBS));
    }
}

/// Requires `*` to be the only item of its list.
fn alone(rule: &Value, list: &str, what: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let values = texts(rule, list);
    if values.len() > 1 && values.contains(&"*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(&path.child(list), shown(rule.get(list)), detail));
    }
}

fn resource_rule(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    verbs(rule, path, errors);
    for (list, one, what) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")] {
        if rule.list_at(&[list]).is_empty() {
            let detail = format!("resource rules must supply at least one {one}");
            errors.push(FieldError::required(&path.child(list), detail));
        }
        alone(rule, list, what, path, errors);
    }
    let (namespaces, at) = (texts(rule, "namespaces"), path.child("namespaces"));
    if namespaces.is_empty() && !rule.bool_at(&["clusterScope"]) {
        let detail = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.push(FieldError::required(&at, detail));
    } else if namespaces.contains(&"*") {
        alone(rule, "namespaces", "namespaces", path, errors);
    } else {
        for (i, namespace) in errors.while_room(namespaces.iter().enumerate()) {
            let intro = "each member of this list must be '*' or a DNS-1123 label; ";
            let messages: Vec<String> = names::dns1123_label(namespace).iter().map(|m| format!("{intro}{m}")).collect();
            invalid_each(&at.index(i), namespace, &messages, errors);
        }
    }
}

fn non_resource_rule(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    verbs(rule, path, errors);
    let (urls, at) = (texts(rule, "nonResourceURLs"), path.child("nonResourceURLs"));
    if urls.is_empty() {
        errors.push(FieldError::required(&at, "nonResourceURLs must contain at least one value"));
    } else if urls.contains(&"*") {
        alone(rule, "nonResourceURLs", "non-resource URLs", path, errors);
    } else {
        for (i, url) in errors.while_room(urls.iter().enumerate()) {
            if let Some(problem) = url_problem(url) {
                errors.push(FieldError::invalid(&at.index(i), *url, problem));
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
    fn mandatory_schemas_are_fixed() {
        for (name, spec, valid) in [
            ("exempt", mandatory_spec("exempt").unwrap_or_default(), true),
            ("catch-all", mandatory_spec("catch-all").unwrap_or_default(), true),
            ("catch-all", mandatory_spec("exempt").unwrap_or_default(), false),
        ] {
            let schema = value!({"metadata": {"name": name}, "spec": spec});
            let situation = crate::testing::situation("");
            assert_eq!(FlowSchema.validate(&situation, &schema).is_empty(), valid, "{name}");
        }
    }
}
