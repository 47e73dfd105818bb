//! Compilation of the expressions of a policy or webhook.

use std::collections::HashMap;
use std::sync::LazyLock;

use binnacle_cel::{DeclType, Environment, Program, Shape, Type, Version, escape};
use binnacle_kinds::expressions::{self, OptionalVariables, Variables as Declared};
use binnacle_meta::Text;

/// Compiles the expressions of a policy or webhook in the environment for stored expressions, in which all functions
/// and features are enabled.
#[derive(Debug)]
pub struct Compiler {
    uses: OptionalVariables,
    /// The declared types of the variables compiled so far; `None` if expressions have no `variables`.
    declared: Option<Declared>,
    variables: Variables,
}

/// A compiled expression, or its compile error.
#[derive(Debug)]
pub struct Expression {
    pub(crate) text: Text,
    pub(crate) compiled: Result<Program, String>,
}

/// The variables of a policy in order.
#[derive(Debug, Default)]
pub struct Variables {
    pub(crate) list: Vec<Variable>,
    /// The positions in the list, by escaped name.
    pub(crate) positions: HashMap<Text, usize>,
    pub(crate) indices: VariableIndices,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: Text,
    pub(crate) expression: Expression,
}

/// The indices of the built-in variables, which are the same in all environments of a compiler.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VariableIndices {
    pub(crate) count: usize,
    pub(crate) object: Option<usize>,
    pub(crate) old_object: Option<usize>,
    pub(crate) namespace_object: Option<usize>,
    pub(crate) request: Option<usize>,
    pub(crate) params: Option<usize>,
    pub(crate) variables: Option<usize>,
    pub(crate) authorizer: Option<usize>,
    pub(crate) request_resource: Option<usize>,
}

impl Compiler {
    /// Returns a compiler for the match conditions of a webhook.
    pub fn of_webhook() -> Self {
        Self::new(OptionalVariables::default(), None)
    }

    /// Returns a compiler for the expressions of a policy; `params` is true if it has parameters.
    pub fn of_policy(params: bool) -> Self {
        Self::new(OptionalVariables { params, ..OptionalVariables::default() }, Some(Declared::default()))
    }

    fn new(uses: OptionalVariables, declared: Option<Declared>) -> Self {
        Self { uses, declared, variables: Variables::default() }
    }

    /// Returns the environment for an expression, with the variables that it uses.
    fn environment(&self, expression: &str, uses: OptionalVariables) -> Environment {
        let variables = self.declared.as_ref().map(|declared| declared.named_in(expression));
        expressions::admission(Version::STORED, uses, variables.as_deref())
    }

    /// Compiles a variable, which later expressions can use.
    pub fn variable(&mut self, name: &str, expression: &str) {
        let expression = self.compile(expression, &[]);
        let ty = match &expression.compiled {
            Ok(program) => expressions::data_type(program.output_type()),
            Err(_) => DeclType::new(Shape::Dyn),
        };
        self.declared.get_or_insert_default().insert(name, ty);
        // As in kube-apiserver, the last variable with a name wins; validation rejects duplicates.
        let escaped = escape(name).unwrap_or_else(|| name.into());
        let Variables { list, positions, .. } = &mut self.variables;
        positions.insert(escaped, list.len());
        list.push(Variable { name: name.into(), expression });
    }

    /// Compiles an expression whose result must have one of these types; any type if there are none.
    pub fn compile(&self, expression: &str, types: &[Type]) -> Expression {
        Expression::new(
            &self.environment(expression, OptionalVariables { authorizer: true, ..self.uses }),
            expression,
            types,
        )
    }

    /// Like [`Compiler::compile`], for an expression without access to the authorizer.
    pub fn compile_without_authorizer(&self, expression: &str, types: &[Type]) -> Expression {
        Expression::new(&self.environment(expression, self.uses), expression, types)
    }

    /// Like [`Compiler::compile`], for an expression that can create objects and patches.
    pub fn compile_mutation(&self, expression: &str, types: &[Type]) -> Expression {
        let uses = OptionalVariables { authorizer: true, patch_types: true, ..self.uses };
        Expression::new(&self.environment(expression, uses), expression, types)
    }

    /// Returns the variables, once all expressions are compiled.
    pub fn into_variables(self) -> Variables {
        let indices = VariableIndices::of(&self.environment("", OptionalVariables { authorizer: true, ..self.uses }));
        Variables { indices, ..self.variables }
    }
}

impl Expression {
    fn new(environment: &Environment, expression: &str, types: &[Type]) -> Self {
        Self { text: expression.into(), compiled: expressions::compile(environment, expression, types) }
    }

    /// Returns the source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the compile error, if any.
    pub fn compile_error(&self) -> Option<&str> {
        self.compiled.as_ref().err().map(String::as_str)
    }
}

impl Variables {
    /// Returns the empty set of variables for webhooks.
    pub(crate) fn of_webhook() -> &'static Self {
        static NONE: LazyLock<Variables> = LazyLock::new(|| Compiler::of_webhook().into_variables());
        &NONE
    }
}

impl VariableIndices {
    fn of(environment: &Environment) -> Self {
        let indices = [
            "object",
            "oldObject",
            "namespaceObject",
            "request",
            "params",
            "variables",
            "authorizer",
            "authorizer.requestResource",
        ]
        .map(|name| environment.variable_index(name));
        let [object, old_object, namespace_object, request, params, variables, authorizer, request_resource] = indices;
        let count = indices.into_iter().flatten().max().map_or(0, |last| last + 1);
        Self { count, object, old_object, namespace_object, request, params, variables, authorizer, request_resource }
    }
}
