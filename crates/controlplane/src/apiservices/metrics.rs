//! The `aggregator_unavailable_*` families.

use binnacle_metrics::keep;
use binnacle_schema::Value;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};

use super::checks::Condition;

/// Metrics of APIServices: which are unavailable, and how often they became so.
#[derive(Clone, Debug)]
pub struct AvailabilityMetrics {
    unavailable: IntGaugeVec,
    became_unavailable: IntCounterVec,
}

impl AvailabilityMetrics {
    /// Fails where the registry has families of these names already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        const NAME: &str = "aggregator_unavailable_apiservice";
        let unavailable =
            "[ALPHA] Gauge of APIServices which are marked as unavailable broken down by APIService name.";
        let became = "[ALPHA] Counter of APIServices which are marked as unavailable broken down by APIService name and \
                      reason.";
        let unavailable = IntGaugeVec::new(Opts::new(NAME, unavailable), &["name"])?;
        let became = IntCounterVec::new(Opts::new(format!("{NAME}_total"), became), &["name", "reason"])?;
        Ok(Self { unavailable: keep(registry, unavailable)?, became_unavailable: keep(registry, became)? })
    }

    /// An APIService was looked at.
    pub(super) fn seen(&self, name: &str, condition: &Condition) {
        self.unavailable.with_label_values(&[name]).set(i64::from(condition.status != "True"));
    }

    /// Counts the condition that was written to an APIService in place of the one before.
    pub(super) fn told(&self, before: &Value, condition: &Condition) {
        let mut conditions = before.list_at(&["status", "conditions"]).iter();
        let available = conditions.find(|condition| condition.str_at(&["type"]) == "Available");
        let was_available = available.is_some_and(|condition| condition.str_at(&["status"]) == "True");
        if was_available && condition.status != "True" {
            let name = before.str_at(&["metadata", "name"]);
            self.became_unavailable.with_label_values(&[name, &condition.reason]).inc();
        }
    }

    /// An APIService is gone.
    pub(super) fn forget(&self, name: &str) {
        // One that was never looked at has none.
        drop(self.unavailable.remove_label_values(&[name]));
    }
}
