//! The `aggregator_unavailable_*` families.

use binnacle_fields::FieldRef;
use binnacle_fields::apiregistration::v1::APIService;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_metrics::{IntCounterVec, IntGaugeVec, Registry, families, register_family};
use binnacle_schema::Value;

use super::checks::Condition;
use crate::remote::is_available;

families! {
    #[derive(Clone, Debug)]
    struct Families {
        unavailable: IntGaugeVec = "aggregator_unavailable_apiservice" by ["name"],
            "[ALPHA] Gauge of APIServices which are marked as unavailable broken down by APIService name.";
        became_unavailable: IntCounterVec = "aggregator_unavailable_apiservice_total" by ["name", "reason"],
            "[ALPHA] Counter of APIServices which are marked as unavailable broken down by APIService name and reason.";
    }
}

/// Metrics of APIServices: which are unavailable, and how often they became unavailable.
#[derive(Clone, Debug)]
pub struct AvailabilityMetrics(Families);

impl AvailabilityMetrics {
    /// Registers the families; fails if the registry already has their names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let families = Families::build()?;
        // Survives a reset of the metrics, as in kube-apiserver, which computes it at each scrape.
        registry.register(families.unavailable.clone())?;
        register_family(registry, families.became_unavailable.clone())?;
        Ok(Self(families))
    }

    /// Sets the availability of an APIService after a check.
    pub(super) fn set_availability(&self, name: &str, condition: &Condition) {
        self.0.unavailable.with_label_values(&[name]).set(i64::from(condition.status != "True"));
    }

    /// Counts a condition that replaces the one in `before`, if the APIService becomes unavailable.
    pub(super) fn count_transition(&self, before: &Value, condition: &Condition) {
        let before = FieldRef::<APIService>::root(before);
        if is_available(before) && condition.status != "True" {
            let name = before.at(APIService::METADATA).at(ObjectMeta::NAME).str();
            self.0.became_unavailable.with_label_values(&[name, &condition.reason]).inc();
        }
    }

    /// Removes a deleted APIService.
    pub(super) fn forget(&self, name: &str) {
        self.0.unavailable.remove_label_values(&[name]);
    }
}
