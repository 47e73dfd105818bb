//! Match conditions of webhooks and policies: a request matches if all of the expressions are true.

use std::time::{Duration, Instant};

use binnacle_cel::{Type, Val};
use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{MatchCondition, MutatingWebhook};
use binnacle_fields::types::{List, Str};
use binnacle_meta::{Text, aggregate};
use binnacle_registry::admission::Operation;

use crate::expressions::budget::{Budget, MATCH_CONDITIONS_BUDGET};
use crate::expressions::checks::Checks;
use crate::expressions::compiler::{Compiler, Expression, Variables};
use crate::expressions::metrics::{ConditionOwner, MatchConditionMetrics};
use crate::expressions::scope::{Inputs, Scope};

/// The effect of an error in an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    Fail,
    Ignore,
}

impl FailurePolicy {
    /// Returns the failure policy of a webhook or of a policy's spec.
    pub fn of(policy: FieldRef<Str>) -> Self {
        if policy.str() == "Ignore" { Self::Ignore } else { Self::Fail }
    }
}

/// Compiled match conditions.
#[derive(Debug)]
pub struct MatchConditions {
    conditions: Vec<Condition>,
    failure_policy: FailurePolicy,
    owner: ConditionOwner,
}

#[derive(Debug)]
struct Condition {
    name: Text,
    expression: Expression,
}

/// The result of match conditions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchResult<'a> {
    Yes,
    /// A condition is false, or one failed with the failure policy `Ignore` and `condition` is `None`.
    No {
        condition: Option<&'a str>,
    },
    /// No condition is false, and one failed with the failure policy `Fail`.
    Failed(String),
}

/// A result and the values for its metrics.
#[derive(Debug)]
pub struct MatchEvaluation<'a> {
    matched: MatchResult<'a>,
    errors: usize,
    elapsed: Duration,
}

impl<'a> MatchEvaluation<'a> {
    pub fn matched(&self) -> &MatchResult<'a> {
        &self.matched
    }
}

impl MatchConditions {
    /// Compiles the `matchConditions` of a webhook; a mutating one has all fields of a validating one. `step` is
    /// `admit` or `validating`.
    pub fn of_webhook(webhook: FieldRef<MutatingWebhook>, step: &'static str) -> Self {
        let owner = ConditionOwner { name: webhook.at(MutatingWebhook::NAME).str().into(), kind: "webhook", step };
        let failure_policy = FailurePolicy::of(webhook.at(MutatingWebhook::FAILURE_POLICY));
        let conditions = webhook.at(MutatingWebhook::MATCH_CONDITIONS);
        Self::compile(&Compiler::of_webhook(), conditions, failure_policy, owner)
    }

    /// Compiles the `matchConditions` of a policy's spec, with the variables of the compiler.
    pub fn of_policy(
        compiler: &Compiler,
        conditions: FieldRef<List<MatchCondition>>,
        failure_policy: FailurePolicy,
        name: &str,
    ) -> Self {
        // As in kube-apiserver, mutating policies are counted as validating ones.
        let owner = ConditionOwner { name: name.into(), kind: "policy", step: "validate" };
        Self::compile(compiler, conditions, failure_policy, owner)
    }

    fn compile(
        compiler: &Compiler,
        conditions: FieldRef<List<MatchCondition>>,
        failure_policy: FailurePolicy,
        owner: ConditionOwner,
    ) -> Self {
        let condition = |condition: FieldRef<MatchCondition>| Condition {
            name: condition.at(MatchCondition::NAME).str().into(),
            expression: compiler.compile(condition.at(MatchCondition::EXPRESSION).str(), &[Type::Bool]),
        };
        Self { conditions: conditions.values().map(condition).collect(), failure_policy, owner }
    }

