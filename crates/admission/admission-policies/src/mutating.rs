//! The MutatingAdmissionPolicy plugin: policies that change objects.

mod metrics;
mod refusals;
mod reinvocation;
mod versioned_object;

use std::time::Instant;

use binnacle_admission::{Plugin, Request, Stage, forbidden};
use binnacle_admission_matching::expressions::{FailurePolicy, Inputs, MatchResult, namespace_object};
use binnacle_admission_matching::{MatchedResource, SharedDefault};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

pub use self::metrics::MutatingMetrics;
use self::refusals::Refusals;
use self::reinvocation::Invocations;
use self::versioned_object::VersionedObject;
use crate::dispatch::{ConfigurationError, Dispatch, PluginDependencies};
use crate::evaluators::patch::Failure;
use crate::evaluators::schema::Schema;
use crate::evaluators::{Mutating, Mutation};
use crate::index::PolicyHook;
use crate::params::Param;
use crate::policy::{Binding, Policy};

const NAME: &str = "MutatingAdmissionPolicy";

/// Evaluates all mutating policies that a request matches, in order.
pub struct MutatingAdmissionPolicy {
    dependencies: PluginDependencies,
    metrics: MutatingMetrics,
}

/// An invocation of a policy with a binding and a parameter object.
struct Invocation<'h> {
    policy: &'h Policy<Mutating>,
    binding: &'h Binding,
    matched: MatchedResource,
    param: Param,
}

impl MutatingAdmissionPolicy {
    pub fn new(dependencies: PluginDependencies, metrics: MutatingMetrics) -> Self {
        Self { dependencies, metrics }
    }
}

impl Plugin for MutatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate
            && attributes.operation != Operation::Delete
            && self.dependencies.policies.mutating.may_match(attributes)
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let set = &self.dependencies.policies.mutating;
            let Some(policies) = set.ready_policies(request.attributes).await else {
                return Err(forbidden(request.attributes, object, "not yet ready to handle request"));
            };
            let dispatch = Dispatch::new(&self.dependencies, request.attributes);
            let mut run = Run { dispatch: &dispatch, metrics: &self.metrics, request, refusals: Refusals::default() };
            let mut shared = SharedDefault::show(&dispatch.subject, object);
            let mut invocations = Vec::new();
            for hook in policies.candidates(request.attributes) {
                run.collect(hook, object, &mut invocations).await;
            }
            if !invocations.is_empty() {
                run.invoke_all(&invocations, object, &mut shared).await?;
            }
            shared.hide(object);
            run.verdict(object)
        })
    }
}

/// The evaluation of the policies for a request.
struct Run<'a, 'd> {
    dispatch: &'d Dispatch<'a>,
    metrics: &'a MutatingMetrics,
    request: Request<'a>,
    refusals: Refusals,
}

