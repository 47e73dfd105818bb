//! The conditions of a definition's status.

use std::time::SystemTime;

use crate::StructuralRules;
use crate::names::NameVerdict;
use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinition as Crd, CustomResourceDefinitionCondition as ConditionFields,
    CustomResourceDefinitionSpec as Spec, CustomResourceDefinitionStatus as StatusFields,
    CustomResourceDefinitionVersion as Version, CustomResourceValidation,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldErrors, aggregate, go_quote};
use binnacle_registry::rfc3339;
use binnacle_schema::{Value, value};
use binnacle_structural::check;

/// The condition of a definition with errors in its schemas.
pub(super) const NON_STRUCTURAL: &str = "NonStructuralSchema";

/// A condition without its transition time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition<'a> {
    pub(super) kind: &'a str,
    pub(super) holds: bool,
    pub(super) reason: &'a str,
    pub(super) message: &'a str,
}

/// Sets a condition in the status; its transition time changes only with its status.
pub(super) fn put(object: &mut Value, condition: Condition<'_>) {
    let Condition { kind, holds, reason, message } = condition;
    put_status(object, kind, if holds { "True" } else { "False" }, reason, message);
}

fn put_status(object: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let mut fields = FieldMut::<Crd>::root(object).into_entry(Crd::STATUS);
    let now = rfc3339(SystemTime::now());
    let found = fields.items(StatusFields::CONDITIONS).find(|known| known.str(ConditionFields::TYPE) == kind);
    if let Some(mut known) = found {
        if known.str(ConditionFields::STATUS) != status {
            known.set(ConditionFields::LAST_TRANSITION_TIME, now);
        }
        known.set(ConditionFields::STATUS, status);
        known.set(ConditionFields::REASON, reason);
        known.set(ConditionFields::MESSAGE, message);
        return;
    }
    let condition = value!({
        "type": kind, "status": status, "lastTransitionTime": now, "reason": reason, "message": message
    });
    let all = [fields.read().at(StatusFields::CONDITIONS).list(), &[condition]].concat();
    fields.set(StatusFields::CONDITIONS, all);
}

/// Writes the names and their conditions. A definition does not become established if its names conflict with
/// another's, or if its conversion webhook's CA bundle is invalid.
pub(super) fn put_names(object: &mut Value, verdict: &NameVerdict, established: bool) {
    let mut status = FieldMut::<Crd>::root(object).into_entry(Crd::STATUS);
    status.set(StatusFields::ACCEPTED_NAMES, verdict.accepted.to_value());
    let was_established = status.read().at(StatusFields::CONDITIONS).values().any(|condition| {
        condition.at(ConditionFields::TYPE).str() == "Established"
            && condition.at(ConditionFields::STATUS).str() == "True"
    });
    let names = match &verdict.conflict {
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
    let state = match (established, &verdict.conflict) {
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
    let mut errors = FieldErrors::new();
    let definition = FieldRef::<Crd>::root(object);
    let spec = definition.at(Crd::SPEC);
    let preserves = spec.at(Spec::PRESERVE_UNKNOWN_FIELDS);
    if preserves.bool() {
        errors.push(preserves.invalid("must be false"));
    }
    let mut unreadable = None;
    let versions = spec.at(Spec::VERSIONS);
    for version in versions.items() {
        let validation = version.at(Version::SCHEMA);
        let Some(schema) = validation.at(CustomResourceValidation::OPEN_APIV3_SCHEMA).set() else { continue };
        if let Err(error) = check(schema.value()) {
            let name = version.at(Version::NAME).str();
            unreadable = Some(format!("failed to check validation schema for version {name}: {error}"));
            break;
        }
        errors.extend(rules(schema.value(), &schema.path()));
    }
    match unreadable {
        Some(why) => put_status(object, NON_STRUCTURAL, "Unknown", "StructuralError", &why),
        None if errors.is_empty() => {
            let mut definition = FieldMut::<Crd>::root(object);
            let status = definition.structure(Crd::STATUS);
            let is_other = |condition: &Value| {
                FieldRef::<ConditionFields>::root(condition).at(ConditionFields::TYPE).str() != NON_STRUCTURAL
            };
            if let Some(mut status) = status
                && let Some(conditions) = status.get_mut(StatusFields::CONDITIONS).and_then(Value::as_list_mut)
            {
                conditions.retain(is_other);
            }
        }
        None => put_status(object, NON_STRUCTURAL, "True", "Violations", &aggregate(errors.iter())),
    }
}

/// Writes the condition of groups that need the Kubernetes project's approval (KEP-1111). It has no other effect.
fn put_approval(object: &mut Value) {
    let definition = FieldRef::<Crd>::root(object);
    let group = definition.at(Crd::SPEC).at(Spec::GROUP).str();
    let protected = ["k8s.io", "kubernetes.io"]
        .into_iter()
        .any(|domain| group == domain || group.strip_suffix(domain).is_some_and(|before| before.ends_with('.')));
    if !protected {
        return;
    }
    const SEE: &str = "see https://github.com/kubernetes/enhancements/pull/1111";
    let annotations = definition.at(Crd::METADATA).at(ObjectMeta::ANNOTATIONS).detached();
    let annotation = annotations.key("api-approved.kubernetes.io").str().to_owned();
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
    use binnacle_meta::{FieldError, FieldPath};

    use super::*;
    use crate::Definition;

    fn no_type(schema: &Value, path: &FieldPath) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if schema.str_at(&["type"]).is_empty() {
            errors.push(FieldError::required(&path.child("type"), "must not be empty at the root"));
        }
        errors
    }

    /// An invalid CA bundle prevents the condition `Established` in spite of accepted names. Once established, a
    /// definition stays established.
    #[test]
    fn invalid_ca_bundle_prevents_establishing() {
        let mut object = value!({"spec": {"group": "a.test"}});
        let verdict = NameVerdict { accepted: Definition::read(&object).names, conflict: None };
        for (established, want) in [
            (false, ("False", "InvalidCABundle")),
            (true, ("True", "InitialNamesAccepted")),
            (false, ("True", "InitialNamesAccepted")),
        ] {
            put_names(&mut object, &verdict, established);
            let definition = Definition::read(&object);
            assert!(definition.is("NamesAccepted"));
            let state = definition.condition("Established").unwrap();
            assert_eq!((state.str_at(&["status"]), state.str_at(&["reason"])), want);
        }
    }

    #[test]
    fn reports_non_structural_schemas() {
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
            // A corrected schema removes the condition.
            object.make_at(&["spec"]).insert("preserveUnknownFields", false);
            object.make_at(&["spec"]).remove("versions");
            put_structure(&mut object, no_type);
            assert!(object.list_at(&["status", "conditions"]).is_empty());
        }
    }
}
