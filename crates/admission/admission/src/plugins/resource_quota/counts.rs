//! Object counts of any resource.

use binnacle_schema::Value;

use super::evaluator::{Evaluator, number};
use crate::plugin::Request;
use crate::plugins::pod_resources::Resources;

pub(super) struct Counts {
    names: Vec<String>,
}

/// Core resources whose count can also be limited by their plain name.
const PLAIN: [&str; 4] = ["configmaps", "replicationcontrollers", "resourcequotas", "secrets"];

impl Counts {
    pub(super) fn new(group: &str, plural: &str) -> Self {
        let mut names = vec![count_of(group, plural)];
        if group.is_empty() && PLAIN.contains(&plural) {
            names.push(plural.to_owned());
        }
        Self { names }
    }
}

impl Evaluator for Counts {
    fn handles(&self, request: Request<'_>, _: &Value) -> bool {
        request.is_create() && request.attributes.subresource.is_empty()
    }

    fn counts(&self, name: &str) -> bool {
        self.names.iter().any(|own| own == name)
    }

    fn usage(&self, _: &Value) -> Resources {
        self.names.iter().map(|name| (name.clone(), number(1))).collect()
    }
}

/// Returns the name of an object count, e.g. `count/deployments.apps`.
pub(super) fn count_of(group: &str, plural: &str) -> String {
    if group.is_empty() { format!("count/{plural}") } else { format!("count/{plural}.{group}") }
}
