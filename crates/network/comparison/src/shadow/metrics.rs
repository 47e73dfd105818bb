//! The metric family `binnacle_compare_total`.

use std::collections::HashSet;

use binnacle_metrics::{IntCounterVec, Registry, families};
use parking_lot::Mutex;

use crate::subject::Subject;

/// The verbs with their own counters. A client can send any method.
const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The maximum number of resources with their own counters.
const MAX_RESOURCES: usize = 500;

families! {
    struct Families {
        compared: IntCounterVec = "binnacle_compare_total" by ["verb", "resource", "result"],
            "[ALPHA] Counter of sampled requests that were repeated on the server of --compare-with, by verb, resource and result: \
             equal, explained (a known gap), different, skew (the servers answered from different states), skipped (too large), \
             failed (no usable response), dropped (the queue was full).";
    }
}

pub(crate) struct ShadowMetrics {
    families: Families,
    resources: Mutex<HashSet<String>>,
}

impl ShadowMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self { families: Families::register(registry)?, resources: Mutex::default() })
    }

    /// Counts a result. `status` is that of this server's response.
    pub(crate) fn count(&self, subject: &Subject, status: u16, result: &str) {
        let resource = self.label(&subject.resource, status != 404);
        let verb = VERBS.into_iter().find(|verb| subject.verb == *verb).unwrap_or("other");
        self.families.compared.with_label_values(&[verb, &*resource, result]).inc();
    }

    /// Returns the label for a resource. One that may not exist gets no series of its own, since clients choose names.
    fn label(&self, resource: &str, exists: bool) -> String {
        let mut resources = self.resources.lock();
        let is_new = exists && resources.len() < MAX_RESOURCES;
        if resources.contains(resource) || is_new && resources.insert(resource.to_owned()) {
            resource.to_owned()
        } else {
            "other".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_metrics::Registry;

    use super::{MAX_RESOURCES, ShadowMetrics};

    #[test]
    fn bounds_the_number_of_resources() {
        let metrics = ShadowMetrics::new(&Registry::new()).unwrap();
        assert_eq!(metrics.label("missing", false), "other");
        for number in 0..MAX_RESOURCES {
            assert_eq!(metrics.label(&number.to_string(), true), number.to_string());
        }
        assert_eq!((metrics.label("more", true), metrics.label("7", false)), ("other".to_owned(), "7".to_owned()));
    }
}
