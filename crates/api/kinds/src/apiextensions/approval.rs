//! Protection of the groups of the Kubernetes community: definitions in them need the annotation with the approval.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::url::Url;

const ANNOTATION: &str = "api-approved.kubernetes.io";

#[derive(PartialEq)]
enum State {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

fn state(annotation: &str) -> State {
    if annotation.is_empty() {
        State::Missing
    } else if annotation.starts_with("unapproved") {
        State::Bypassed
    } else if Url::parse(annotation).is_ok_and(|url| !url.host.is_empty() && !url.scheme.is_empty()) {
        State::Approved
    } else {
        State::Invalid
    }
}

/// Validates the approval annotation; an update that keeps its state is not checked again.
pub(super) fn validate(definition: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    const SEE: &str = ", see https://github.com/kubernetes/enhancements/pull/1111";
    let group = definition.str_at(&["spec", "group"]);
    let of = |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if !of("k8s.io") && !of("kubernetes.io") {
        return;
    }
    let annotation = |object: &Value| object.str_at(&["metadata", "annotations", ANNOTATION]).to_owned();
    let value = annotation(definition);
    let new = state(&value);
    if old.is_some_and(|old| state(&annotation(old)) == new) {
        return;
    }
    let path = FieldPath::new("metadata").child("annotations").key(ANNOTATION);
    let required = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    match new {
        State::Missing => errors.push(FieldError::required(&path, format!("{required}{SEE}"))),
        State::Invalid => {
            let detail = format!("{required} with either a URL or a reason starting with \"unapproved\"{SEE}");
            errors.push(FieldError::invalid(&path, &value, detail));
        }
        State::Approved | State::Bypassed => {}
    }
}
