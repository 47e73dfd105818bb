//! Validation that kinds with a pod template share.

use binnacle_fields::core::v1::{PodSpec, PodTemplateSpec};
use binnacle_fields::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use binnacle_fields::types::{Int, IntOrString};
use binnacle_fields::{Field, FieldRef, Message};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors};
use binnacle_schema::{Object, Value};
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::numbers::{int_or_percent, percent};
use binnacle_validation::{checks, selectors};

use super::Workload;
use crate::equality::equal;
use crate::internal;
use crate::pod_spec::validation::{self as pod_validation, PodValidationOptions};

/// Requires a selector that is not empty; `kind` is the kind of the object.
pub(crate) fn required_selector(selector: FieldRef<LabelSelector>, kind: &str, errors: &mut FieldErrors) {
    if !selector.is_set() {
        return errors.push(selector.required(""));
    }
    selectors::validate(selector, false, errors);
    if is_empty(selector) {
        let why = format!("empty selector is invalid for {kind}");
        errors.push(selector.invalid_as(internal::shown(selector), why));
    }
}

/// Returns true if a selector matches labels; `None` for invalid selectors. A nil selector matches nothing.
pub(crate) fn selects(selector: FieldRef<LabelSelector>, labels: Option<&Object>) -> Option<bool> {
    if !selector.is_set() {
        return Some(false);
    }
    if selectors::is_invalid(selector.get()) {
        return None;
    }
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let requirements = selector.at(LabelSelector::MATCH_EXPRESSIONS).items().all(|requirement| {
        let label = label(requirement.at(LabelSelectorRequirement::KEY).str());
        let is_listed = label.is_some_and(|label| requirement.at(LabelSelectorRequirement::VALUES).contains(label));
        match requirement.at(LabelSelectorRequirement::OPERATOR).str() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => label.is_some(),
            _ => label.is_none(),
        }
    });
    let equals = selector.at(LabelSelector::MATCH_LABELS);
    Some(requirements && equals.entries().all(|(key, value)| label(key) == value.get_str()))
}

pub(crate) fn is_empty(selector: FieldRef<LabelSelector>) -> bool {
    selector.at(LabelSelector::MATCH_LABELS).is_empty() && selector.at(LabelSelector::MATCH_EXPRESSIONS).is_empty()
}

/// Returns the labels of a template.
pub(crate) fn labels<'v>(template: FieldRef<'_, 'v, PodTemplateSpec>) -> Option<&'v Object> {
    template.at(PodTemplateSpec::METADATA).at(ObjectMeta::LABELS).object()
}

/// Returns the error of a template whose labels do not match.
pub(crate) fn mismatch(template: FieldRef<PodTemplateSpec>) -> FieldError {
    let metadata = template.at(PodTemplateSpec::METADATA);
    let why = "`selector` does not match template `labels`";
    metadata.at(ObjectMeta::LABELS).invalid_as(shown_labels(template), why)
}

/// Returns the labels of a template as a message shows them: sorted by name, including added ones.
pub(crate) fn shown_labels(template: FieldRef<PodTemplateSpec>) -> ErrorValue {
    let mut labels = template.at(PodTemplateSpec::METADATA).at(ObjectMeta::LABELS).value().clone();
    if let Some(labels) = labels.as_object_mut() {
        labels.sort_by_name();
    }
    ErrorValue::from(&labels)
}

/// Validates the template of pods that run forever; `kind` is the kind of the object.
pub(crate) fn lasting_template(
    template: FieldRef<PodTemplateSpec>,
    kind: &str,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    pod_validation::template(template, options, errors);
    lasting(template, kind, errors);
}

/// Requires the restart policy `Always` and no deadline.
pub(crate) fn lasting(template: FieldRef<PodTemplateSpec>, kind: &str, errors: &mut FieldErrors) {
    let spec = template.at(PodTemplateSpec::SPEC);
    let policy = spec.at(PodSpec::RESTART_POLICY);
    if policy.str() != "Always" {
        errors.push(policy.not_supported(&["Always"]));
    }
    let deadline = spec.at(PodSpec::ACTIVE_DEADLINE_SECONDS);
    if deadline.is_set() {
        errors.push(deadline.forbidden(format!("activeDeadlineSeconds in {kind} is not Supported")));
    }
}

/// Reports a change of the selector, which is immutable.
pub(crate) fn immutable_selector(new: FieldRef<LabelSelector>, old: FieldRef<LabelSelector>, errors: &mut FieldErrors) {
    if new.is_set() != old.is_set() || !equal(new, old) {
        errors.push(new.invalid_as(internal::shown(new), IMMUTABLE));
    }
}

/// Returns the options for the template of an update: rules that the old template breaks are relaxed.
pub(crate) fn options_for_update<'a, W: Workload>(
    features: &'a crate::Features,
    old: FieldRef<W>,
) -> PodValidationOptions<'a> {
    PodValidationOptions::for_update(features, old.at(W::SPEC).at(W::TEMPLATE).value())
}

/// Rejects negative numbers.
pub(crate) fn not_negative<M: Message>(holder: FieldRef<M>, fields: &[Field<M, Int>], errors: &mut FieldErrors) {
    for field in fields {
        let field = holder.at(*field);
        checks::not_negative(&field, field.int(), errors);
    }
}

/// Requires counts of a status not to exceed another count.
pub(crate) fn not_more<M: Message>(
    status: FieldRef<M>,
    fields: &[Field<M, Int>],
    than: Field<M, Int>,
    why: &str,
    errors: &mut FieldErrors,
) {
    let limit = status.at(than).int_or_zero();
    for field in fields {
        let count = status.at(*field);
        if count.int_or_zero() > limit {
            errors.push(count.invalid(why));
        }
    }
}

/// Rejects a decrease of the number of hash collisions.
pub(crate) fn collision_count(new: FieldRef<Int>, old: FieldRef<Int>, errors: &mut FieldErrors) {
    if let Some(old) = old.int()
        && new.int().is_none_or(|new| new < old)
    {
        errors.push(new.invalid_as(new.int_or_zero(), "cannot be decremented"));
    }
}

/// Rejects a negative number or percentage.
pub(crate) fn amount(field: FieldRef<IntOrString>, errors: &mut FieldErrors) {
    if let Some(value) = field.get() {
        int_or_percent(&field, value, errors);
    }
}

/// Returns the number of an amount or percentage.
pub(crate) fn number(field: FieldRef<IntOrString>) -> i64 {
    match field.value() {
        Value::Int(number) => *number,
        Value::Str(text) => percent(text).or_else(|| text.parse().ok()).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn selectors_match_labels() {
        let labels = value!({"a": "b", "c": "d"});
        let with = |key: &str, operator: &str, values: &[&str]| value!({"matchExpressions": [{"key": key, "operator": operator, "values": (values.to_vec())}]});
        for (selector, want) in [
            (value!({}), Some(true)),
            (value!(null), Some(false)),
            (value!({"matchLabels": {"a": "b"}}), Some(true)),
            (value!({"matchLabels": {"a": "x"}}), Some(false)),
            (with("a", "In", &["x", "b"]), Some(true)),
            (with("a", "NotIn", &["x"]), Some(true)),
            (with("z", "NotIn", &["x"]), Some(true)),
            (with("z", "Exists", &[]), Some(false)),
            (with("z", "DoesNotExist", &[]), Some(true)),
            (with("a", "In", &[]), None),
            (with("a", "Like", &["b"]), None),
        ] {
            assert_eq!(selects(FieldRef::root(&selector), labels.as_object()), want, "{selector:?}");
        }
    }
}
