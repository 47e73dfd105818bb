//! Compiled mutating policies.

use binnacle_admission_matching::expressions::{
    BUDGET, Budget, Compiler, Expression, FailurePolicy, Inputs, MatchConditions, Scope, Variables,
};
use binnacle_cel::Type;
use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{
    ApplyConfiguration, JSONPatch, MutatingAdmissionPolicySpec as Spec, Mutation as MutationFields, Variable,
};

use super::patch::{Change, Failure};
use crate::policy::Evaluator;

/// The compiled spec of a mutating policy.
#[derive(Debug)]
pub(crate) struct Mutating {
    pub(crate) conditions: MatchConditions,
    pub(crate) mutations: Vec<Mutation>,
    pub(crate) variables: Variables,
    /// True if the policy is evaluated again after other policies or plugins have changed the object.
    pub(crate) reinvocable: bool,
}

/// A compiled mutation.
#[derive(Debug)]
pub(crate) struct Mutation {
    patch_type: PatchType,
    expression: Expression,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchType {
    ApplyConfiguration,
    JsonPatch,
}

impl Evaluator for Mutating {
    type Spec = Spec;

    fn compile(name: &str, spec: FieldRef<Spec>) -> Self {
        let mut compiler = Compiler::of_policy(spec.at(Spec::PARAM_KIND).is_set());
        for variable in spec.at(Spec::VARIABLES).values() {
            compiler.variable(variable.at(Variable::NAME).str(), variable.at(Variable::EXPRESSION).str());
        }
        let failure_policy = FailurePolicy::of(spec.at(Spec::FAILURE_POLICY));
        let conditions = spec.at(Spec::MATCH_CONDITIONS);
        let mutations = spec.at(Spec::MUTATIONS).values();
        Self {
            conditions: MatchConditions::of_policy(&compiler, conditions, failure_policy, name),
            mutations: mutations.filter_map(|mutation| Mutation::compile(&compiler, mutation)).collect(),
            variables: compiler.into_variables(),
            reinvocable: spec.at(Spec::REINVOCATION_POLICY).str() == "IfNeeded",
        }
    }
}

impl Mutation {
    fn compile(compiler: &Compiler, mutation: FieldRef<MutationFields>) -> Option<Self> {
        let (patch_type, expression, ty) = match mutation.at(MutationFields::PATCH_TYPE).str() {
            "ApplyConfiguration" => {
                let configuration = mutation.at(MutationFields::APPLY_CONFIGURATION).set()?;
                let expression = configuration.at(ApplyConfiguration::EXPRESSION).str();
                (PatchType::ApplyConfiguration, expression, Type::object("Object"))
            }
            "JSONPatch" => {
                let expression = mutation.at(MutationFields::JSON_PATCH).set()?.at(JSONPatch::EXPRESSION).str();
                (PatchType::JsonPatch, expression, Type::list(Type::object("JSONPatch")))
            }
            _ => return None,
        };
        Some(Self { patch_type, expression: compiler.compile_mutation(expression, &[ty]) })
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
        match self.patch_type {
            PatchType::ApplyConfiguration => Change::configuration(&value),
            PatchType::JsonPatch => Change::json_patch(&value),
        }
    }
}
