//! `policy`: how many pods may be away at once.

mod pod_disruption_budget;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[("PodDisruptionBudget", &pod_disruption_budget::PodDisruptionBudget)];
