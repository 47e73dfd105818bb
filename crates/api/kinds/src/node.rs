//! `node.k8s.io`: container runtimes.

mod runtime_class;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{NodeSelectorRequirement, NodeSelectorTerm};
use binnacle_fields::meta::v1::{LabelSelector, LabelSelectorRequirement};
use binnacle_fields::types::Str;
use binnacle_meta::FieldPath;
use binnacle_schema::Value;

use crate::Entry;

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
    let selector = FieldRef::<LabelSelector>::located(selector.unwrap_or(&Value::Null), path);
    let requirements = selector.at(LabelSelector::MATCH_EXPRESSIONS);
    let keys = requirements.items().filter_map(|item| deprecated_key(item.at(LabelSelectorRequirement::KEY)));
    let mut warnings: Vec<String> = keys.collect();
    let labels = selector.at(LabelSelector::MATCH_LABELS);
    for (key, _) in labels.entries() {
        if let Some(message) = deprecated_label(key) {
            warnings.push(format!("{}: {message}", labels.path().child(key)));
        }
    }
    warnings
}

/// Returns warnings about deprecated labels in a term of a node selector.
pub(crate) fn deprecated_labels_in_term(term: &Value, path: &FieldPath) -> Vec<String> {
    let term = FieldRef::<NodeSelectorTerm>::located(term, path);
    let requirements = term.at(NodeSelectorTerm::MATCH_EXPRESSIONS);
    requirements.items().filter_map(|item| deprecated_key(item.at(NodeSelectorRequirement::KEY))).collect()
}

fn deprecated_key(key: FieldRef<Str>) -> Option<String> {
    deprecated_label(key.str()).map(|message| format!("{}: {} is {message}", key.path(), key.str()))
}
