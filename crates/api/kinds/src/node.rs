//! `node.k8s.io`: container runtimes.

mod runtime_class;

use binnacle_meta::FieldPath;
use binnacle_schema::Value;

use crate::all::Entry;
use crate::checks::items;

pub(crate) const STRATEGIES: &[Entry] = &[("RuntimeClass", &runtime_class::RuntimeClass)];

/// Returns the deprecation warning of a node label that selectors should no longer use.
pub(crate) fn deprecated_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => "deprecated since v1.22; use Taints and Tolerations instead",
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Returns warnings about deprecated labels in a label selector of nodes.
pub(crate) fn deprecated_labels_in_selector(selector: Option<&Value>, path: &FieldPath) -> Vec<String> {
    let Some(selector) = selector else { return Vec::new() };
    let mut warnings = Vec::new();
    for (at, expression) in items(selector, "matchExpressions", path) {
        let key = expression.str_at(&["key"]);
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {key} is {message}", at.child("key")));
        }
    }
    for (key, _) in selector.object_at(&["matchLabels"]).into_iter().flat_map(|labels| labels.iter()) {
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {message}", path.child("matchLabels").child(key)));
        }
    }
    warnings
}

/// Returns warnings about deprecated labels in a term of a node selector.
pub(crate) fn deprecated_labels_in_term(term: &Value, path: &FieldPath) -> Vec<String> {
    let expressions = items(term, "matchExpressions", path);
    let deprecated = expressions.filter_map(|(at, expression)| {
        let key = expression.str_at(&["key"]);
        deprecated_label(key).map(|message| format!("{}: {key} is {message}", at.child("key")))
    });
    deprecated.collect()
}
