//! Admission policies: their data, and the plugins that evaluate them.

use std::sync::Arc;

use binnacle_admission::{Lookup, Plugin};
use binnacle_admission_matching::expressions::MatchConditionMetrics;
use binnacle_admission_policies::{
    MutatingAdmissionPolicy, MutatingMetrics, PluginDependencies, Policies, RemoteKinds, RemoteParams,
    ValidatingAdmissionPolicy, ValidatingMetrics,
};
use binnacle_aggregator::{Aggregator, RemoteObjects};
use binnacle_authz::Authorizer;
use binnacle_meta::GroupVersionKind;
use binnacle_metrics::Registry;
use binnacle_registry::Catalog;
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

/// All policies of the server, and their metrics.
pub(super) struct AdmissionPolicies {
    pub(super) policies: Arc<Policies>,
    match_conditions: MatchConditionMetrics,
    validating: ValidatingMetrics,
    mutating: MutatingMetrics,
}

impl AdmissionPolicies {
    /// Creates the policies; their match conditions share metrics with those of webhooks.
    pub(super) fn new(conditions: &MatchConditionMetrics, registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            policies: Policies::new(),
            match_conditions: conditions.clone(),
            validating: ValidatingMetrics::register(registry)?,
            mutating: MutatingMetrics::register(registry)?,
        })
    }

    pub(super) fn plugins(
        &self,
        catalog: &Catalog,
        lookup: &Arc<dyn Lookup>,
        authorizer: &Arc<dyn Authorizer>,
        aggregator: &Aggregator,
    ) -> Vec<Arc<dyn Plugin>> {
        let dependencies = PluginDependencies {
            policies: self.policies.clone(),
            catalog: catalog.clone(),
            lookup: lookup.clone(),
            authorizer: authorizer.clone(),
            match_conditions: self.match_conditions.clone(),
            remote: aggregated_servers(aggregator),
        };
        let mut plugins: Vec<Arc<dyn Plugin>> =
            vec![Arc::new(ValidatingAdmissionPolicy::new(dependencies.clone(), self.validating.clone()))];
        if catalog.features().enabled("MutatingAdmissionPolicy") {
            plugins.push(Arc::new(MutatingAdmissionPolicy::new(dependencies, self.mutating.clone())));
        }
        plugins
    }
}

/// Returns the view of aggregated API servers for policies.
pub(super) fn aggregated_servers(aggregator: &Aggregator) -> Arc<dyn RemoteKinds> {
    Arc::new(AggregatedServers(aggregator.clone()))
}

/// The aggregated API servers, for parameters of policies and the types of expressions.
struct AggregatedServers(Aggregator);

/// The objects of a kind on an aggregated API server.
struct AggregatedObjects(Arc<RemoteObjects>);

impl RemoteKinds for AggregatedServers {
    fn objects(&self, kind: &GroupVersionKind) -> Option<Arc<dyn RemoteParams>> {
        Some(Arc::new(AggregatedObjects(self.0.objects(kind)?)))
    }

    fn kinds(&self, group: &str, version: &str, plural: &str) -> Vec<GroupVersionKind> {
        self.0.kinds(group, version, plural)
    }

    fn document<'a>(&'a self, kind: &'a GroupVersionKind) -> BoxFuture<'a, Option<Value>> {
        Box::pin(self.0.document(&kind.group, &kind.version))
    }
}

impl RemoteParams for AggregatedObjects {
    fn namespaced(&self) -> bool {
        self.0.namespaced
    }

    fn are_read(&self) -> BoxFuture<'_, bool> {
        self.0.are_read()
    }

    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.0.get(namespace, name)
    }

    fn list(&self, namespace: &str) -> Vec<Arc<Value>> {
        self.0.list(namespace)
    }
}
