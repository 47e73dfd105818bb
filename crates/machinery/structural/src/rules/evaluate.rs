//! Evaluation of rules for objects.

use std::time::Instant;

use binnacle_cel::{Activation, DeclType, Error, PER_CALL_LIMIT, Val};
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use super::compile::{CompiledRule, MessageExpression, Node, OLD_SELF, Rules, SELF};
use crate::correlation::{CorrelatedObject, MapList};
use crate::error_value::error_value;
use crate::metrics;
use crate::path::Path;
use crate::structural::{Rule, SchemaType};

/// The maximum cost of all rules for one object.
pub const RUNTIME_BUDGET: i64 = 10_000_000;

/// The maximum length of a message from an expression.
const MAX_MESSAGE: usize = 5 * 1024;

/// The result of the rules for an object.
#[derive(Debug, Default)]
pub struct Verdict {
    pub errors: FieldErrors,
    /// Errors that do not prevent a change, because the old object has them.
    pub warnings: Vec<String>,
}

impl Rules {
    /// Evaluates the rules for an object. `old` is the object that it replaces; with `change`, errors of unchanged
    /// values are ignored.
    ///
    /// Returns the remaining budget; a negative value means that it was exceeded.
    pub fn evaluate(
        &self,
        new: &Value,
        old: Option<&Value>,
        change: Option<CorrelatedObject<'_>>,
        base: &FieldPath,
        budget: i64,
        verdict: &mut Verdict,
    ) -> i64 {
        let begun = Instant::now();
        let mut run = Evaluator { base, budget, verdict };
        // A negative budget reports that it was exceeded.
        let _ = run.node(&self.root, new, old, Ratchet { current: change, nearest: None }, &Path::Root);
        let left = run.budget;
        metrics::evaluated(begun.elapsed());
        left
    }
}

struct Evaluator<'r> {
    base: &'r FieldPath,
    budget: i64,
    verdict: &'r mut Verdict,
}

/// The budget is exceeded, or an evaluation was aborted: no further rules run.
struct OutOfBudget;

/// The correlation of a value with its old value, and that of the nearest correlated enclosing value.
#[derive(Clone, Copy)]
struct Ratchet<'v> {
    current: Option<CorrelatedObject<'v>>,
    nearest: Option<CorrelatedObject<'v>>,
}

impl Ratchet<'_> {
    /// Returns true if an error is ignored, as the value is unchanged.
    fn suppresses_errors(&self) -> bool {
        self.current.or(self.nearest).is_some_and(|correlated| correlated.is_unchanged())
    }

    fn key(self, name: &str) -> Self {
        match self.current {
            None => self,
            // Both objects were converted to the same version, so `apiVersion` never differs.
            Some(_) if self.nearest.is_none() && matches!(name, "apiVersion" | "kind") => {
                Self { current: None, nearest: None }
            }
            Some(current) => Self { current: current.key(name), nearest: Some(current) },
        }
    }

    fn index(self, index: usize) -> Self {
        match self.current {
            None => self,
            Some(current) => Self { current: current.index(index), nearest: Some(current) },
        }
    }
}

