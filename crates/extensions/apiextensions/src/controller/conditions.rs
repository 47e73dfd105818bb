//! The conditions of a definition's status.

use std::time::SystemTime;

use crate::StructuralRules;
use crate::names::Judgement;
use binnacle_meta::{FieldError, FieldErrors, FieldPath, aggregate, go_quote};
use binnacle_registry::rfc3339;
use binnacle_schema::{Value, value};
use binnacle_structural::check;

/// The condition of a definition with errors in its schemas.
pub(super) const NON_STRUCTURAL: &str = "NonStructuralSchema";

/// A condition without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) holds: bool,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// Adds a condition to a status; its time changes only with its state.
pub(super) fn put(object: &mut Value, condition: Condition<'_>) {
    let Condition { kind, holds, reason, message } = condition;
    put_status(object, kind, if holds { "True" } else { "False" }, reason, message);
}

fn put_status(object: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
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

/// Writes the names and their conditions. A definition does not become established if its names conflict with
/// another's, or if its conversion webhook's CA bundle is invalid.
pub(super) fn put_names(object: &mut Value, judgement: &Judgement, established: bool) {
    object.make_at(&["status"]).insert("acceptedNames", judgement.accepted.to_value());
    let was_established = object
        .list_at(&["status", "conditions"])
        .iter()
        .any(|condition| condition.str_at(&["type"]) == "Established" && condition.str_at(&["status"]) == "True");
    let names = match &judgement.conflict {
        None => Condition { kind: "NamesAccepted", holds: true, reason: "NoConflicts", message: "no conflicts found" },
        Some((reason, message)) => Condition { kind: "NamesAccepted", holds: false, reason, message },
    };
    put(object, names);
    put_approval(object);
    // An established definition stays established, even if its names change.
    if was_established {
        return;
    }
    let message = "the initial names have been accepted";
    let state = match (established, &judgement.conflict) {
        (true, _) => Condition { kind: "Established", holds: true, reason: "InitialNamesAccepted", message },
        (false, None) => {
            let message = "The conversion webhook CABundle is invalid";
            Condition { kind: "Established", holds: false, reason: "InvalidCABundle", message }
        }
        (false, Some(_)) => {
            let message = "not all names are accepted";
            Condition { kind: "Established", holds: false, reason: "NotAccepted", message }
        }
    };
    put(object, state);
}

/// Writes the condition of definitions created by v1beta1, whose schemas may violate the structural `rules`.
pub(super) fn put_structure(object: &mut Value, rules: StructuralRules) {
    let spec = FieldPath::new("spec");
    let mut errors = FieldErrors::new();
    if object.bool_at(&["spec", "preserveUnknownFields"]) {
        errors.push(FieldError::invalid(&spec.child("preserveUnknownFields"), true, "must be false"));
    }
    let mut unreadable = None;
    for (i, version) in object.list_at(&["spec", "versions"]).iter().enumerate() {
        let schema = version.at(&["schema", "openAPIV3Schema"]).filter(|schema| !schema.is_null());
        let Some(schema) = schema else { continue };
        if let Err(error) = check(schema) {
            let name = version.str_at(&["name"]);
            unreadable = Some(format!("failed to check validation schema for version {name}: {error}"));
            break;
        }
        let path = spec.child("versions").index(i).child("schema").child("openAPIV3Schema");
        errors.extend(rules(schema, &path));
    }
    match unreadable {
        Some(why) => put_status(object, NON_STRUCTURAL, "Unknown", "StructuralError", &why),
        None if errors.is_empty() => {
            let conditions = object.get_mut("status").and_then(|status| status.get_mut("conditions"));
            if let Some(conditions) = conditions.and_then(Value::as_list_mut) {
                conditions.retain(|condition| condition.str_at(&["type"]) != NON_STRUCTURAL);
            }
        }
        None => put_status(object, NON_STRUCTURAL, "True", "Violations", &aggregate(errors.iter())),
    }
}

/// Writes the condition of groups that need the Kubernetes project's approval (KEP-1111). It has no other effect.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Definition;

    fn no_type(schema: &Value, path: &FieldPath) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if schema.str_at(&["type"]).is_empty() {
            errors.push(FieldError::required(&path.child("type"), "must not be empty at the root"));
        }
        errors
    }

    /// With accepted names it is still not established; once established, it stays so.
    #[test]
    fn a_webhook_that_cannot_be_trusted() {
        let mut object = value!({"spec": {"group": "a.test"}});
        let judgement = Judgement { accepted: Definition::read(&object).names, conflict: None };
        for (established, want) in [
            (false, ("False", "InvalidCABundle")),
            (true, ("True", "InitialNamesAccepted")),
            (false, ("True", "InitialNamesAccepted")),
        ] {
            put_names(&mut object, &judgement, established);
            let definition = Definition::read(&object);
            assert!(definition.is("NamesAccepted"));
            let state = definition.condition("Established").unwrap();
            assert_eq!((state.str_at(&["status"]), state.str_at(&["reason"])), want);
        }
    }

    #[test]
    fn what_is_not_structural() {
        let object = |preserve: bool, schema: Value| {
            let version = value!({"name": "v1", "schema": {"openAPIV3Schema": schema}});
            value!({"spec": {"preserveUnknownFields": preserve, "versions": [version]}})
        };
        let whole = || value!({"type": "object"});
        let root = "spec.versions[0].schema.openAPIV3Schema.type: Required value: must not be empty at the root";
        let both = format!("[spec.preserveUnknownFields: Invalid value: true: must be false, {root}]");
        let odd = "failed to check validation schema for version v1: OpenAPIV3Schema '$ref' is not supported";
        for (mut object, want) in [
            (object(false, whole()), None),
            (
                object(true, whole()),
                Some(("True", "Violations", "spec.preserveUnknownFields: Invalid value: true: must be false")),
            ),
            (object(false, value!({})), Some(("True", "Violations", root))),
            (object(true, value!({})), Some(("True", "Violations", both.as_str()))),
            (object(false, value!({"$ref": "a"})), Some(("Unknown", "StructuralError", odd))),
        ] {
            put_structure(&mut object, no_type);
            let conditions = object.list_at(&["status", "conditions"]).to_vec();
            let text = |name: &str| conditions[0].str_at(&[name]).to_owned();
            match want {
                None => assert!(conditions.is_empty()),
                Some((status, reason, message)) => {
                    assert_eq!([text("status"), text("reason"), text("message")], [status, reason, message]);
                }
            }
            // A corrected schema has no condition any more.
            object.make_at(&["spec"]).insert("preserveUnknownFields", false);
            object.make_at(&["spec"]).remove("versions");
            put_structure(&mut object, no_type);
            assert!(object.list_at(&["status", "conditions"]).is_empty());
        }
    }
}
