//! Compiled validating policies.

use std::time::Instant;

use binnacle_admission_matching::expressions::{
    BUDGET, Budget, Compiler, Expression, FailurePolicy, Inputs, MatchConditionMetrics, MatchConditions, MatchResult,
    OutOfBudget, Scope, Variables,
};
use binnacle_cel::{Type, Val};
use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{
    AuditAnnotation, ValidatingAdmissionPolicySpec as Spec, Validation as ValidationFields, Variable,
};
use binnacle_meta::{StatusReason, Text};
use binnacle_registry::admission::Operation;
use binnacle_schema::Value;

use super::decision::{Annotation, Decision, Evaluation, PolicyEvaluation};
use crate::policy::Evaluator;

/// The compiled spec of a validating policy.
#[derive(Debug)]
pub(crate) struct Validating {
    conditions: MatchConditions,
    validations: Vec<Validation>,
    annotations: Vec<(Text, Expression)>,
    variables: Variables,
    /// True if an error denies the request.
    denies_on_error: bool,
    /// True if any validation has a `messageExpression`.
    has_messages: bool,
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    /// Empty if there is none.
    message: Text,
    message_expression: Option<Expression>,
    reason: StatusReason,
}

/// The maximum length of an expression's message; longer ones are ignored.
const MAX_MESSAGE: usize = 5 * 1024;

impl Evaluator for Validating {
    type Spec = Spec;

    fn compile(name: &str, spec: FieldRef<Spec>) -> Self {
        let mut compiler = Compiler::of_policy(spec.at(Spec::PARAM_KIND).is_set());
        for variable in spec.at(Spec::VARIABLES).values() {
            compiler.variable(variable.at(Variable::NAME).str(), variable.at(Variable::EXPRESSION).str());
        }
        let validations = spec.at(Spec::VALIDATIONS).values();
        let validations: Vec<_> = validations.map(|validation| Validation::compile(&compiler, validation)).collect();
        let annotation = |annotation: FieldRef<AuditAnnotation>| {
            let expression = annotation.at(AuditAnnotation::VALUE_EXPRESSION).str();
            let key = annotation.at(AuditAnnotation::KEY).str();
            (key.into(), compiler.compile(expression, &[Type::String, Type::Null]))
        };
        let failure_policy = FailurePolicy::of(spec.at(Spec::FAILURE_POLICY));
        let conditions = spec.at(Spec::MATCH_CONDITIONS);
        Self {
            conditions: MatchConditions::of_policy(&compiler, conditions, failure_policy, name),
            has_messages: validations.iter().any(|validation| validation.message_expression.is_some()),
            validations,
            annotations: spec.at(Spec::AUDIT_ANNOTATIONS).values().map(annotation).collect(),
            denies_on_error: failure_policy == FailurePolicy::Fail,
            variables: compiler.into_variables(),
        }
    }
}

impl Validation {
    fn compile(compiler: &Compiler, validation: FieldRef<ValidationFields>) -> Self {
        let message_expression = match validation.at(ValidationFields::MESSAGE_EXPRESSION).str() {
            "" => None,
            expression => Some(compiler.compile_without_authorizer(expression, &[Type::String])),
        };
        let reason = match validation.at(ValidationFields::REASON).str() {
            "Unauthorized" => StatusReason::Unauthorized,
            "Forbidden" => StatusReason::Forbidden,
            "RequestEntityTooLarge" => StatusReason::RequestEntityTooLarge,
            _ => StatusReason::Invalid,
        };
        Self {
            expression: compiler.compile(validation.at(ValidationFields::EXPRESSION).str(), &[Type::Bool]),
            message: validation.at(ValidationFields::MESSAGE).str().trim().into(),
            message_expression,
            reason,
        }
    }

    /// Returns the message of a failed validation.
    fn message(&self, evaluated: Option<&Result<Val<'_>, String>>) -> String {
        let text = match evaluated {
            Some(Ok(Val::Str(text))) => text.trim(),
            _ => "",
        };
        if !text.is_empty() && text.len() <= MAX_MESSAGE && !text.contains('\n') {
            text.to_owned()
        } else if !self.message.is_empty() {
            self.message.to_string()
        } else {
            format!("failed expression: {}", self.expression.text().trim())
        }
    }
}

