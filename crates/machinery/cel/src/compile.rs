//! Compiling expressions: parsing, checking, estimating their cost, and planning their evaluation.

use crate::ast::{Expr, ExprKind, operators};
use crate::check::{self, CheckedAst, Reference};
use crate::cost::{self, Estimate};
use crate::decl_type::DeclType;
use crate::environment::{Environment, Variable};
use crate::error::Error;
use crate::eval::Activation;
use crate::parser::{self, Features};
use crate::plan::Program;
use crate::source::{CompileErrors, Issues, Location, Source};
use crate::types::Type;
use crate::validate;

impl Environment {
    /// Parses and type-checks an expression.
    ///
    /// # Errors
    /// All errors of the expression, with kube-apiserver's messages.
    pub fn compile(&self, expression: &str) -> Result<Ast, CompileErrors> {
        let source = Source::new(expression);
        let mut issues = Issues::default();
        let checked = self.check(&source, &mut issues);
        match checked {
            Some(checked) if issues.is_empty() => Ok(Ast { checked, variables: self.variables.clone() }),
            _ => Err(CompileErrors::new(&source, issues)),
        }
    }

    fn check(&self, source: &Source, issues: &mut Issues) -> Option<CheckedAst> {
        let features = Features {
            optionals: self.version.at_least(28),
            two_variables: self.version.at_least(32),
            lists: self.version.at_least(34),
            bind: self.bind,
            no_macros: false,
        };
        let parsed = charged(source.chars.len() as u64 * STEPS_PER_CHARACTER, issues)
            .and_then(|()| parser::parse(source, features, issues))?;
        charged(parsed.positions.len() as u64 * STEPS_PER_NODE, issues)?;
        let checked = check::check(self, source, parsed.expr, parsed.positions, issues)?;
        if self.version.at_least(29) && issues.is_empty() {
            validate::literals(&checked, source, issues);
        }
        Some(checked)
    }

    /// Compiles an expression into a program.
    ///
    /// # Errors
    /// See [`Environment::compile`] and [`Ast::program`]; the text is Go's, without its prefix `compilation failed: `.
    pub fn program(&self, expression: &str) -> Result<Program, String> {
        let ast = self.compile(expression).map_err(|errors| errors.to_string())?;
        ast.program().map_err(|error| error.to_string())
    }

    /// Returns an empty activation for the variables.
    pub fn activation<'a>(&self) -> Activation<'a> {
        Activation::for_variables(self.variables.len())
    }
}

/// The work of parsing a character, and of checking, estimating and planning a node, in steps.
const STEPS_PER_CHARACTER: u64 = 10;
const STEPS_PER_NODE: u64 = 100;

/// Charges work on an expression. An exhausted budget is an error of the expression.
fn charged(steps: u64, issues: &mut Issues) -> Option<()> {
    binnacle_work::charge(steps).map_err(|exceeded| issues.add(Location::NONE, exceeded.to_string())).ok()
}

/// A checked expression.
#[derive(Debug)]
pub struct Ast {
    pub(crate) checked: CheckedAst,
    variables: Vec<Variable>,
}

impl Ast {
    /// Returns the type of the result.
    pub fn output_type(&self) -> &Type {
        self.checked.ty(self.checked.expr.id)
    }

    /// Estimates the minimum and maximum cost of an evaluation, from the declared sizes of the variables' data.
    pub fn estimate_cost(&self) -> Estimate {
        let data = |name: &str| {
            let variable = self.variables.iter().find(|variable| variable.name == name)?;
            variable.data.as_deref()
        };
        cost::estimate(&self.checked, &data)
    }

    /// Like [`Ast::estimate_cost`], with the same data for every name: kube-apiserver estimates rules of custom
    /// resources this way, as `self` and `oldSelf` have the same type, and does not distinguish names of types from
    /// them.
    pub fn estimate_cost_of(&self, data: &DeclType) -> Estimate {
        cost::estimate(&self.checked, &|_| Some(data))
    }

    /// Returns true if the expression uses a variable.
    pub fn uses_variable(&self, name: &str) -> bool {
        let Some(variable_index) = self.variables.iter().position(|variable| variable.name == name) else {
            return false;
        };
        self.checked
            .references()
            .any(|reference| matches!(reference, Reference::Variable(index) if *index == variable_index))
    }

    /// Returns true if the expression selects a field of this name anywhere.
    pub fn mentions_field(&self, name: &str) -> bool {
        let mut found = false;
        self.checked.expr.visit(&mut |expr| match &expr.kind {
            ExprKind::Select(select) => found |= select.field == name,
            ExprKind::Call(call) if call.function == operators::OPT_SELECT => {
                found |= call.args.last().and_then(Expr::as_string_literal).is_some_and(|field| field == name);
            }
            _ => {}
        });
        found
    }

    /// Returns true if the expression selects a field of a variable: `claims.email`, `has(claims.email)`,
    /// `claims.?email`.
    pub fn selects(&self, variable: &str, field: &str) -> bool {
        let is_variable = |expr: &Expr| matches!(&expr.kind, ExprKind::Ident(name) if name == variable);
        let mut found = false;
        self.checked.expr.visit(&mut |expr| match &expr.kind {
            ExprKind::Select(select) => found |= select.field == field && is_variable(&select.operand),
            ExprKind::Call(call) if call.function == operators::OPT_SELECT => {
                if let [operand, name] = call.args.as_slice() {
                    found |= is_variable(operand) && name.as_string_literal().is_some_and(|name| name == field);
                }
            }
            _ => {}
        });
        found
    }

    /// Compiles the expression into a program.
    ///
    /// # Errors
    /// Fails if a constant part has no value, such as `int("x")`.
    pub fn program(&self) -> Result<Program, Error> {
        Program::new(&self.checked, true)
    }
}