    /// Returns true if there are no conditions, so that all requests match.
    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    /// Evaluates the conditions for a webhook's request and records metrics.
    pub async fn of_request(
        &self,
        inputs: &Inputs<'_>,
        checks: &Checks,
        operation: Operation,
        metrics: &MatchConditionMetrics,
    ) -> MatchResult<'_> {
        if self.is_empty() {
            return MatchResult::Yes;
        }
        let variables = Variables::of_webhook();
        let inputs = Inputs { checks: Some(checks), ..*inputs };
        let evaluation = checks.resolve(|| self.evaluate(variables, &inputs)).await;
        self.record(&evaluation, operation, metrics);
        evaluation.matched
    }

    /// Evaluates the conditions without recording metrics. `inputs` must have no namespace: as in kube-apiserver, it is
    /// not available to match conditions.
    pub fn evaluate(&self, variables: &Variables, inputs: &Inputs<'_>) -> MatchEvaluation<'_> {
        let began = Instant::now();
        let mut errors = Vec::new();
        let matched = self.evaluate_conditions(variables, inputs, &mut errors);
        MatchEvaluation { matched, errors: errors.len(), elapsed: began.elapsed() }
    }

    /// Records the metrics of a final result.
    pub fn record(&self, evaluation: &MatchEvaluation<'_>, operation: Operation, metrics: &MatchConditionMetrics) {
        metrics.failed(&self.owner, operation, evaluation.errors);
        if evaluation.matched != MatchResult::Yes {
            metrics.took(&self.owner, operation, evaluation.elapsed);
        }
        if self.owner.kind == "webhook" && matches!(evaluation.matched, MatchResult::No { .. }) {
            metrics.excluded(&self.owner, operation);
        }
    }

    fn evaluate_conditions(
        &self,
        variables: &Variables,
        inputs: &Inputs<'_>,
        errors: &mut Vec<String>,
    ) -> MatchResult<'_> {
        let inputs = Inputs { namespace: None, ..*inputs };
        let scope = Scope::new(variables, &inputs);
        let mut budget = Budget::new(MATCH_CONDITIONS_BUDGET);
        // All are evaluated even if one is false, since the budget covers all of them.
        let mut results = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            match scope.evaluate(&condition.expression, &mut budget) {
                Ok(result) => results.push(result),
                Err(error) => return self.failure(error.to_string()),
            }
        }
        for (condition, result) in self.conditions.iter().zip(results) {
            match result {
                Ok(Val::Bool(false)) => return MatchResult::No { condition: Some(&condition.name) },
                Ok(_) => {}
                Err(why) => errors.push(why),
            }
        }
        if errors.is_empty() { MatchResult::Yes } else { self.failure(aggregate(&*errors)) }
    }

    fn failure(&self, why: String) -> MatchResult<'_> {
        match self.failure_policy {
            FailurePolicy::Fail => MatchResult::Failed(why),
            FailurePolicy::Ignore => MatchResult::No { condition: None },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use binnacle_authz::{Attributes as AuthzAttributes, Authorizer, AuthzError};
    use binnacle_meta::{GroupVersionKind, GroupVersionResource};
    use binnacle_registry::admission::{Attributes, OperationOptions, WriteOptions};
    use binnacle_request::{BoxFuture, Decision, User};
    use binnacle_schema::{Value, value};

    use super::*;
    use crate::expressions::request_object;

    /// Returns the attributes of the creation of a ConfigMap by a user of the group `dev`.
    pub(crate) fn attributes() -> Attributes {
        Attributes {
            operation: Operation::Create,
            kind: GroupVersionKind::new("", "v1", "ConfigMap"),
            resource: GroupVersionResource::new("", "v1", "configmaps"),
            subresource: "".into(),
            namespace: "default".into(),
            name: "c".into(),
            user: User::new("alice", &["dev"]),
            dry_run: false,
            options: OperationOptions::Create(WriteOptions::default()),
            deadline: None,
            by_server: false,
        }
    }

    /// Allows alice to create ConfigMaps.
    struct Alice;

    impl Authorizer for Alice {
        fn authorize<'a>(&'a self, attributes: &'a AuthzAttributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
            let yes =
                attributes.user.name == "alice" && (attributes.verb, attributes.resource) == ("create", "configmaps");
            Box::pin(async move { Ok(if yes { Decision::Allow("".into()) } else { Decision::NoOpinion("".into()) }) })
        }
    }

    #[tokio::test]
    async fn match_results_obey_the_failure_policy_and_are_counted() {
        let registry = binnacle_metrics::Registry::new();
        let metrics = MatchConditionMetrics::register(&registry).unwrap();
        let attributes = attributes();
        let request = request_object(&attributes, &attributes.kind, &attributes.resource);
        let object = value!({"data": {"a": "1"}});
        let failing = "expression 'object.data.b == '1'' resulted in error: no such key: b";
        for (expressions, policy, want) in [
            (&[][..], "Fail", MatchResult::Yes),
            (&["true", "object.data.a == '1' && request.userInfo.groups == ['dev']"], "Fail", MatchResult::Yes),
            (&["true", "false"], "Fail", MatchResult::No { condition: Some("c1") }),
            (&["object.data.b == '1'", "false"], "Fail", MatchResult::No { condition: Some("c1") }),
            (&["object.data.b == '1'", "true"], "Fail", MatchResult::Failed(failing.into())),
            (&["object.data.b == '1'", "true"], "Ignore", MatchResult::No { condition: None }),
            (
                &["object.data.b == '1'", "oldObject.x"],
                "Fail",
                MatchResult::Failed(format!("[{failing}, compilation error: must evaluate to bool but got dyn]")),
            ),
            (&["authorizer.requestResource.check('create').allowed()"], "Fail", MatchResult::Yes),
            (&["authorizer.requestResource.check('get').allowed()"], "Fail", MatchResult::No { condition: Some("c0") }),
            (&["request.options.kind == 'CreateOptions' && request.dryRun == false"], "Fail", MatchResult::Yes),
            (&["namespaceObject == null && oldObject == null"], "Fail", MatchResult::Yes),
        ] {
            let condition = |(i, expression): (usize, &&str)| {
                let name = format!("c{i}");
                value!({"name": name, "expression": (*expression)})
            };
            let list = Value::List(expressions.iter().enumerate().map(condition).collect());
            let webhook = value!({"name": "w", "failurePolicy": policy, "matchConditions": list});
            let conditions = MatchConditions::of_webhook(FieldRef::root(&webhook), "admit");
            let checks = Checks::new(Arc::new(Alice), &attributes);
            let inputs = Inputs {
                request: &request,
                object: Some(&object),
                old_object: None,
                params: None,
                namespace: None,
                checks: None,
            };
            let matched = conditions.of_request(&inputs, &checks, Operation::Create, &metrics).await;
            assert_eq!(matched, want, "{expressions:?}");
        }
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let labels = "{kind=\"webhook\",name=\"w\",operation=\"CREATE\",type=\"admit\"}";
        for (family, want) in [("evaluation_errors_total", 5), ("exclusions_total", 4), ("evaluation_seconds_count", 6)]
        {
            let line = format!("apiserver_admission_match_condition_{family}{labels} {want}");
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
    }
}