impl Validating {
    /// Evaluates the policy for a request. `namespace` is the full namespace object, which is only available to audit
    /// annotations.
    pub(crate) fn evaluate<'p>(&'p self, inputs: &Inputs<'_>, namespace: Option<&Value>) -> PolicyEvaluation<'p> {
        let mut evaluated = PolicyEvaluation::default();
        if !self.conditions.is_empty() {
            let evaluation = self.conditions.evaluate(&self.variables, inputs);
            let matched = evaluation.matched().clone();
            evaluated.conditions = Some(evaluation);
            match matched {
                MatchResult::Yes => {}
                MatchResult::No { .. } => return evaluated,
                MatchResult::Failed(why) => {
                    evaluated.decisions.push(self.error(why));
                    return evaluated;
                }
            }
        }
        let mut budget = Budget::new(BUDGET);
        match self.validations(inputs, &mut budget) {
            Ok(decisions) => evaluated.decisions = decisions,
            Err(error) => {
                evaluated.decisions.push(self.error(error.to_string()));
                return evaluated;
            }
        }
        let inputs = Inputs { namespace, checks: None, ..*inputs };
        match self.annotations(&inputs) {
            Ok(annotations) => evaluated.annotations = annotations,
            Err(error) => evaluated.decisions = vec![self.error(error.to_string())],
        }
        evaluated
    }

    /// Records the metrics of the match conditions.
    pub(crate) fn count_conditions(
        &self,
        evaluation: &PolicyEvaluation<'_>,
        operation: Operation,
        metrics: &MatchConditionMetrics,
    ) {
        if let Some(evaluation) = &evaluation.conditions {
            self.conditions.record(evaluation, operation, metrics);
        }
    }

    fn validations(&self, inputs: &Inputs<'_>, budget: &mut Budget) -> Result<Vec<Decision>, OutOfBudget> {
        let scope = Scope::new(&self.variables, inputs);
        let mut results = Vec::with_capacity(self.validations.len());
        for validation in &self.validations {
            let began = Instant::now();
            let result = scope.evaluate(&validation.expression, budget)?;
            results.push((result, began.elapsed()));
        }
        // Messages are evaluated even for successful validations, since their cost is charged.
        let inputs = Inputs { checks: None, ..*inputs };
        let scope = Scope::new(&self.variables, &inputs);
        let messages = match self.has_messages {
            true => self.messages(&scope, budget),
            false => Ok(Vec::new()),
        };
        let decided = self.validations.iter().zip(results).enumerate();
        let decisions = decided.map(|(at, (validation, (result, elapsed)))| match (result, &messages) {
            (Err(why), _) => Decision::error(why, self.denies_on_error, elapsed),
            (_, Err(error)) => {
                Decision::error(format!("failed messageExpression: {error}"), self.denies_on_error, elapsed)
            }
            (Ok(Val::Bool(true)), _) => Decision::admit(),
            (Ok(_), Ok(messages)) => Decision {
                denies: true,
                evaluation: Evaluation::Deny,
                message: validation.message(messages.get(at).and_then(Option::as_ref)),
                reason: Some(validation.reason),
                elapsed,
            },
        });
        Ok(decisions.collect())
    }

