//! The expressions of one policy or webhook, compiled once.

use std::sync::LazyLock;

use binnacle_cel::{DeclType, Environment, Program, Shape, Type, Version, escape};
use binnacle_kinds::expressions::{self, Uses};
use binnacle_meta::Text;

/// Compiles the expressions of one policy or webhook with the environment for stored ones: every known function and
/// feature can be used.
#[derive(Debug)]
pub struct Compiler {
    uses: Uses,
    /// The declared types of the variables so far; `None` where expressions have no `variables` at all.
    declared: Option<Vec<(Text, DeclType)>>,
    variables: Vec<Variable>,
    /// Rebuilt after each further variable.
    with_authorizer: Environment,
    without_authorizer: Environment,
}

/// A compiled expression, or its compile error.
#[derive(Debug)]
pub struct Expression {
    pub(crate) text: Text,
    pub(crate) compiled: Result<Program, String>,
}

/// The variables of a policy, in their order.
#[derive(Debug, Default)]
pub struct Variables {
    pub(crate) list: Vec<Variable>,
    pub(crate) numbers: Numbers,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub(crate) name: Text,
    /// The name of the variable in expressions.
    pub(crate) escaped: Text,
    pub(crate) expression: Expression,
}

/// The indices of the built-in variables, in all environments of one compiler.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Numbers {
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
        Self::new(Uses::default(), None)
    }

    /// Returns a compiler for the expressions of a policy; `params` is true if it has parameters.
    pub fn of_policy(params: bool) -> Self {
        Self::new(Uses { params, ..Uses::default() }, Some(Vec::new()))
    }

    fn new(uses: Uses, declared: Option<Vec<(Text, DeclType)>>) -> Self {
        let [with_authorizer, without_authorizer] = environments(uses, declared.as_deref());
        Self { uses, declared, variables: Vec::new(), with_authorizer, without_authorizer }
    }

    /// Compiles a variable, which later expressions can use.
    pub fn variable(&mut self, name: &str, expression: &str) {
        let expression = self.compile(expression, &[]);
        let ty = match &expression.compiled {
            Ok(program) => expressions::data_type(program.output_type()),
            Err(_) => DeclType::new(Shape::Dyn),
        };
        let declared = self.declared.get_or_insert_default();
        // As in kube-apiserver, the last variable of a name wins; validation rejects duplicates.
        declared.retain(|(known, _)| known != name);
        declared.push((name.into(), ty));
        self.variables.retain(|known| known.name != name);
        let escaped = escape(name).unwrap_or_else(|| name.into());
        self.variables.push(Variable { name: name.into(), escaped, expression });
        [self.with_authorizer, self.without_authorizer] = environments(self.uses, self.declared.as_deref());
    }

    /// Compiles an expression whose result must be of one of these types; any type if there are none.
    pub fn compile(&self, expression: &str, types: &[Type]) -> Expression {
        Expression::new(&self.with_authorizer, expression, types)
    }

    /// As [`Compiler::compile`], for an expression that does not see the authorizer.
    pub fn compile_without_authorizer(&self, expression: &str, types: &[Type]) -> Expression {
        Expression::new(&self.without_authorizer, expression, types)
    }

    /// As [`Compiler::compile`], for an expression that can make objects and patches.
    pub fn compile_mutation(&self, expression: &str, types: &[Type]) -> Expression {
        let uses = Uses { authorizer: true, patch_types: true, ..self.uses };
        let environment = expressions::admission(Version::STORED, uses, self.declared.as_deref());
        Expression::new(&environment, expression, types)
    }

    /// Returns the variables, after the last expression.
    pub fn into_variables(self) -> Variables {
        Variables { numbers: Numbers::of(&self.with_authorizer), list: self.variables }
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

impl Numbers {
    fn of(environment: &Environment) -> Self {
        let numbers = [
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
        let [object, old_object, namespace_object, request, params, variables, authorizer, request_resource] = numbers;
        let count = numbers.into_iter().flatten().max().map_or(0, |last| last + 1);
        Self { count, object, old_object, namespace_object, request, params, variables, authorizer, request_resource }
    }
}

/// Returns the environments with and without the authorizer.
fn environments(uses: Uses, declared: Option<&[(Text, DeclType)]>) -> [Environment; 2] {
    [true, false].map(|authorizer| expressions::admission(Version::STORED, Uses { authorizer, ..uses }, declared))
}
