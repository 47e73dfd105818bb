//! A compiled mutating policy.

use binnacle_admission_matching::expressions::{
    BUDGET, Budget, Compiler, Expression, Inputs, MatchConditions, Scope, Variables,
};
use binnacle_cel::Type;
use binnacle_schema::Value;

use super::patch::{Change, Failure};
use crate::policy::Evaluator;

/// The expressions of a policy.
#[derive(Debug)]
pub(crate) struct Mutating {
    pub(crate) conditions: MatchConditions,
    pub(crate) mutations: Vec<Mutation>,
    pub(crate) variables: Variables,
    /// True if the policy is evaluated again after others have changed the object.
    pub(crate) reinvocable: bool,
}

/// A mutation of the object.
#[derive(Debug)]
pub(crate) struct Mutation {
    how: How,
    expression: Expression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    ApplyConfiguration,
    JsonPatch,
}

impl Evaluator for Mutating {
    fn compile(name: &str, spec: &Value) -> Self {
        let mut compiler = Compiler::of_policy(spec.get("paramKind").is_some_and(|kind| !kind.is_null()));
        for variable in spec.list_at(&["variables"]) {
            compiler.variable(variable.str_at(&["name"]), variable.str_at(&["expression"]));
        }
        let mutations = spec.list_at(&["mutations"]).iter();
        Self {
            conditions: MatchConditions::of_policy(&compiler, spec, name),
            mutations: mutations.filter_map(|mutation| Mutation::compile(&compiler, mutation)).collect(),
            variables: compiler.into_variables(),
            reinvocable: spec.str_at(&["reinvocationPolicy"]) == "IfNeeded",
        }
    }
}

impl Mutation {
    fn compile(compiler: &Compiler, mutation: &Value) -> Option<Self> {
        let (how, member, ty) = match mutation.str_at(&["patchType"]) {
            "ApplyConfiguration" => (How::ApplyConfiguration, "applyConfiguration", Type::object("Object")),
            "JSONPatch" => (How::JsonPatch, "jsonPatch", Type::list(Type::object("JSONPatch"))),
            _ => return None,
        };
        let expression = mutation.get(member)?.str_at(&["expression"]);
        Some(Self { how, expression: compiler.compile_mutation(expression, &[ty]) })
    }

    /// Evaluates the mutation and returns its change.
    pub(crate) fn evaluate(&self, variables: &Variables, inputs: &Inputs<'_>) -> Result<Change, Failure> {
        if let Some(why) = self.expression.compile_error() {
            return Err(Failure::Message(why.to_owned()));
        }
        let scope = Scope::new(variables, inputs);
        let mut budget = Budget::new(BUDGET);
        let evaluated = scope.evaluate(&self.expression, &mut budget);
        let value = evaluated.map_err(|error| Failure::Message(error.to_string()))?.map_err(Failure::Message)?;
        match self.how {
            How::ApplyConfiguration => Change::configuration(&value),
            How::JsonPatch => Change::json_patch(&value),
        }
    }
}
