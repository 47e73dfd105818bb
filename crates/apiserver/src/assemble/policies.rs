//! Admission policies: their data, and the plugins that evaluate them.

use std::sync::Arc;

use binnacle_admission::{Lookup, Plugin};
use binnacle_admission_expressions::MatchConditionMetrics;
use binnacle_admission_policies::{
    MutatingAdmissionPolicy, MutatingMetrics, Policies, Surroundings, ValidatingAdmissionPolicy, ValidatingMetrics,
};
use binnacle_authz::Authorizer;
use binnacle_registry::Catalog;
use prometheus::Registry;

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
    ) -> Vec<Arc<dyn Plugin>> {
        let surroundings = Surroundings {
            policies: self.policies.clone(),
            catalog: catalog.clone(),
            lookup: lookup.clone(),
            authorizer: authorizer.clone(),
            match_conditions: self.match_conditions.clone(),
        };
        let mut plugins: Vec<Arc<dyn Plugin>> =
            vec![Arc::new(ValidatingAdmissionPolicy::new(surroundings.clone(), self.validating.clone()))];
        if catalog.features().enabled("MutatingAdmissionPolicy") {
            plugins.push(Arc::new(MutatingAdmissionPolicy::new(surroundings, self.mutating.clone())));
        }
        plugins
    }
}
