//! Validation of expressions in schemas: they must compile, and the cost of each and of all together is limited.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use binnacle_cel::Version;
use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{JSONSchemaProps as Props, ValidationRule as Rule};
use binnacle_meta::{FieldError, FieldErrors, FieldPath, Location};
use binnacle_structural::rules::{CompiledRule, TypeSource, compile};
use binnacle_structural::{AdditionalProperties, SchemaType, Size, Structural};

use super::definition::Definition;
use super::open_api::{self, SchemaPosition};
use super::rules::Rules;
use super::schema;
use crate::internal;

/// The highest cost of one expression, multiplied by the maximum number of values that it is evaluated for.
const COST_LIMIT: u64 = 10_000_000;
/// The highest cost of all expressions of a schema together.
const TOTAL_LIMIT: u64 = 100_000_000;
/// The size of the largest request, which bounds the number of values.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// The expressions of the old definition, which can use all features of this server. New expressions can only use those
/// that the previous version has as well.
#[derive(Default)]
pub(super) struct ExistingExpressions {
    rules: HashSet<String>,
    messages: HashSet<String>,
}

impl ExistingExpressions {
    pub(super) fn of(definition: &Definition<'_, '_>) -> Self {
        let mut existing = Self::default();
        for schema in definition.schemas() {
            schema::any(schema, &mut |schema| {
                for rule in schema.at(Props::X_KUBERNETES_VALIDATIONS).values() {
                    existing.rules.insert(rule.at(Rule::RULE).str().to_owned());
                    existing.messages.insert(rule.at(Rule::MESSAGE_EXPRESSION).str().to_owned());
                }
                false
            });
        }
        existing
    }

    fn version(&self, expression: &str, is_message: bool) -> Version {
        let known = if is_message { &self.messages } else { &self.rules };
        if known.contains(expression) { Version::STORED } else { Version::COMPATIBLE }
    }
}

/// A schema whose expressions are validated.
pub(super) struct Subject<'a> {
    pub(super) schema: FieldRef<'a, 'a, Props>,
    /// The same schema as a tree of nodes.
    pub(super) structural: &'a Arc<Structural>,
    pub(super) rules: &'a Rules,
    pub(super) existing: &'a ExistingExpressions,
    /// True if the schema has other errors: expressions above them are not compiled.
    pub(super) has_errors: bool,
    /// True if the schema did not change: a single expression may keep its cost.
    pub(super) unchanged: bool,
}

/// Validates all expressions of a schema.
pub(super) fn validate(subject: &Subject<'_>, errors: &mut FieldErrors) {
    let mut walk = Walk { subject, errors, total: 0, expensive: Vec::new() };
    let root = subject.structural;
    let types = if root.rules.is_empty() { Types::Unused } else { Types::on_its_own(root, true) };
    let scope = Scope { cardinality: Some(1), uncorrelatable: None, types: &types };
    walk.node(subject.schema, root, SchemaPosition::root(), scope);
    walk.total();
}

struct Walk<'a, 'e> {
    subject: &'a Subject<'a>,
    errors: &'e mut FieldErrors,
    total: u64,
    /// The paths and costs of the expressions that cost most.
    expensive: Vec<(FieldPath, u64)>,
}

/// Facts about the values of a schema that follow from the schemas above it, and their type.
#[derive(Clone, Copy)]
struct Scope<'p> {
    /// The maximum number of values; `None` where nothing bounds it.
    cardinality: Option<u64>,
    /// The topmost schema whose values cannot be matched with their old values.
    uncorrelatable: Option<FieldRef<'p, 'p, Props>>,
    types: &'p Types,
}

/// The type of the values of a schema, in its rules.
enum Types {
    /// No rule needs it: there are none on the schema and above it.
    Unused,
    /// `None` for elements of a type without elements, such as the `items` of an object.
    Of(Option<TypeSource>),
    /// The schema, or one above it, has values without a type.
    Failed,
}

impl Types {
    fn on_its_own(schema: &Arc<Structural>, is_resource: bool) -> Self {
        TypeSource::new(schema, is_resource).map_or(Self::Failed, |source| Self::Of(Some(source)))
    }

    /// Returns the type of the values of a schema below, if it follows from the type here.
    fn below(&self, schema: &Arc<Structural>, element: impl FnOnce(&TypeSource) -> Self) -> Self {
        match self {
            Self::Unused if schema.rules.is_empty() => Self::Unused,
            Self::Unused => Self::on_its_own(schema, schema.embedded),
            Self::Of(Some(source)) => element(source),
            Self::Of(None) | Self::Failed => Self::Failed,
        }
    }

