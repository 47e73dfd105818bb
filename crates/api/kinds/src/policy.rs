//! `policy`: limits on voluntary disruption.

mod pod_disruption_budget;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[("PodDisruptionBudget", &pod_disruption_budget::PodDisruptionBudget)];