impl Evaluator<'_> {
    fn node(
        &mut self,
        node: &Node,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        path: &Path<'_>,
    ) -> Result<(), OutOfBudget> {
        if new.is_null() {
            return Ok(());
        }
        // The response contains the exhausted budget.
        binnacle_work::charge(4 + node.rules.len() as u64).map_err(|_| self.stop())?;
        let old = old.filter(|old| !old.is_null());
        self.rules(node, new, old, ratchet, path)?;
        match new {
            Value::List(items) => {
                let Some(below) = &node.items else { return Ok(()) };
                let old_items = old.and_then(Value::as_list).unwrap_or_default();
                let by_key = MapList::of(old_items, &node.schema);
                for (i, item) in items.iter().enumerate() {
                    let old = by_key.get(item, &node.schema);
                    self.node(below, item, old, ratchet.index(i), &Path::Index(path, i))?;
                }
            }
            Value::Object(object) => {
                let old = |name: &str| old.and_then(|old| old.get(name));
                for (name, value) in object.iter() {
                    if let Some(below) = &node.additional {
                        self.node(below, value, old(name), ratchet.key(name), &Path::Key(path, name))?;
                    }
                }
                for (name, below) in &node.properties {
                    if let Some(value) = object.get(name) {
                        self.node(below, value, old(name), ratchet.key(name), &Path::Field(path, name))?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Evaluates the rules of one value.
    fn rules(
        &mut self,
        node: &Node,
        new: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_>,
        path: &Path<'_>,
    ) -> Result<(), OutOfBudget> {
        let Some(ty) = &node.ty else {
            if !node.schema.rules.is_empty() {
                let detail =
                    "rule compiler initialization error: failed to convert to declType for CEL validation rules";
                let error = FieldError::invalid(&path.below(self.base), node.schema.type_name(), detail);
                self.verdict.errors.push(error);
            }
            return Ok(());
        };
        let base = self.base;
        let at = || path.below(base);
        let kind = node.schema.type_name();
        let run_out = "validation failed due to running out of cost budget, no further validation rules will be run";
        if self.budget <= 0 {
            self.verdict.errors.push(FieldError::invalid(&at(), kind, run_out));
            return Err(self.stop());
        }
        let values = Values::new(node, ty, new, old);
        for (rule, compiled) in &node.rules {
            let Some(program) = &compiled.program else {
                if let Some(error) = &compiled.error {
                    self.verdict.errors.push(FieldError::invalid(&at(), kind, format!("rule compile error: {error}")));
                }
                continue;
            };
            let optional = rule.optional_old_self == Some(true);
            if compiled.uses_old_self && old.is_none() && !optional {
                continue;
            }
            let activation = if optional { &values.optional } else { &values.plain };
            let evaluated = program.evaluate(activation, PER_CALL_LIMIT);
            let cost = i64::try_from(evaluated.cost).unwrap_or(i64::MAX);
            if cost > self.budget {
                self.verdict.errors.push(FieldError::invalid(&at(), kind, run_out));
                return Err(self.stop());
            }
            self.budget -= cost;
            match evaluated.result {
                Ok(Val::Bool(true)) => {}
                Ok(_) => {
                    self.report_failure(node, rule, compiled, new, &values.plain, ratchet, &at())?;
                }
                Err(error) => {
                    let detail = failure(&error, rule);
                    self.verdict.errors.push(FieldError::invalid(&at(), kind, detail));
                    if error.is_cost_limit() {
                        return Err(self.stop());
                    }
                }
            }
        }
        Ok(())
    }

    /// Reports a rule that does not hold.
    #[expect(clippy::too_many_arguments, reason = "all of them are of the one rule")]
    fn report_failure(
        &mut self,
        node: &Node,
        rule: &Rule,
        compiled: &CompiledRule,
        new: &Value,
        activation: &Activation<'_>,
        ratchet: Ratchet<'_>,
        at: &FieldPath,
    ) -> Result<(), OutOfBudget> {
        let at = if compiled.field_path.is_empty() { at.clone() } else { at.child(&compiled.field_path) };
        let suppressed = !compiled.uses_old_self && ratchet.suppresses_errors();
        let mut detail = None;
        if let Some(expression) = &compiled.message_expression {
            match self.message(expression, &rule.message_expression, activation) {
                Ok(message) => detail = message,
                Err(text) => {
                    let error = FieldError::invalid(&at, node.schema.type_name(), text);
                    self.add_error(error, suppressed);
                    return Err(self.stop());
                }
            }
        }
        let detail = detail.unwrap_or_else(|| match rule.message.is_empty() {
            true => format!("failed rule: {}", rule_name(rule)),
            false => rule.message.trim().to_owned(),
        });
        let structured = matches!(node.schema.kind, Some(SchemaType::Object | SchemaType::Array));
        let error = match rule.reason.as_str() {
            "FieldValueForbidden" => FieldError::forbidden(&at, detail),
            "FieldValueRequired" => FieldError::required(&at, detail),
            "FieldValueDuplicate" if structured => FieldError::duplicate_omitting(&at),
            "FieldValueDuplicate" => FieldError::duplicate(&at, error_value(new)),
            _ if structured => FieldError::invalid_omitting(&at, detail),
            _ => FieldError::invalid(&at, error_value(new), detail),
        };
        self.add_error(error, suppressed);
        Ok(())
    }

    /// Returns the message from an expression; `None` if it is unusable.
    fn message(
        &mut self,
        expression: &MessageExpression,
        source: &str,
        activation: &Activation<'_>,
    ) -> Result<Option<String>, String> {
        let evaluated = expression.program.evaluate(activation, PER_CALL_LIMIT);
        let cost = i64::try_from(evaluated.cost).unwrap_or(i64::MAX);
        if cost > self.budget {
            let text = "messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run";
            return Err(text.to_owned());
        }
        let text = match evaluated.result {
            Err(error) if error.is_cost_limit() => {
                let source = binnacle_meta::go_quote(source);
                let why =
                    "no further validation rules will be run due to call cost exceeds limit for messageExpression";
                return Err(format!("{why}: {source}"));
            }
            result => result.ok().and_then(|value| value.as_str().map(|text| text.trim().to_owned())),
        };
        self.budget -= cost;
        Ok(text.filter(|text| !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n')))
    }

    fn add_error(&mut self, error: FieldError, suppressed: bool) {
        if !suppressed {
            self.verdict.errors.push(error);
        } else if self.verdict.warnings.len() < FieldErrors::SHOWN {
            self.verdict.warnings.push(error.to_string());
        }
    }

    fn stop(&mut self) -> OutOfBudget {
        self.budget = -1;
        OutOfBudget
    }
}

/// The values of `self` and `oldSelf`: plain, and for rules with an optional old value.
struct Values<'v> {
    plain: Activation<'v>,
    optional: Activation<'v>,
}

impl<'v> Values<'v> {
    /// A value of the wrong type is an error in the rules that use it.
    fn new(node: &'v Node, ty: &'v DeclType, new: &'v Value, old: Option<&'v Value>) -> Self {
        let mut plain = Activation::for_variables(2);
        plain.set_or_fail(SELF, Val::typed(new, ty));
        let mut optional = plain.clone();
        // If no rule uses the old value, messages cannot use it either.
        if node.rules.iter().any(|(_, compiled)| compiled.uses_old_self) {
            let Some(old) = old else {
                optional.set_or_fail(OLD_SELF, Ok(Val::Optional(None)));
                return Self { plain, optional };
            };
            let typed = Val::typed(old, ty);
            // cel-go converts an optional variable to a native Go value and back, which loses the types in lists and
            // maps.
            let untyped = typed.clone().map(|typed| match typed {
                Val::List(_) | Val::Map(_) => Val::of(old),
                scalar => scalar,
            });
            optional.set_or_fail(OLD_SELF, untyped.map(Val::some));
            plain.set_or_fail(OLD_SELF, typed);
        }
        Self { plain, optional }
    }
}

fn failure(error: &Error, rule: &Rule) -> String {
    let text = error.to_string();
    if text.starts_with("no such overload") {
        let reason = "call arguments did not match a supported operator, function or macro signature for rule";
        format!("'{text}': {reason}: {}", rule_name(rule))
    } else if error.is_cost_limit() {
        let reason = "no further validation rules will be run due to call cost exceeds limit for rule";
        format!("'{text}': {reason}: {}", rule_name(rule))
    } else {
        format!("{text} evaluating rule: {}", rule_name(rule))
    }
}

/// Returns the text that identifies a rule in messages: its `message` or its expression.
fn rule_name(rule: &Rule) -> &str {
    let name = if rule.message.is_empty() { &rule.rule } else { &rule.message };
    name.trim()
}
