//! `autoscaling`: horizontal pod autoscalers.

mod horizontal_pod_autoscaler;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] =
    &[("HorizontalPodAutoscaler", &horizontal_pod_autoscaler::HorizontalPodAutoscaler)];
