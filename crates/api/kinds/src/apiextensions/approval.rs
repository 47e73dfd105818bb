//! Protection of the groups of the Kubernetes community: definitions in them need the annotation with the approval.

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinition as Definition, CustomResourceDefinitionSpec as Spec,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::FieldErrors;
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
pub(super) fn validate(definition: FieldRef<Definition>, old: Option<FieldRef<Definition>>, errors: &mut FieldErrors) {
    const SEE: &str = ", see https://github.com/kubernetes/enhancements/pull/1111";
    let group = definition.at(Definition::SPEC).at(Spec::GROUP).str();
    let of = |domain: &str| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    if !of("k8s.io") && !of("kubernetes.io") {
        return;
    }
    let metadata = definition.at(Definition::METADATA);
    let annotations = metadata.at(ObjectMeta::ANNOTATIONS);
    let annotation = annotations.key(ANNOTATION);
    let new = state(annotation.str());
    if old.is_some_and(|old| state_of(old) == new) {
        return;
    }
    let required = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    match new {
        State::Missing => errors.push(annotation.required(format!("{required}{SEE}"))),
        State::Invalid => {
            let detail = format!("{required} with either a URL or a reason starting with \"unapproved\"{SEE}");
            errors.push(annotation.invalid(detail));
        }
        State::Approved | State::Bypassed => {}
    }
}

fn state_of(definition: FieldRef<Definition>) -> State {
    state(definition.at(Definition::METADATA).at(ObjectMeta::ANNOTATIONS).key(ANNOTATION).str())
}
