//! Validation of what webhooks and policies match.

use binnacle_cel::Type;
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_scheme::StrategyContext;
use binnacle_validation::metadata::shown;
use binnacle_validation::{checks, names, repeated, selectors};

use crate::checks::{invalid_each, items, one_of, present, texts};
use crate::expressions::{Compiler, Uses};

const CONDITIONS_MAX: usize = 64;

const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Validates a rule with operations.
pub(super) fn rule(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let operations = texts(rule, "operations");
    let at = path.child("operations");
    list(rule, "operations", "operations", path, errors);
    for (i, operation) in errors.while_room(operations.iter().enumerate()) {
        one_of(&at.index(i), operation, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"], errors);
    }
    list(rule, "apiGroups", "API groups", path, errors);
    list(rule, "apiVersions", "API versions", path, errors);
    for (i, _) in
        errors.while_room(texts(rule, "apiVersions").iter().enumerate().filter(|(_, version)| version.is_empty()))
    {
        errors.push(FieldError::required(&path.child("apiVersions").index(i), ""));
    }
    resources(rule, &path.child("resources"), errors);
    if let Some(scope) = present(rule, "scope").and_then(Value::as_str) {
        one_of(&path.child("scope"), scope, &["*", "Cluster", "Namespaced"], errors);
    }
}

/// Requires a list that is not empty, and in which `*` is the only item.
fn list(rule: &Value, name: &str, what: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let values = texts(rule, name);
    if values.is_empty() {
        errors.push(FieldError::required(&path.child(name), ""));
    }
    if values.len() > 1 && values.contains(&"*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(FieldError::invalid(&path.child(name), shown(rule.get(name)), detail));
    }
}

fn resources(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let resources = texts(rule, "resources");
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_of, mut in_all, mut without_subresource) = (Vec::new(), Vec::new(), false);
    for (i, resource) in errors.while_room(resources.iter().enumerate()) {
        let at = path.index(i);
        if resource.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let Some((name, sub)) = resource.split_once('/') else {
            // The last resource decides, as in kube-apiserver.
            without_subresource = *resource != "*";
            continue;
        };
        let mut refuse = |present: String| {
            let detail = format!("if '{present}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&at, *resource, detail));
        };
        if all_of.contains(&name) {
            refuse(format!("{name}/*"));
        }
        if in_all.contains(&sub) {
            refuse(format!("*/{sub}"));
        }
        if sub == "*" {
            all_of.push(name);
        }
        if name == "*" {
            in_all.push(sub);
        }
    }
    let mut refuse = |detail| errors.push(FieldError::invalid(path, shown(rule.get("resources")), detail));
    if resources.len() > 1 && resources.contains(&"*/*") {
        refuse("if '*/*' is present, must not specify other resources");
    }
    if resources.contains(&"*") && without_subresource {
        refuse("if '*' is present, must not specify other resources without subresources");
    }
}

/// Validates the objects that a policy matches.
pub(super) fn match_resources(resources: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    match present(resources, "matchPolicy").and_then(Value::as_str) {
        None => errors.push(FieldError::required(&path.child("matchPolicy"), "")),
        Some(policy) => match_policy(policy, path, errors),
    }
    for name in ["namespaceSelector", "objectSelector"] {
        match present(resources, name) {
            None => errors.push(FieldError::required(&path.child(name), "")),
            selector => selectors::label_selector(selector, false, &path.child(name), errors),
        }
    }
    for list in ["resourceRules", "excludeResourceRules"] {
        for (at, item) in errors.while_room(items(resources, list, path)) {
            resource_names(item, &at.child("resourceNames"), errors);
            rule(item, &at, errors);
        }
    }
}

fn resource_names(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let resource_names = texts(rule, "resourceNames");
    let repeated = repeated(&resource_names, |name| *name);
    for (i, name) in errors.while_room(resource_names.iter().enumerate()) {
        invalid_each(&path.index(i), name, &names::path_segment(name, false), errors);
        if repeated[i] {
            errors.push(FieldError::duplicate(&path.index(i), *name));
        }
    }
}

/// Rejects deletes in the rules of mutating policies: they leave nothing to change.
pub(super) fn mutating_operations(resources: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("resourceRules").child("operations");
    for operation in
        errors.while_room(resources.list_at(&["resourceRules"]).iter().flat_map(|rule| texts(rule, "operations")))
    {
        one_of(&path, operation, &MUTATING_OPERATIONS, errors);
    }
}

/// Validates `matchPolicy`.
pub(super) fn match_policy(policy: &str, path: &FieldPath, errors: &mut FieldErrors) {
    one_of(&path.child("matchPolicy"), policy, &["Equivalent", "Exact"], errors);
}

/// Validates `failurePolicy`.
pub(super) fn failure_policy(policy: &str, path: &FieldPath, errors: &mut FieldErrors) {
    one_of(&path.child("failurePolicy"), policy, &["Fail", "Ignore"], errors);
}

/// Validates the CEL expressions that select requests.
pub(super) fn match_conditions(object: &Value, compiler: &Compiler, path: &FieldPath, errors: &mut FieldErrors) {
    let conditions = object.list_at(&["matchConditions"]);
    if conditions.len() > CONDITIONS_MAX {
        errors.push(FieldError::too_many(&path.child("matchConditions"), conditions.len(), CONDITIONS_MAX));
    }
    let repeated = repeated(conditions, |condition| condition.str_at(&["name"]));
    for (i, (at, condition)) in errors.while_room(items(object, "matchConditions", path).enumerate()) {
        let (expression, expression_at) = (condition.str_at(&["expression"]).trim(), at.child("expression"));
        if expression.is_empty() {
            errors.push(FieldError::required(&expression_at, ""));
        } else {
            let uses = Uses { authorizer: true, ..Uses::default() };
            compiler.check(&expression_at, expression, expression, uses, &[Type::Bool], errors);
        }
        let (name, at) = (condition.str_at(&["name"]), at.child("name"));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        checks::qualified_name(&at, name, errors);
        if repeated[i] {
            errors.push(FieldError::duplicate(&at, name));
        }
    }
}

/// The suffix of names that are reserved for configuration from manifest files.
const RESERVED: &str = ".static.k8s.io";

fn has_reserved_name(object: &Value) -> bool {
    object.str_at(&["metadata", "name"]).ends_with(RESERVED)
}

fn reserved() -> String {
    format!(
        "names ending with {RESERVED:?} are reserved for static manifest-based configurations and cannot be managed via \
         the API"
    )
}

/// Rejects a name that is reserved for configuration from manifest files.
pub(super) fn reserved_name(situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if situation.features.enabled("ManifestBasedAdmissionControlConfig") && has_reserved_name(object) {
        let at = FieldPath::new("metadata").child("name");
        errors.push(FieldError::invalid(&at, object.str_at(&["metadata", "name"]), reserved()));
    }
    errors
}

/// Returns a warning about an object with a reserved name.
pub(super) fn reserved_name_warnings(object: &Value) -> Vec<String> {
    has_reserved_name(object).then(|| format!("metadata.name: {}", reserved())).into_iter().collect()
}