impl Run<'_, '_> {
    /// Collects the invocations of a policy before any policy changes the object.
    async fn collect<'h>(&mut self, hook: &'h PolicyHook<Mutating>, object: &Value, found: &mut Vec<Invocation<'h>>) {
        let mut errors: Vec<ConfigurationError<'h, Mutating>> = Vec::new();
        let matching = self.dispatch.matching(hook, object, self.request.old, &mut errors).await;
        for error in errors {
            self.deny(error.policy, error.binding, &error.message, None);
        }
        let Some((matched, bound)) = matching else { return };
        for bound in bound {
            found.extend(bound.params.into_iter().map(|param| Invocation {
                policy: &hook.policy,
                binding: bound.binding,
                matched: matched.clone(),
                param,
            }));
        }
    }

    async fn invoke_all(
        &mut self,
        invocations: &[Invocation<'_>],
        object: &mut WriteObject,
        shared: &mut SharedDefault,
    ) -> Result<(), Status> {
        let pass = Invocations::of(&self.request);
        pass.begin(object);
        let namespace = self.dispatch.namespace().await?.map(|namespace| namespace_object(namespace));
        let mut versioned = VersionedObject::new(&self.dispatch.subject, object);
        let mut outcome = Ok(());
        for invocation in invocations {
            outcome = self.invoke(invocation, namespace.as_ref(), &pass, &mut versioned).await;
            if outcome.is_err() {
                break;
            }
        }
        let changed = versioned.finish(outcome.is_ok()).await?;
        outcome?;
        if changed {
            *shared = SharedDefault::show(&self.dispatch.subject, object);
        }
        if self.dispatch.subject.left_unpruned() {
            object.mark_unpruned();
        }
        pass.end(object, changed);
        Ok(())
    }

    async fn invoke(
        &mut self,
        invocation: &Invocation<'_>,
        namespace: Option<&Value>,
        pass: &Invocations<'_>,
        versioned: &mut VersionedObject<'_, '_>,
    ) -> Result<(), Status> {
        let Invocation { policy, binding, matched, param } = invocation;
        let evaluator = &policy.evaluator;
        let checks = &self.dispatch.checks;
        let request = self.dispatch.request(matched);
        let old = match self.request.old {
            Some(old) => Some(self.dispatch.subject.in_version(&matched.kind, old).await?),
            None => None,
        };
        if let Err(status) = versioned.convert_to(&matched.kind).await {
            let why = format!("failed to configure policy: {}", status.message());
            self.deny(policy, None, &why, None);
            return Ok(());
        }
        let param = match param.object(policy.params.as_ref()) {
            Ok(param) => param,
            Err(why) => {
                self.deny(policy, Some(binding), &format!("failed to configure binding: {why}"), None);
                return Ok(());
            }
        };
        let inputs = Inputs {
            request: &request,
            object: None,
            old_object: old.as_deref(),
            params: param.as_deref(),
            namespace,
            checks: Some(checks),
        };
        if !evaluator.conditions.is_empty() {
            let inputs = Inputs { object: versioned.object(), ..inputs };
            let evaluation = checks.resolve(|| evaluator.conditions.evaluate(&evaluator.variables, &inputs)).await;
            let metrics = &self.dispatch.dependencies.match_conditions;
            evaluator.conditions.record(&evaluation, self.request.attributes.operation, metrics);
            match evaluation.matched() {
                MatchResult::Yes => {}
                MatchResult::No { .. } => return Ok(()),
                MatchResult::Failed(why) => {
                    self.deny(policy, Some(binding), why, Some(StatusReason::Invalid));
                    return Ok(());
                }
            }
        }
        let key = reinvocation::key(policy, binding, param.as_deref());
        if !pass.is_due(&key) {
            return Ok(());
        }
        for mutation in &evaluator.mutations {
            self.apply(invocation, mutation, &inputs, versioned).await?;
        }
        if evaluator.reinvocable {
            pass.invoked(key);
        }
        Ok(())
    }

    /// Applies a mutation. A failure denies the request in the end, but later mutations are still applied.
    async fn apply(
        &mut self,
        invocation: &Invocation<'_>,
        mutation: &Mutation,
        inputs: &Inputs<'_>,
        versioned: &mut VersionedObject<'_, '_>,
    ) -> Result<(), Status> {
        let Invocation { policy, binding, matched, .. } = invocation;
        let Some(object) = versioned.object() else { return Ok(()) };
        let inputs = Inputs { object: Some(object), ..*inputs };
        let began = Instant::now();
        let snapshot = self.dispatch.dependencies.catalog.snapshot();
        let applied = match Schema::find(&snapshot, &matched.kind) {
            Some(schema) => {
                let variables = &policy.evaluator.variables;
                let evaluate = || mutation.evaluate(variables, &inputs);
                let evaluated = self.dispatch.checks.resolve(evaluate).await;
                evaluated.and_then(|change| change.apply(object, &schema))
            }
            None => Err(Failure::Status(Status::service_unavailable(format!(
                "Resource kind {}/{}, Kind={} not found. There can be a delay between when CustomResourceDefinitions are \
                 created and when they are available.",
                matched.kind.group, matched.kind.version, matched.kind.kind
            )))),
        };
        let elapsed = began.elapsed();
        match applied {
            Ok(changed) => {
                self.metrics.observe(&policy.name, &binding.name, None, elapsed);
                versioned.replace(changed);
            }
            Err(failure) => {
                self.metrics.observe(&policy.name, &binding.name, Some(failure.message()), elapsed);
                match failure {
                    Failure::Status(status) => return Err(status),
                    Failure::Message(why) => self.deny(policy, Some(binding), &why, Some(StatusReason::Invalid)),
                }
            }
        }
        Ok(())
    }

    fn deny(&mut self, policy: &Policy<Mutating>, binding: Option<&Binding>, why: &str, reason: Option<StatusReason>) {
        if policy.failure_policy == FailurePolicy::Ignore {
            return;
        }
        self.refusals.add(reason, || match binding {
            Some(binding) => {
                format!("policy '{}' with binding '{}' denied request: {why}", policy.name, binding.name)
            }
            None => format!("policy {:?} denied request: {why}", policy.name.as_str()),
        });
    }

    fn verdict(&self, object: &Value) -> Result<(), Status> {
        self.refusals.refuse(|| forbidden(self.request.attributes, object, ""))
    }
}
