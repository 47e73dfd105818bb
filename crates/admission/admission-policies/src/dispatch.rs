//! The common part of both plugins: finds the policies and bindings that a request matches, and their parameters.

use std::sync::Arc;

use binnacle_admission::Lookup;
use binnacle_admission_matching::expressions::{Checks, FailurePolicy, MatchConditionMetrics, request_object};
use binnacle_admission_matching::{MatchedResource, Subject};
use binnacle_authz::Authorizer;
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::admission::Attributes;
use binnacle_registry::{Catalog, Context, Match};
use binnacle_schema::Value;
use tokio::sync::OnceCell;

use crate::index::PolicyHook;
use crate::params::{self, Param};
use crate::policies::Policies;
use crate::policy::{Binding, Policy};
use crate::remote::RemoteKinds;

/// The parts of the server that policies depend on.
#[derive(Clone)]
pub struct PluginDependencies {
    pub policies: Arc<Policies>,
    pub catalog: Catalog,
    pub lookup: Arc<dyn Lookup>,
    pub authorizer: Arc<dyn Authorizer>,
    pub match_conditions: MatchConditionMetrics,
    /// The kinds of other servers, which may be parameters.
    pub remote: Arc<dyn RemoteKinds>,
}

/// A configuration error, which denies the request. Those of policies with `failurePolicy: Ignore` are dropped.
pub(crate) struct ConfigurationError<'h, E> {
    pub(crate) policy: &'h Policy<E>,
    /// `None` if the error is in the policy itself.
    pub(crate) binding: Option<&'h Binding>,
    pub(crate) message: String,
}

/// A binding that a request matches.
pub(crate) struct MatchedBinding<'h> {
    pub(crate) binding: &'h Binding,
    pub(crate) params: Vec<Param>,
}

/// A request. Data that is computed for one policy is cached for the next one.
pub(crate) struct Dispatch<'a> {
    pub(crate) dependencies: &'a PluginDependencies,
    pub(crate) attributes: &'a Attributes,
    pub(crate) subject: Subject<'a>,
    pub(crate) checks: Checks,
    namespace: OnceCell<Option<Arc<Value>>>,
}

impl<'a> Dispatch<'a> {
    pub(crate) fn new(dependencies: &'a PluginDependencies, attributes: &'a Attributes) -> Self {
        Self {
            dependencies,
            attributes,
            subject: Subject::new(attributes, &dependencies.catalog, &*dependencies.lookup),
            checks: Checks::new(dependencies.authorizer.clone(), attributes),
            namespace: OnceCell::new(),
        }
    }

    /// Returns the match of a request with a policy, and the matching bindings. Configuration errors are added to
    /// `errors`.
    pub(crate) async fn matching<'h, E>(
        &self,
        hook: &'h PolicyHook<E>,
        object: &Value,
        old: Option<&Value>,
        errors: &mut Vec<ConfigurationError<'h, E>>,
    ) -> Option<(MatchedResource, Vec<MatchedBinding<'h>>)> {
        let policy = &*hook.policy;
        let mut add_error = |binding: Option<&'h Binding>, why: &str| {
            if policy.failure_policy == FailurePolicy::Fail {
                let what = if binding.is_some() { "binding" } else { "policy" };
                errors.push(ConfigurationError {
                    policy,
                    binding,
                    message: format!("failed to configure {what}: {why}"),
                });
            }
        };
        let matched = match policy.criteria.matches(&self.subject, object, old).await {
            Ok(matched) => matched?,
            Err(status) => {
                add_error(None, status.message());
                return None;
            }
        };
        let params = match &policy.params {
            Some(kind) => match params::source(kind, &self.dependencies.catalog.snapshot(), &*self.dependencies.remote)
            {
                Ok(source) => Some((kind, source)),
                Err(why) => {
                    add_error(None, &why);
                    return None;
                }
            },
            None => None,
        };
        let mut bound = Vec::new();
        for binding in &hook.bindings {
            if let Some(criteria) = &binding.criteria {
                match criteria.matches(&self.subject, object, old).await {
                    Ok(Some(_)) => {}
                    Ok(None) => continue,
                    Err(status) => {
                        add_error(Some(binding), status.message());
                        continue;
                    }
                }
            }
            let params = match (&params, &binding.params) {
                (Some((kind, source)), Some(reference)) => {
                    params::collect(kind, source, reference, &self.attributes.namespace).await
                }
                _ => Ok(vec![Param::None]),
            };
            match params {
                Ok(params) => bound.push(MatchedBinding { binding, params }),
                Err(why) => add_error(Some(binding), &why),
            }
        }
        Some((matched, bound))
    }

    /// Returns the namespace of the request; `None` for cluster-scoped objects.
    ///
    /// # Errors
    ///
    /// Returns 404 if it does not exist.
    pub(crate) async fn namespace(&self) -> Result<Option<&Arc<Value>>, Status> {
        let attributes = self.attributes;
        let kind = &attributes.kind;
        let is_namespace = kind.group.is_empty() && kind.version == "v1" && kind.kind == "Namespace";
        if attributes.namespace.is_empty() || is_namespace {
            return Ok(None);
        }
        let namespace = self.namespace.get_or_try_init(async || {
            let resource = self.dependencies.catalog.require("", "v1", "namespaces")?;
            let context = Context::internal("");
            let entry = match resource.get(&context, &attributes.namespace, Match::Any).await {
                Err(status) if status.is(StatusReason::NotFound) => {
                    resource.get(&context, &attributes.namespace, Match::Consistent).await?
                }
                found => found?,
            };
            params::decoded(&self.dependencies.policies.namespaces, &resource, &entry).map(Some)
        });
        Ok(namespace.await?.as_ref())
    }

    /// Returns the variable `request` for this match.
    pub(crate) fn request(&self, matched: &MatchedResource) -> Value {
        request_object(self.attributes, &matched.kind, &matched.resource)
    }
}
