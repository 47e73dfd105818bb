//! The ValidatingAdmissionPolicy plugin: policies that deny requests, warn, or add audit annotations.

mod annotations;
mod metrics;

use std::borrow::Cow;

use binnacle_admission::{Plugin, Request, Stage, forbidden};
use binnacle_admission_matching::expressions::{FailurePolicy, Inputs, namespace_object};
use binnacle_admission_matching::{MatchedResource, VersionedObjects};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::Attributes;
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use self::annotations::Annotations;
pub use self::metrics::ValidatingMetrics;
use crate::dispatch::{ConfigurationError, Dispatch, MatchedBinding, PluginDependencies};
use crate::evaluators::Validating;
use crate::evaluators::decision::{Decision, PolicyEvaluation};
use crate::index::PolicyHook;
use crate::policy::{Action, Binding, Policy};

/// Evaluates all validating policies that a request matches.
pub struct ValidatingAdmissionPolicy {
    dependencies: PluginDependencies,
    metrics: ValidatingMetrics,
}

/// The bytes of a message that are quoted in ten nanoseconds.
const BYTES_PER_STEP: usize = 4;

/// The reason why a request is denied.
struct Denial<'h> {
    policy: &'h Policy<Validating>,
    binding: Option<&'h Binding>,
    message: String,
    reason: StatusReason,
}

/// The objects of a request in the version of a match.
struct VersionedView<'v> {
    matched: MatchedResource,
    objects: VersionedObjects<'v>,
    request: Value,
}

impl ValidatingAdmissionPolicy {
    pub fn new(dependencies: PluginDependencies, metrics: ValidatingMetrics) -> Self {
        Self { dependencies, metrics }
    }
}

impl Plugin for ValidatingAdmissionPolicy {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionPolicy"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate && self.dependencies.policies.validating.may_match(attributes)
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let set = &self.dependencies.policies.validating;
            let Some(policies) = set.ready_policies(request.attributes).await else {
                return Err(forbidden(request.attributes, object, "not yet ready to handle request"));
            };
            let mut run = Run {
                dispatch: Dispatch::new(&self.dependencies, request.attributes),
                metrics: &self.metrics,
                request,
                object,
                views: Vec::new(),
                namespace: None,
                denial: None,
            };
            for hook in policies.candidates(request.attributes) {
                run.evaluate_policy(hook).await?;
            }
            match run.denial {
                Some(denial) => Err(denial.status(request.attributes, object)),
                None => Ok(()),
            }
        })
    }
}

/// The evaluation of the policies for a request.
struct Run<'a, 'h> {
    dispatch: Dispatch<'a>,
    metrics: &'a ValidatingMetrics,
    request: Request<'a>,
    object: &'a Value,
    views: Vec<VersionedView<'a>>,
    /// `namespaceObject`, once the request's namespace has been read.
    namespace: Option<Value>,
    /// The first denial. There may be one for each parameter, but only the first one is reported.
    denial: Option<Denial<'h>>,
}

