//! The `pod_security_*` families.

use std::sync::Arc;

use binnacle_features::Version;
use binnacle_metrics::{Family, IntCounterVec, Registry, Series, families, register_family};
use binnacle_registry::admission::{Attributes, Operation};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::policy::{Level, LevelVersion};
use crate::plugin::is_any_of;

families! {
    #[derive(Clone, Debug)]
    struct Families {
        evaluations: IntCounterVec = "pod_security_evaluations_total"
            by ["decision", "policy_level", "policy_version", "mode", "request_operation", "resource", "subresource"],
            "[ALPHA] Number of policy evaluations that occurred, not counting ignored or exempt requests.";
        exemptions: IntCounterVec = "pod_security_exemptions_total" by ["request_operation", "resource", "subresource"],
            "[ALPHA] Number of exempt requests, not counting ignored or out of scope requests.";
        errors: IntCounterVec = "pod_security_errors_total"
            by ["fatal", "request_operation", "resource", "subresource"],
            "[ALPHA] Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted \
             profile being used for evaluation.";
    }
}

/// The metrics of the plugin PodSecurity.
#[derive(Clone, Debug)]
pub struct PodSecurityMetrics {
    families: Families,
    /// Allowed creates and updates of pods in namespaces without a policy, which is by far the most frequent case.
    unrestricted: Arc<[Series<IntCounterVec>; 2]>,
}

/// A family with some series that exist initially and after a reset, as in kube-apiserver.
#[derive(Clone)]
struct SeededFamily {
    family: IntCounterVec,
    seeds: Vec<Vec<&'static str>>,
}

/// The mode of an evaluation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    Enforce,
    Audit,
    Warn,
}

impl Mode {
    fn as_str(self) -> &'static str {
        match self {
            Self::Enforce => "enforce",
            Self::Audit => "audit",
            Self::Warn => "warn",
        }
    }
}

impl PodSecurityMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let families = Families::build()?;
        register_family(registry, families.errors.clone())?;
        let objects = [("create", "pod"), ("update", "pod"), ("create", "controller"), ("update", "controller")];
        let exempt = objects.map(|(operation, resource)| vec![operation, resource, ""]);
        register_family(registry, SeededFamily::new(&families.exemptions, exempt.into()))?;
        let unrestricted = ["create", "update"]
            .map(|operation| vec!["allow", "privileged", "latest", "enforce", operation, "pod", ""]);
        register_family(registry, SeededFamily::new(&families.evaluations, unrestricted.to_vec()))?;
        let unrestricted = Arc::new(unrestricted.map(|labels| Series::new(&families.evaluations, &labels)));
        Ok(Self { families, unrestricted })
    }

    pub(super) fn record_evaluation(&self, attributes: &Attributes, policy: LevelVersion, mode: Mode, allowed: bool) {
        let [operation, resource, subresource] = labels(attributes);
        if allowed && policy.level == Level::Privileged && subresource.is_empty() && resource == "pod" {
            let [created, updated] = &*self.unrestricted;
            let series = if attributes.operation == Operation::Create { created } else { updated };
            series.with(|counter| counter.inc());
            return;
        }
        let decision = if allowed { "allow" } else { "deny" };
        let shown;
        let version = match policy.version {
            _ if policy.level == Level::Privileged => "latest",
            None => "latest",
            // The standards of this version are not known yet.
            Some(minor) if minor > u32::from(Version::BINARY.minor) => "future",
            Some(minor) => {
                shown = format!("v1.{minor}");
                &shown
            }
        };
        let labels = [decision, policy.level.name(), version, mode.as_str(), operation, resource, subresource];
        self.families.evaluations.with_label_values(&labels).inc();
    }

    pub(super) fn record_exemption(&self, attributes: &Attributes) {
        self.families.exemptions.with_label_values(&labels(attributes)).inc();
    }

    pub(super) fn record_error(&self, attributes: &Attributes, fatal: bool) {
        let [operation, resource, subresource] = labels(attributes);
        let fatal = if fatal { "true" } else { "false" };
        self.families.errors.with_label_values(&[fatal, operation, resource, subresource]).inc();
    }
}

impl SeededFamily {
    fn new(family: &IntCounterVec, seeds: Vec<Vec<&'static str>>) -> Self {
        let seeded = Self { family: family.clone(), seeds };
        seeded.seed();
        seeded
    }

    fn seed(&self) {
        for labels in &self.seeds {
            self.family.with_label_values(labels);
        }
    }
}

impl Family for SeededFamily {
    fn reset(&self) {
        self.family.reset();
        self.seed();
    }
}

impl Collector for SeededFamily {
    fn desc(&self) -> Vec<&Desc> {
        self.family.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.family.collect()
    }
}

/// Returns the labels: operation, resource, subresource.
fn labels(attributes: &Attributes) -> [&str; 3] {
    let operation = match attributes.operation {
        Operation::Create => "create",
        Operation::Update => "update",
        Operation::Delete => "delete",
        Operation::Connect => "connect",
    };
    let resource = if is_any_of(attributes, "", "pods") {
        "pod"
    } else if is_any_of(attributes, "", "namespaces") {
        "namespace"
    } else {
        "controller"
    };
    [operation, resource, &attributes.subresource]
}

#[cfg(test)]
pub(super) mod tests {
    use prometheus::proto::Metric;

    use super::*;

    impl PodSecurityMetrics {
        pub(in super::super) fn fresh() -> Self {
            Self::register(&Registry::new()).unwrap()
        }

        /// Returns the counters greater than zero as `family{label values}`, sorted.
        pub(in super::super) fn counted(&self) -> Vec<String> {
            use prometheus::core::Collector;

            let all = [&self.families.errors, &self.families.evaluations, &self.families.exemptions];
            let families = all.into_iter().flat_map(Collector::collect);
            let mut counted: Vec<String> = Vec::new();
            for family in families {
                let name = family.name().trim_start_matches("pod_security_").trim_end_matches("_total").to_owned();
                let values = |metric: &Metric| {
                    let labels = metric.get_label().iter().map(|label| label.value());
                    labels.filter(|value| !value.is_empty()).collect::<Vec<_>>().join(" ")
                };
                let some = family.get_metric().iter().filter(|metric| metric.get_counter().get_value() > 0.0);
                counted.extend(some.map(|metric| format!("{name}: {}", values(metric))));
            }
            counted.sort();
            counted
        }
    }
}
