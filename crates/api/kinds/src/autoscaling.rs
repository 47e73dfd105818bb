//! `autoscaling`: horizontal pod autoscalers.

mod horizontal_pod_autoscaler;
mod validation;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] =
    &[("HorizontalPodAutoscaler", &horizontal_pod_autoscaler::HorizontalPodAutoscaler)];
