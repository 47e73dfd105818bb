//! Validation of what webhooks and policies match.

use binnacle_cel::Type;
use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{
    MatchCondition, MatchResources, NamedRuleWithOperations as NamedRule, RuleWithOperations as Rule,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Kind, List, Str};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_scheme::StrategyContext;
use binnacle_validation::checks::{self, invalid_for, one_of};
use binnacle_validation::{names, selectors};

use crate::checks::repeated;
use crate::expressions::{Compiler, OptionalVariables};

const CONDITIONS_MAX: usize = 64;

const MUTATING_OPERATIONS: [&str; 4] = ["*", "CONNECT", "CREATE", "UPDATE"];

/// Validates a rule with operations.
pub(super) fn rule(rule: FieldRef<Rule>, errors: &mut FieldErrors) {
    let operations = rule.at(Rule::OPERATIONS);
    list(operations, "operations", errors);
    for operation in errors.while_room(operations.items()) {
        one_of(&operation, operation.str(), &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"], errors);
    }
    list(rule.at(Rule::API_GROUPS), "API groups", errors);
    let versions = rule.at(Rule::API_VERSIONS);
    list(versions, "API versions", errors);
    for version in errors.while_room(versions.items().filter(|version| version.is_empty())) {
        errors.push(version.required(""));
    }
    resources(rule.at(Rule::RESOURCES), errors);
    let scope = rule.at(Rule::SCOPE);
    if let Some(text) = scope.get_str() {
        one_of(&scope, text, &["*", "Cluster", "Namespaced"], errors);
    }
}

/// Requires a list that is not empty, and in which `*` is the only item.
fn list(values: FieldRef<List<Str>>, what: &str, errors: &mut FieldErrors) {
    if values.is_empty() {
        errors.push(values.required(""));
    }
    if values.len() > 1 && values.contains("*") {
        errors.push(values.invalid(format!("if '*' is present, must not specify other {what}")));
    }
}

fn resources(resources: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    if resources.is_empty() {
        errors.push(resources.required(""));
    }
    let (mut all_of, mut in_all, mut without_subresource) = (Vec::new(), Vec::new(), false);
    for resource in errors.while_room(resources.items()) {
        let text = resource.str();
        if text.is_empty() {
            errors.push(resource.required(""));
            continue;
        }
        let Some((name, sub)) = text.split_once('/') else {
            // The last resource decides, as in kube-apiserver.
            without_subresource = text != "*";
            continue;
        };
        let mut refuse = |present: String| {
            errors.push(resource.invalid(format!("if '{present}' is present, must not specify {text}")));
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
    let mut refuse = |detail: &str| errors.push(resources.invalid(detail));
    if resources.len() > 1 && resources.contains("*/*") {
        refuse("if '*/*' is present, must not specify other resources");
    }
    if resources.contains("*") && without_subresource {
        refuse("if '*' is present, must not specify other resources without subresources");
    }
}

/// Validates the objects that a policy matches.
pub(super) fn match_resources(resources: FieldRef<MatchResources>, errors: &mut FieldErrors) {
    let policy = resources.at(MatchResources::MATCH_POLICY);
    if policy.is_set() {
        match_policy(policy, errors);
    } else {
        errors.push(policy.required(""));
    }
    for field in [MatchResources::NAMESPACE_SELECTOR, MatchResources::OBJECT_SELECTOR] {
        let selector = resources.at(field);
        if selector.is_set() {
            selectors::validate(selector, false, errors);
        } else {
            errors.push(selector.required(""));
        }
    }
    for field in [MatchResources::RESOURCE_RULES, MatchResources::EXCLUDE_RESOURCE_RULES] {
        for item in errors.while_room(resources.at(field).items()) {
            resource_names(item.at(NamedRule::RESOURCE_NAMES), errors);
            // Besides the names, it has the fields of a rule.
            rule(item.cast(), errors);
        }
    }
}

fn resource_names(resource_names: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    let repeated = binnacle_validation::repeated(resource_names.list(), Value::as_str);
    for (i, name) in errors.while_room(resource_names.items().enumerate()) {
        invalid_for(&name, name.str(), names::path_segment(name.str(), false), errors);
        if repeated[i] {
            errors.push(name.duplicate());
        }
    }
}

/// Rejects deletes in the rules of mutating policies: they leave nothing to change.
pub(super) fn mutating_operations(resources: FieldRef<MatchResources>, errors: &mut FieldErrors) {
    let rules = resources.at(MatchResources::RESOURCE_RULES);
    // kube-apiserver reports the operations without their indexes.
    let path = rules.path().child(NamedRule::OPERATIONS.name());
    for operation in errors.while_room(rules.items().flat_map(|rule| rule.at(NamedRule::OPERATIONS).strs())) {
        one_of(&path, operation, &MUTATING_OPERATIONS, errors);
    }
}

/// Validates `matchPolicy`.
pub(super) fn match_policy(policy: FieldRef<Str>, errors: &mut FieldErrors) {
    one_of(&policy, policy.str(), &["Equivalent", "Exact"], errors);
}

/// Validates `failurePolicy`.
pub(super) fn failure_policy(policy: FieldRef<Str>, errors: &mut FieldErrors) {
    one_of(&policy, policy.str(), &["Fail", "Ignore"], errors);
}

/// Validates the CEL expressions that select requests.
pub(super) fn match_conditions(
    conditions: FieldRef<List<MatchCondition>>,
    compiler: &Compiler,
    errors: &mut FieldErrors,
) {
    if conditions.len() > CONDITIONS_MAX {
        errors.push(conditions.too_many(CONDITIONS_MAX));
    }
    let repeated = repeated(conditions, MatchCondition::NAME);
    for (i, condition) in errors.while_room(conditions.items().enumerate()) {
        let expression = condition.at(MatchCondition::EXPRESSION);
        let text = expression.str().trim();
        if text.is_empty() {
            errors.push(expression.required(""));
        } else {
            let uses = OptionalVariables { authorizer: true, ..OptionalVariables::default() };
            compiler.check(&expression, text, text, uses, &[Type::Bool], errors);
        }
        let name = condition.at(MatchCondition::NAME);
        if name.is_empty() {
            errors.push(name.required(""));
            continue;
        }
        checks::qualified_name(&name, name.str(), errors);
        if repeated[i] {
            errors.push(name.duplicate());
        }
    }
}

/// The suffix of names that are reserved for configuration from manifest files.
const RESERVED: &str = ".static.k8s.io";

fn reserved() -> String {
    format!(
        "names ending with {RESERVED:?} are reserved for static manifest-based configurations and cannot be managed via \
         the API"
    )
}

/// Rejects a name that is reserved for configuration from manifest files.
pub(super) fn reserved_name<K: Kind>(ctx: &StrategyContext<'_>, object: FieldRef<K>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let metadata = object.at(K::METADATA);
    let name = metadata.at(ObjectMeta::NAME);
    if ctx.features.enabled("ManifestBasedAdmissionControlConfig") && name.str().ends_with(RESERVED) {
        errors.push(name.invalid(reserved()));
    }
    errors
}

/// Returns a warning about an object with a reserved name.
pub(super) fn reserved_name_warnings<K: Kind>(object: FieldRef<K>) -> Vec<String> {
    let is_reserved = object.at(K::METADATA).at(ObjectMeta::NAME).str().ends_with(RESERVED);
    is_reserved.then(|| format!("metadata.name: {}", reserved())).into_iter().collect()
}