    fn messages<'s>(
        &'s self,
        scope: &'s Scope<'s>,
        budget: &mut Budget,
    ) -> Result<Vec<Option<Result<Val<'s>, String>>>, OutOfBudget> {
        let evaluate = |validation: &'s Validation| {
            validation.message_expression.as_ref().map(|expression| scope.evaluate(expression, budget)).transpose()
        };
        self.validations.iter().map(evaluate).collect()
    }

    fn annotations(&self, inputs: &Inputs<'_>) -> Result<Vec<Annotation<'_>>, OutOfBudget> {
        if self.annotations.is_empty() {
            return Ok(Vec::new());
        }
        let scope = Scope::new(&self.variables, inputs);
        let mut budget = Budget::new(BUDGET);
        let mut annotations = Vec::with_capacity(self.annotations.len());
        for (key, expression) in &self.annotations {
            let began = Instant::now();
            let value = match scope.evaluate(expression, &mut budget)? {
                Ok(Val::Str(text)) => Ok(Some(text.trim().to_owned()).filter(|text| !text.is_empty())),
                Ok(Val::Null) => Ok(None),
                Ok(value) => Err(Decision::error(
                    format!(
                        "valueExpression '{}' resulted in unsupported return type: {}. Return type must be either string or \
                         null.",
                        expression.text(),
                        value.type_name()
                    ),
                    true,
                    began.elapsed(),
                )),
                Err(why) if self.denies_on_error => Err(Decision::error(why, true, began.elapsed())),
                Err(_) => Ok(None),
            };
            annotations.push(Annotation { key, value });
        }
        Ok(annotations)
    }

    fn error(&self, message: String) -> Decision {
        Decision::error(message, self.denies_on_error, std::time::Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    fn evaluate(spec: &Value, object: &Value) -> Vec<(bool, String)> {
        let policy = Validating::compile("p", FieldRef::root(spec));
        let request = value!({"operation": "CREATE"});
        let inputs = Inputs {
            request: &request,
            object: Some(object),
            old_object: None,
            params: None,
            namespace: None,
            checks: None,
        };
        let decisions = policy.evaluate(&inputs, None).decisions;
        decisions.into_iter().map(|decision| (decision.denies, decision.message)).collect()
    }

    #[test]
    fn chooses_the_message_of_a_failed_validation() {
        let object = value!({"metadata": {"name": "n"}});
        for (validation, want) in [
            (value!({"expression": "true", "message": "no"}), (false, "")),
            (value!({"expression": " false "}), (true, "failed expression: false")),
            (value!({"expression": "false", "message": " no "}), (true, "no")),
            (value!({"expression": "false", "messageExpression": "' ' + object.metadata.name"}), (true, "n")),
            (value!({"expression": "false", "message": "m", "messageExpression": "'a\\nb'"}), (true, "m")),
            (value!({"expression": "false", "message": "m", "messageExpression": "'' + object.x"}), (true, "m")),
            (
                value!({"expression": "object.x == 1"}),
                (true, "expression 'object.x == 1' resulted in error: no such key: x"),
            ),
            (value!({"expression": "1"}), (true, "compilation error: must evaluate to bool but got int")),
        ] {
            let spec = value!({"validations": [(validation.clone())]});
            assert_eq!(evaluate(&spec, &object), [(want.0, want.1.to_owned())], "{validation:?}");
        }
    }

    #[test]
    fn obeys_match_conditions_and_failure_policy() {
        let object = value!({"spec": {"replicas": 3}});
        let validations = value!([{"expression": "variables.r > 3", "message": "few"}, {"expression": "object.x"}]);
        let variables = value!([{"name": "r", "expression": "object.spec.replicas"}]);
        let error = "compilation error: must evaluate to bool but got dyn".to_owned();
        for (policy, condition, want) in [
            ("Fail", "true", vec![(true, "few".to_owned()), (true, error.clone())]),
            ("Ignore", "true", vec![(true, "few".to_owned()), (false, error)]),
            ("Fail", "request.operation == 'UPDATE'", Vec::new()),
            (
                "Fail",
                "object.y == 1",
                vec![(true, "expression 'object.y == 1' resulted in error: no such key: y".to_owned())],
            ),
            ("Ignore", "object.y == 1", Vec::new()),
        ] {
            let spec = value!({
                "failurePolicy": policy,
                "variables": (variables.clone()),
                "matchConditions": [{"name": "c", "expression": condition}],
                "validations": (validations.clone()),
            });
            assert_eq!(evaluate(&spec, &object), want, "{policy} {condition}");
        }
    }

    #[test]
    fn evaluates_audit_annotations() {
        let policy = Validating::compile(
            "p",
            FieldRef::root(&value!({"auditAnnotations": [
                {"key": "name", "valueExpression": "' ' + object.metadata.name"},
                {"key": "none", "valueExpression": "null"},
                {"key": "empty", "valueExpression": "'  '"},
                {"key": "wrong", "valueExpression": "'' + object.x"},
            ]})),
        );
        let (request, object) = (value!({}), value!({"metadata": {"name": "n"}}));
        let inputs = Inputs {
            request: &request,
            object: Some(&object),
            old_object: None,
            params: None,
            namespace: None,
            checks: None,
        };
        let annotations = policy.evaluate(&inputs, None).annotations;
        let values = annotations.into_iter().map(|annotation| annotation.value.map_err(|decision| decision.message));
        let wrong = "expression ''' + object.x' resulted in error: no such key: x";
        assert_eq!(values.collect::<Vec<_>>(), [Ok(Some("n".into())), Ok(None), Ok(None), Err(wrong.into())]);
    }
}