impl<'h> Run<'_, 'h> {
    async fn evaluate_policy(&mut self, hook: &'h PolicyHook<Validating>) -> Result<(), Status> {
        let mut errors: Vec<ConfigurationError<'h, Validating>> = Vec::new();
        let matching = self.dispatch.matching(hook, self.object, self.request.old, &mut errors).await;
        if let Some(error) = errors.into_iter().next() {
            self.refuse(|| Denial {
                policy: error.policy,
                binding: error.binding,
                message: error.message,
                reason: StatusReason::Invalid,
            });
        }
        let Some((matched, bound)) = matching else { return Ok(()) };
        let mut annotations = Annotations::default();
        for bound in bound {
            self.evaluate(hook, &matched, bound, &mut annotations).await?;
        }
        annotations.publish(&hook.policy.name, &self.request);
        Ok(())
    }

    async fn evaluate(
        &mut self,
        hook: &'h PolicyHook<Validating>,
        matched: &MatchedResource,
        bound: MatchedBinding<'h>,
        annotations: &mut Annotations<'h>,
    ) -> Result<(), Status> {
        let MatchedBinding { binding, params } = bound;
        let policy = &*hook.policy;
        let namespace = self.dispatch.namespace().await?.cloned();
        if self.namespace.is_none() {
            self.namespace = namespace.as_deref().map(namespace_object);
        }
        if params.is_empty() {
            return Ok(());
        }
        let at = match self.view(matched).await {
            Ok(at) => at,
            Err(status) => {
                let message =
                    format!("failed to configure binding: failed to convert object version: {}", status.message());
                if policy.failure_policy == FailurePolicy::Fail {
                    let reason = StatusReason::Invalid;
                    self.refuse(|| Denial { policy, binding: Some(binding), message, reason });
                }
                return Ok(());
            }
        };
        for param in params {
            let param = match param.object(policy.params.as_ref()) {
                Ok(param) => param,
                Err(why) => {
                    if policy.failure_policy == FailurePolicy::Fail {
                        let message = format!("failed to configure binding: {why}");
                        let reason = StatusReason::Invalid;
                        self.refuse(|| Denial { policy, binding: Some(binding), message, reason });
                    }
                    return Ok(());
                }
            };
            let view = &self.views[at];
            let inputs = Inputs {
                request: &view.request,
                object: Some(&*view.objects.object).filter(|object| !object.is_null()),
                old_object: view.objects.old.as_deref(),
                params: param.as_deref(),
                namespace: self.namespace.as_ref(),
                checks: Some(&self.dispatch.checks),
            };
            let whole = namespace.as_deref();
            let evaluated = self.dispatch.checks.resolve(|| policy.evaluator.evaluate(&inputs, whole)).await;
            self.enforce(policy, binding, evaluated, annotations);
        }
        Ok(())
    }

    /// Returns the index of the view for a policy's match.
    async fn view(&mut self, matched: &MatchedResource) -> Result<usize, Status> {
        if let Some(at) = self.views.iter().position(|view| view.matched == *matched) {
            return Ok(at);
        }
        let objects = self.dispatch.subject.versioned(&matched.kind, self.object, self.request.old).await?;
        let request = self.dispatch.request(matched);
        self.views.push(VersionedView { matched: matched.clone(), objects, request });
        Ok(self.views.len() - 1)
    }

    fn enforce(
        &mut self,
        policy: &'h Policy<Validating>,
        binding: &'h Binding,
        evaluated: PolicyEvaluation<'h>,
        annotations: &mut Annotations<'h>,
    ) {
        let operation = self.request.attributes.operation;
        policy.evaluator.count_conditions(&evaluated, operation, &self.dispatch.dependencies.match_conditions);
        for (at, decision) in evaluated.decisions.into_iter().enumerate() {
            if !decision.denies {
                if decision.is_error() {
                    self.metrics.allowed(&policy.name, &binding.name, &decision);
                }
                continue;
            }
            for action in &binding.actions {
                // Messages may be as long as a policy, and there is one for each parameter.
                binnacle_work::pace((decision.message.len() / BYTES_PER_STEP) as u64);
                match action {
                    Action::Deny => {
                        self.metrics.denied(&policy.name, &binding.name, &decision);
                        self.deny(policy, binding, &decision);
                    }
                    Action::Audit => {
                        let key = "validation.policy.admission.k8s.io/validation_failure";
                        self.request.annotate(key, annotations::failure(binding, at, &decision.message));
                        self.metrics.audited(&policy.name, &binding.name, &decision);
                    }
                    Action::Warn => {
                        self.request.warn(format!(
                            "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {}",
                            policy.name, binding.name, decision.message
                        ));
                        self.metrics.warned(&policy.name, &binding.name, &decision);
                    }
                }
            }
        }
        for annotation in evaluated.annotations {
            match annotation.value {
                Ok(Some(value)) => annotations.add(annotation.key, value),
                Ok(None) => {}
                Err(decision) => {
                    self.metrics.denied(&policy.name, &binding.name, &decision);
                    self.deny(policy, binding, &decision);
                }
            }
        }
    }

    fn deny(&mut self, policy: &'h Policy<Validating>, binding: &'h Binding, decision: &Decision) {
        let reason = decision.reason.unwrap_or(StatusReason::Invalid);
        self.refuse(|| Denial { policy, binding: Some(binding), message: decision.message.clone(), reason });
    }

    fn refuse(&mut self, denial: impl FnOnce() -> Denial<'h>) {
        self.denial.get_or_insert_with(denial);
    }
}

impl Denial<'_> {
    fn status(&self, attributes: &Attributes, object: &Value) -> Status {
        let binding =
            self.binding.map_or(Cow::Borrowed(""), |binding| format!(" with binding '{}'", binding.name).into());
        let message =
            format!("ValidatingAdmissionPolicy '{}'{binding} denied request: {}", self.policy.name, self.message);
        let code = match self.reason {
            StatusReason::Forbidden => 403,
            StatusReason::Unauthorized => 401,
            StatusReason::RequestEntityTooLarge => 413,
            _ => 422,
        };
        forbidden(attributes, object, &message).because(self.reason, code).with_cause("", &message, "")
    }
}