    fn property(&self, name: &str, schema: &Arc<Structural>) -> Self {
        self.below(schema, |source| match source.property(name) {
            Some(field) => Self::Of(Some(field)),
            None => Self::on_its_own(schema, schema.embedded),
        })
    }

    fn element(&self, schema: &Arc<Structural>) -> Self {
        self.below(schema, |source| Self::Of(source.element()))
    }
}

impl Walk<'_, '_> {
    fn node<'p>(
        &mut self,
        schema: FieldRef<'p, 'p, Props>,
        node: &Arc<Structural>,
        place: SchemaPosition,
        scope: Scope<'p>,
    ) {
        if self.errors.is_full() || !node.has_rules() {
            return;
        }
        binnacle_work::pace(schema::SCHEMA);
        let cardinality = match (scope.cardinality, max_elements(node)) {
            (Some(above), Some(here)) => Some(above.saturating_mul(here)),
            _ => None,
        };
        let below = Scope { cardinality, ..scope };
        let additional = schema.at(Props::ADDITIONAL_PROPERTIES);
        if let (Some(additional), Some(of_node)) = (additional.schema(), node.additional_schema()) {
            let types = scope.types.element(of_node);
            self.node(additional, of_node, place.of_additional(), Scope { types: &types, ..below });
        }
        // Values of an unknown map type count as replaced as a whole.
        let map_type = schema.at(Props::X_KUBERNETES_MAP_TYPE).get_str();
        let correlated = map_type.is_none_or(|kind| matches!(kind, "granular" | "atomic"));
        let uncorrelatable = scope.uncorrelatable.or((!correlated).then_some(schema));
        for (name, property) in schema.at(Props::PROPERTIES).entries() {
            let Some(of_node) = node.property(name) else { continue };
            let (place, types) = (place.of_property(name, node.embedded), scope.types.property(name, of_node));
            self.node(property, of_node, place, Scope { uncorrelatable, types: &types, ..below });
        }
        if let (Some(items), Some(of_node)) = (schema.at(Props::ITEMS).schema(), node.items.as_ref()) {
            let correlated = schema.at(Props::X_KUBERNETES_LIST_TYPE).str() == "map";
            let uncorrelatable = scope.uncorrelatable.or((!correlated).then_some(schema));
            let types = scope.types.element(of_node);
            self.node(items, of_node, place.below(), Scope { uncorrelatable, types: &types, ..below });
        }
        if !node.rules.is_empty() && !self.has_errors(schema, place) {
            self.rules(schema, node, scope);
        }
    }

    /// Returns true if a schema has errors other than those of its expressions.
    fn has_errors(&self, schema: FieldRef<Props>, place: SchemaPosition) -> bool {
        if !self.subject.has_errors {
            return false;
        }
        let mut errors = FieldErrors::new();
        open_api::within(schema, place, self.subject.rules, &mut errors);
        !errors.is_empty()
    }

    fn rules(&mut self, schema: FieldRef<Props>, node: &Structural, scope: Scope<'_>) {
        const UNTYPED: &str = "internal error: failed to construct type information for x-kubernetes-validations rules: unable to convert structural schema to CEL declarations";
        const NO_ELEMENTS: &str = "failed to convert to declType for CEL validation rules";
        let rules = schema.at(Props::X_KUBERNETES_VALIDATIONS);
        let source = match scope.types {
            Types::Of(source) => source.as_ref().ok_or(NO_ELEMENTS),
            Types::Unused | Types::Failed => Err(UNTYPED),
        };
        let ty = match source.and_then(|source| source.decl_type().ok_or(UNTYPED)) {
            Ok(ty) => ty,
            Err(detail) => {
                self.errors.push(FieldError::internal(&rules, detail));
                return;
            }
        };
        let existing = self.subject.existing;
        let compiled = compile(node, &ty, &|expression, is_message| existing.version(expression, is_message));
        // Two values are separated by at least a comma.
        let most = MAX_REQUEST / (ty.min_serialized_size + 1);
        for (compiled, rule) in compiled.iter().zip(rules.items()) {
            let cost = compiled.max_cost.saturating_mul(scope.cardinality.unwrap_or(most));
            self.rule(compiled, rule, cost, scope.uncorrelatable);
        }
    }

    fn rule(
        &mut self,
        compiled: &CompiledRule,
        rule: FieldRef<Rule>,
        cost: u64,
        uncorrelatable: Option<FieldRef<'_, '_, Props>>,
    ) {
        let (expression, message) = (rule.at(Rule::RULE), rule.at(Rule::MESSAGE_EXPRESSION));
        self.cost("estimated rule cost", cost, &expression);
        if let Some(error) = &compiled.error {
            self.errors.push(expression.invalid_as(internal::shown(rule), error));
        }
        if let Some(error) = &compiled.message_expression_error {
            self.errors.push(message.invalid_as(internal::shown(rule), error));
        } else if let Some(compiled) = &compiled.message_expression {
            self.cost("estimated messageExpression cost", compiled.max_cost, &message);
        }
        let optional = rule.at(Rule::OPTIONAL_OLD_SELF);
        if !compiled.uses_old_self {
            if optional.is_set() {
                self.errors.push(optional.invalid("may not be set if oldSelf is not used in rule"));
            }
        } else if let Some(within) = uncorrelatable {
            self.errors.push(expression.invalid(format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {}",
                within.path()
            )));
        }
    }

    fn cost(&mut self, what: &str, cost: u64, field: &dyn Location) {
        const REPORTED: usize = 4;
        if cost > COST_LIMIT && !self.subject.unchanged {
            self.errors.push(FieldError::forbidden(field, exceeds(what, cost, COST_LIMIT)));
        }
        self.total = self.total.saturating_add(cost);
        // The list is sorted: the last one costs least.
        let is_reported = match self.expensive.get(REPORTED - 1) {
            Some((_, least)) => cost > *least,
            None => true,
        };
        if cost >= TOTAL_LIMIT / 100 && is_reported {
            self.expensive.push((field.path(), cost));
            self.expensive.sort_by_key(|(_, cost)| Reverse(*cost));
            self.expensive.truncate(REPORTED);
        }
    }

    fn total(&mut self) {
        if self.total <= TOTAL_LIMIT {
            return;
        }
        for (path, _) in self.errors.while_room(std::mem::take(&mut self.expensive)) {
            let detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(&path, detail));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        self.errors.push(self.subject.schema.forbidden(exceeds(what, self.total, TOTAL_LIMIT)));
    }
}

