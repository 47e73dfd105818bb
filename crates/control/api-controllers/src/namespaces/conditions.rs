//! The conditions of a namespace in deletion.

use std::collections::BTreeMap;
use std::time::SystemTime;

use binnacle_fields::core::v1::{Namespace, NamespaceCondition as Condition, NamespaceStatus};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_registry::rfc3339;
use binnacle_schema::{Value, value};

use super::content::Content;

/// The conditions in order, with the reasons and messages that tell that all is well.
const CONDITIONS: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    (
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    ("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"),
    ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

/// Sets the conditions in the status of a namespace.
pub(super) fn set(namespace: &mut Value, content: &Content) {
    let now = rfc3339(SystemTime::now());
    let mut status = FieldMut::<Namespace>::root(namespace).into_entry(Namespace::STATUS);
    status.set(NamespaceStatus::PHASE, "Terminating");
    let conditions = status.list_entry(NamespaceStatus::CONDITIONS);
    for (kind, reason, message) in CONDITIONS {
        let problem = problem(kind, content);
        let status = if problem.is_some() { "True" } else { "False" };
        let (reason, message) = problem.unwrap_or((reason, message.to_owned()));
        let known = conditions.iter_mut().find(|known| FieldRef::root(known).at(Condition::TYPE).str() == kind);
        let Some(known) = known else {
            conditions.push(value!({
                "type": kind, "status": status, "lastTransitionTime": (now.as_str()), "reason": reason,
                "message": message
            }));
            continue;
        };
        let mut known = FieldMut::<Condition>::root(known);
        if known.str(Condition::STATUS) != status {
            known.set(Condition::LAST_TRANSITION_TIME, now.as_str());
        }
        known.set(Condition::STATUS, status);
        known.set(Condition::REASON, reason);
        known.set(Condition::MESSAGE, message);
    }
}

/// Returns the reason and message of a condition that is true.
fn problem(kind: &str, content: &Content) -> Option<(&'static str, String)> {
    let listed = |counts: &BTreeMap<String, usize>, of: &str| {
        let counted: Vec<String> = counts.iter().map(|(name, count)| format!("{name} {of} {count}")).collect();
        counted
    };
    match kind {
        "NamespaceDeletionDiscoveryFailure" => {
            let (count, error) = content.undiscovered.as_ref()?;
            let message = format!("Discovery failed for some groups, {count} failing: {error}");
            Some(("DiscoveryFailed", message))
        }
        "NamespaceDeletionContentFailure" if !content.failures.is_empty() => {
            let mut failures = content.failures.clone();
            failures.sort();
            let (count, failures) = (failures.len(), failures.join(", "));
            let message = format!("Failed to delete all resource types, {count} remaining: {failures}");
            Some(("ContentDeletionFailed", message))
        }
        // As in Go, these two do not report pods that everything else waits for.
        _ if content.waits_for_pods => None,
        "NamespaceContentRemaining" if !content.remaining.is_empty() => {
            let instances: Vec<String> =
                listed(&content.remaining, "has").iter().map(|text| format!("{text} resource instances")).collect();
            let message = format!("Some resources are remaining: {}", instances.join(", "));
            Some(("SomeResourcesRemain", message))
        }
        "NamespaceFinalizersRemaining" if !content.finalizers.is_empty() => {
            let instances: Vec<String> =
                listed(&content.finalizers, "in").iter().map(|text| format!("{text} resource instances")).collect();
            let instances = instances.join(", ");
            let message = format!("Some content in the namespace has finalizers remaining: {instances}");
            Some(("SomeFinalizersRemain", message))
        }
        _ => None,
    }
}
