//! Compiled rules with their maximum costs.

use std::sync::Arc;
use std::time::Instant;

use binnacle_cel::{Ast, DeclType, Environment, Program, Type, Version};
use binnacle_meta::Text;

use super::types::{decl_type, has_elements, is_field, is_typed};
use crate::metrics;
use crate::structural::{Rule, Structural};

/// The rules of a schema and of all schemas below it.
#[derive(Debug)]
pub struct Rules {
    pub(super) root: Node,
}

/// The rules of one schema, and the schemas with rules below it.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) schema: Arc<Structural>,
    /// The type of `self` in expressions. `None` without rules, or if the schema has rules but no type.
    pub(super) ty: Option<DeclType>,
    pub(super) rules: Vec<(Rule, CompiledRule)>,
    pub(super) items: Option<Box<Node>>,
    pub(super) additional: Option<Box<Node>>,
    /// Sorted by name.
    pub(super) properties: Vec<(Text, Node)>,
}

/// A compiled rule.
#[derive(Debug, Default)]
pub struct CompiledRule {
    /// `None` for an empty rule and for errors.
    pub program: Option<Program>,
    pub error: Option<String>,
    /// True if the rule refers to the old value.
    pub uses_old_self: bool,
    /// The maximum cost of one evaluation.
    pub max_cost: u64,
    pub message_expression: Option<MessageExpression>,
    pub message_expression_error: Option<String>,
    /// The `fieldPath` of the rule in canonical form, empty for none.
    pub field_path: String,
}

/// An expression that returns an error message.
#[derive(Debug)]
pub struct MessageExpression {
    pub program: Program,
    pub max_cost: u64,
}

/// The numbers of the value and of the old value in activations.
pub(super) const SELF: usize = 0;
pub(super) const OLD_SELF: usize = 1;

impl Rules {
    /// Compiles the rules of a stored definition's schema, with all features of this server. Returns `None` if there
    /// are none.
    pub fn new(schema: &Arc<Structural>, is_root: bool) -> Option<Self> {
        if !schema.has_rules() {
            return None;
        }
        Some(Self { root: Node::new(schema, is_root, is_typed(schema))? })
    }
}

impl Node {
    /// Returns `None` if there are no rules. `is_resource` is true for schemas of resources, which implicitly have
    /// TypeMeta and metadata.
    ///
    /// As in kube-apiserver, rules in fields that enclosing rules cannot access do not run. Otherwise, rules on values
    /// without a type cannot run (`is_typed` is false), which is reported for each value.
    fn new(schema: &Arc<Structural>, is_resource: bool, is_typed: bool) -> Option<Self> {
        let below = |schema: Option<&Arc<Structural>>, is_typed: bool| {
            let schema = schema.filter(|schema| schema.has_rules())?;
            Some(Box::new(Self::new(schema, schema.embedded, is_typed)?))
        };
        let has_elements = is_typed && has_elements(schema);
        let items = below(schema.items.as_ref(), has_elements);
        let additional = below(schema.additional_schema(), has_elements);
        let fields = schema.properties().filter(|(name, property)| is_field(schema, is_typed, name, property));
        let properties = fields.filter_map(|(name, property)| Some((name.clone(), *below(Some(property), true)?)));
        let properties: Vec<_> = properties.collect();
        let (mut ty, mut rules) = (None, Vec::new());
        if is_typed && !schema.rules.is_empty() {
            let own = decl_type(schema, is_resource)?;
            let compiled = compile(schema, &own, &|_, _| Version::STORED);
            rules = schema.rules.iter().cloned().zip(compiled).collect();
            ty = Some(own);
        }
        let empty = schema.rules.is_empty() && items.is_none() && additional.is_none() && properties.is_empty();
        (!empty).then(|| Self { schema: schema.clone(), ty, rules, items, additional, properties })
    }
}

/// Compiles the rules of one schema, without those of nested schemas. `version` returns the library version for an
/// expression; its flag is true for message expressions.
pub fn compile(schema: &Structural, ty: &DeclType, version: &dyn Fn(&str, bool) -> Version) -> Vec<CompiledRule> {
    let begun = Instant::now();
    let mut environments = Environments { ty, cache: Vec::new() };
    let rules = schema.rules.iter().map(|rule| compile_rule(schema, rule, &mut environments, version)).collect();
    metrics::compiled(begun.elapsed());
    rules
}

/// Environments, which are shared by most rules.
struct Environments<'t> {
    ty: &'t DeclType,
    cache: Vec<((Version, bool), Environment)>,
}

impl Environments<'_> {
    fn get(&mut self, version: Version, optional_old: bool) -> &Environment {
        let key = (version, optional_old);
        let at = self.cache.iter().position(|(cached, _)| *cached == key).unwrap_or_else(|| {
            let environment = Environment::new(version).with_data("self", self.ty);
            let environment = match optional_old {
                true => environment.with_variable("oldSelf", Type::optional(self.ty.ty())),
                false => environment.with_data("oldSelf", self.ty),
            };
            self.cache.push((key, environment));
            self.cache.len() - 1
        });
        &self.cache[at].1
    }
}

fn compile_rule(
    schema: &Structural,
    rule: &Rule,
    environments: &mut Environments<'_>,
    version: &dyn Fn(&str, bool) -> Version,
) -> CompiledRule {
    let mut compiled = CompiledRule::default();
    if rule.rule.trim().is_empty() {
        return compiled;
    }
    let optional_old = rule.optional_old_self == Some(true);
    let fail = |error: String| CompiledRule { error: Some(error), ..CompiledRule::default() };
    let environment = environments.get(version(&rule.rule, false), optional_old);
    let ast = match environment.compile(&rule.rule) {
        Ok(ast) => ast,
        Err(errors) => return fail(format!("compilation failed: {errors}")),
    };
    if *ast.output_type() != Type::Bool {
        return fail("cel expression must evaluate to a bool".to_owned());
    }
    compiled.uses_old_self = ast.uses_variable("oldSelf");
    match program(&ast, environments.ty) {
        Ok((program, max_cost)) => (compiled.program, compiled.max_cost) = (Some(program), max_cost),
        Err(error) => {
            compiled.error = Some(format!("program instantiation failed: {error}"));
            return compiled;
        }
    }
    if !rule.message_expression.is_empty() {
        let ty = environments.ty;
        let environment = environments.get(version(&rule.message_expression, true), optional_old);
        match message_expression(environment, &rule.message_expression, ty) {
            Ok(expression) => compiled.message_expression = Some(expression),
            Err(error) => {
                compiled.message_expression_error = Some(error);
                return compiled;
            }
        }
    }
    if !rule.field_path.is_empty()
        && let Ok(found) = schema.find_field(&rule.field_path, true)
    {
        compiled.field_path = found.path;
    }
    compiled
}

fn message_expression(environment: &Environment, expression: &str, ty: &DeclType) -> Result<MessageExpression, String> {
    let ast =
        environment.compile(expression).map_err(|errors| format!("messageExpression compilation failed: {errors}"))?;
    if *ast.output_type() != Type::String {
        return Err("messageExpression must evaluate to a string".to_owned());
    }
    match program(&ast, ty) {
        Ok((program, max_cost)) => Ok(MessageExpression { program, max_cost }),
        Err(error) => Err(format!("messageExpression instantiation failed: {error}")),
    }
}

fn program(ast: &Ast, ty: &DeclType) -> Result<(Program, u64), binnacle_cel::Error> {
    Ok((ast.program()?, ast.estimate_cost_of(ty).max))
}