/// Returns the maximum number of values below a schema for each value of it; `None` if nothing bounds it.
fn max_elements(node: &Structural) -> Option<u64> {
    let values = node.values.as_deref();
    let max = match node.kind {
        Some(SchemaType::Object) if matches!(node.additional, AdditionalProperties::Unset) => return Some(1),
        Some(SchemaType::Object) => values?.size(Size::MaxProperties)?,
        Some(SchemaType::Array) => values?.size(Size::MaxItems)?,
        _ => return Some(1),
    };
    Some(u64::try_from(max).unwrap_or(0))
}

fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::{Value, value};
    use binnacle_structural::Interner;

    const RULES: &str = Props::X_KUBERNETES_VALIDATIONS.name();

    /// Checks the errors of a property `x`.
    fn check(x: Value, want: &[&str]) {
        let mut schema = value!({"type": "object"});
        schema.make_at(&["properties"]).insert("x", x);
        let structural = Structural::parse(&schema, &Interner::new()).unwrap();
        let rules = Rules { valid_types: true, atomic_sets: true, map_keys: true };
        let existing = ExistingExpressions::default();
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("s");
        let handle = FieldRef::located(&schema, &path);
        open_api::validate(handle, &rules, &mut errors);
        let subject = Subject {
            schema: handle,
            structural: &structural,
            rules: &rules,
            existing: &existing,
            has_errors: !errors.is_empty(),
            unchanged: false,
        };
        validate(&subject, &mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), want.len(), "{texts:?}");
        for (text, want) in texts.iter().zip(want) {
            assert!(text.starts_with(want), "{text}");
        }
    }

    fn rule(rule: &str) -> Value {
        value!([{"rule": rule}])
    }

    /// Returns a schema of a type with rules.
    fn of(kind: &str, rules: Value) -> Value {
        let mut schema = value!({"type": kind});
        schema.make_object().insert(RULES, rules);
        schema
    }

    /// Returns the schema of a list of strings with rules.
    fn list(max: i64, rules: Value) -> Value {
        value!({"type": "array", "maxItems": max, "items": {"type": "string", "maxLength": 10i64, "x-kubernetes-validations": rules}})
    }

    #[test]
    fn compiles_expressions_of_rules_and_messages() {
        check(of("integer", rule("self > 1")), &[]);
        check(of("integer", rule("type(self) == int")), &[]);
        check(
            of("integer", rule("self > 'a'")),
            &[
                "s.properties[x].x-kubernetes-validations[0].rule: Invalid value: {\"Rule\":\"self \\u003e 'a'\",\"Message\":\"\",\"MessageExpression\":\"\",\"Reason\":null,\"FieldPath\":\"\",\"OptionalOldSelf\":null}: compilation failed: ERROR: <input>:1:6: found no matching overload for '_>_' applied to '(int, string)'",
            ],
        );
        check(
            of("integer", value!([{"rule": "self > 1", "messageExpression": "1"}])),
            &["s.properties[x].x-kubernetes-validations[0].messageExpression: Invalid value: {\"Rule\":"],
        );
        check(
            of("integer", value!([{"rule": "self > 1", "optionalOldSelf": true}])),
            &[
                "s.properties[x].x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
            ],
        );
    }

    #[test]
    fn rejects_old_self_where_values_are_uncorrelatable() {
        check(list(10, rule("self == 'a'")), &[]);
        check(
            list(10, rule("self == oldSelf")),
            &[
                "s.properties[x].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[x]",
            ],
        );
        let below_map_type = |map_type: &str| {
            value!({
                "type": "object", "x-kubernetes-map-type": map_type,
                "properties": {"a": {"type": "integer", "x-kubernetes-validations": (rule("self == oldSelf"))}},
            })
        };
        check(below_map_type("granular"), &[]);
        check(below_map_type("atomic"), &[]);
        for unknown in ["", "odd"] {
            check(
                below_map_type(unknown),
                &[
                    "s.properties[x].x-kubernetes-map-type: Unsupported value: ",
                    "s.properties[x].properties[a].x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within s.properties[x]",
                ],
            );
        }
    }

    #[test]
    fn limits_costs_of_rules() {
        check(
            list(20_000_000, rule("self == 'a'")),
            &[
                "s.properties[x].items.x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of ",
            ],
        );
    }

    /// Rules below a value without a type are accepted, and do not run, but not if there are rules above it.
    #[test]
    fn rejects_rules_of_values_without_a_type() {
        let below = |mut schema: Value| {
            let untyped = value!({"x-kubernetes-preserve-unknown-fields": true, "properties": {
                "b": {"type": "string", "x-kubernetes-validations": [{"rule": "true"}]},
            }});
            schema.make_at(&["properties"]).insert("a", untyped);
            schema
        };
        check(below(value!({"type": "object"})), &[]);
        check(
            below(value!({"type": "object", "x-kubernetes-validations": [{"rule": "true"}]})),
            &[
                "s.properties[x].properties[a].properties[b].x-kubernetes-validations: Internal error: internal error: failed to construct type information",
            ],
        );
        let any =
            value!({"x-kubernetes-preserve-unknown-fields": true, "x-kubernetes-validations": [{"rule": "true"}]});
        check(
            any,
            &[
                "s.properties[x].x-kubernetes-validations: Internal error: internal error: failed to construct type information",
            ],
        );
    }

    /// Below rules, items of an object have the type of its values, or none.
    #[test]
    fn items_of_an_object_have_the_type_of_its_values() {
        let items_of = |mut object: Value, rule: &str| {
            let items = value!({"type": "string", "x-kubernetes-validations": [{"rule": rule}]});
            object.make_object().insert("items", items);
            object.make_object().insert(RULES, value!([{"rule": "true"}]));
            object
        };
        check(
            items_of(value!({"type": "object"}), "true &&"),
            &[
                "s.properties[x].items.x-kubernetes-validations: Internal error: failed to convert to declType for CEL validation rules",
            ],
        );
        check(items_of(value!({"type": "object", "additionalProperties": {"type": "integer"}}), "self > 1"), &[]);
    }

    #[test]
    fn names_of_a_resource_have_no_bounds_below_rules() {
        let named = value!({"type": "string", "maxLength": 5i64, "x-kubernetes-validations": [
            {"rule": "self.contains(self)"},
        ]});
        let mut embedded = value!({"type": "object", "x-kubernetes-embedded-resource": true});
        embedded.make_at(&["properties"]).insert("kind", named);
        check(embedded.clone(), &[]);
        embedded.make_object().insert(RULES, value!([{"rule": "true"}]));
        check(
            embedded,
            &[
                "s.properties[x].properties[kind].x-kubernetes-validations[0].rule: Forbidden: estimated rule cost exceeds budget",
                "s.properties[x].properties[kind].x-kubernetes-validations[0].rule: Forbidden: contributed to",
                "s: Forbidden: x-kubernetes-validations estimated rule cost total",
            ],
        );
    }

    /// If another part of the schema has an error, expressions above it are not compiled.
    #[test]
    fn skips_expressions_above_other_errors() {
        check(
            value!({"type": "object", "x-kubernetes-validations": [{"rule": "1"}], "properties": {"a": {"type": "null"}}}),
            &["s.properties[x].properties[a].type: Unsupported value", "s.properties[x].properties[a].type: Forbidden"],
        );
    }
}
