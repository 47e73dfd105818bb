//! The conditions of a definition's status.

use std::time::SystemTime;

use binnacle_custom::Definition;
use binnacle_custom::names::Judgement;
use binnacle_meta::go_quote;
use binnacle_registry::rfc3339;
use binnacle_schema::{Value, value};

/// A condition without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) holds: bool,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// Puts a condition into a status; its time changes with its state.
pub(super) fn put(object: &mut Value, condition: Condition<'_>) {
    let Condition { kind, holds, reason, message } = condition;
    let status = if holds { "True" } else { "False" };
    let conditions = object.make_at(&["status"]).entry("conditions", || Value::List(Vec::new()));
    if !matches!(conditions, Value::List(_)) {
        *conditions = Value::List(Vec::new());
    }
    let Some(conditions) = conditions.as_list_mut() else { return };
    let now = rfc3339(SystemTime::now());
    match conditions.iter_mut().find(|known| known.str_at(&["type"]) == kind) {
        Some(known) => {
            if known.str_at(&["status"]) != status {
                known.make_object().insert("lastTransitionTime", now);
            }
            let known = known.make_object();
            known.insert("status", status);
            known.insert("reason", reason);
            known.insert("message", message);
        }
        None => conditions.push(value!({
            "type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message
        })),
    }
}

/// The names, and that the definition is served or not yet.
pub(super) fn put_names(object: &mut Value, judgement: &Judgement, established: bool) {
    object.make_at(&["status"]).insert("acceptedNames", judgement.accepted.to_value());
    let was_established = Definition::read(object).is("Established");
    let names = match &judgement.conflict {
        None => Condition { kind: "NamesAccepted", holds: true, reason: "NoConflicts", message: "no conflicts found" },
        Some((reason, message)) => Condition { kind: "NamesAccepted", holds: false, reason, message },
    };
    put(object, names);
    put_approval(object);
    // It stays established whatever becomes of its names.
    if was_established {
        return;
    }
    let message = "the initial names have been accepted";
    let state = match (established, &judgement.conflict) {
        (true, _) => Condition { kind: "Established", holds: true, reason: "InitialNamesAccepted", message },
        (false, None) => Condition { kind: "Established", holds: false, reason: "Installing", message },
        (false, Some(_)) => {
            let message = "not all names are accepted";
            Condition { kind: "Established", holds: false, reason: "NotAccepted", message }
        }
    };
    put(object, state);
}

/// The condition of a group that the Kubernetes project must approve of (KEP-1111). It holds nothing up.
fn put_approval(object: &mut Value) {
    let group = object.str_at(&["spec", "group"]);
    let protected = ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|domain| group == domain || group.strip_suffix(domain).is_some_and(|before| before.ends_with('.')));
    if !protected {
        return;
    }
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let annotation = object.str_at(&["metadata", "annotations", "api-approved.kubernetes.io"]).to_owned();
    let must = "protected groups must have approval annotation \"api-approved.kubernetes.io\"";
    let (holds, reason, message) = if annotation.is_empty() {
        (false, "MissingAnnotation", format!("{must}, {SEE}"))
    } else if annotation.starts_with("unapproved") {
        (false, "UnapprovedAnnotation", format!("not approved: {}", go_quote(&annotation)))
    } else if annotation.split_once("://").is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.starts_with('/')) {
        (true, "ApprovedAnnotation", format!("approved in {annotation}"))
    } else {
        let how = "with either a URL or a reason starting with \"unapproved\"";
        (false, "InvalidAnnotation", format!("{must} {how}, {SEE}"))
    };
    put(object, Condition { kind: "KubernetesAPIApprovalPolicyConformant", holds, reason, message: &message });
}
