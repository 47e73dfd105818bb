//! Matching of requests with webhooks: first rules and selectors, then match conditions.

use std::sync::Arc;

use binnacle_admission::Lookup;
use binnacle_admission_matching::expressions::{Checks, Inputs, MatchConditionMetrics, MatchResult, request_object};
use binnacle_admission_matching::{MatchedResource, Subject};
use binnacle_authz::Authorizer;
use binnacle_meta::Status;
use binnacle_registry::Catalog;
use binnacle_registry::admission::Attributes;
use binnacle_schema::Value;

use crate::hook::Hook;
use crate::metrics::Metrics;

/// The parts of the server that both plugins depend on.
#[derive(Clone)]
pub struct PluginDependencies {
    pub catalog: Catalog,
    pub lookup: Arc<dyn Lookup>,
    pub authorizer: Arc<dyn Authorizer>,
    pub metrics: Metrics,
    pub conditions: MatchConditionMetrics,
}

/// A request that is matched with webhooks.
pub(crate) struct WebhookMatcher<'a> {
    pub(crate) subject: Subject<'a>,
    dependencies: &'a PluginDependencies,
    checks: Option<Checks>,
}

impl<'a> WebhookMatcher<'a> {
    pub(crate) fn new(attributes: &'a Attributes, dependencies: &'a PluginDependencies) -> Self {
        let subject = Subject::new(attributes, &dependencies.catalog, &*dependencies.lookup);
        Self { subject, dependencies, checks: None }
    }

    /// Returns the resource and kind that the request matches a webhook as, if it does.
    ///
    /// # Errors
    ///
    /// Returns 403 if a match condition fails and the failure policy is `Fail`, 404 and 500 as for
    /// [`Criteria::matches`].
    ///
    /// [`Criteria::matches`]: binnacle_admission_matching::Criteria::matches
    pub(crate) async fn matches(
        &mut self,
        hook: &Hook,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Option<MatchedResource>, Status> {
        let Some(matched) = hook.criteria.matches(&self.subject, object, old).await? else { return Ok(None) };
        if hook.conditions.is_empty() {
            return Ok(Some(matched));
        }
        let attributes = self.subject.attributes;
        let versioned = self.subject.versioned(&matched.kind, object, old).await?;
        let request = request_object(attributes, &matched.kind, &matched.resource);
        let authorizer = &self.dependencies.authorizer;
        let checks = self.checks.get_or_insert_with(|| Checks::new(authorizer.clone(), attributes));
        let inputs = Inputs {
            request: &request,
            object: Some(&*versioned.object).filter(|object| !object.is_null()),
            old_object: versioned.old.as_deref(),
            params: None,
            namespace: None,
            checks: None,
        };
        let metrics = &self.dependencies.conditions;
        match hook.conditions.of_request(&inputs, checks, attributes.operation, metrics).await {
            MatchResult::Yes => Ok(Some(matched)),
            MatchResult::No { .. } => Ok(None),
            MatchResult::Failed(why) => {
                tracing::warn!(webhook = hook.name.as_str(), why, "match conditions failed");
                Err(Status::forbidden(&attributes.resource.group_resource(), &attributes.name, why))
            }
        }
    }
}
