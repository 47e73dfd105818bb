//! Validation that kinds with a pod template share.

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::shown;
use binnacle_validation::numbers::{int_or_percent, percent};
use binnacle_validation::{checks, selectors};

use crate::equality::equal_as;
use crate::internal;
use crate::pod_spec::validation::{self as pod_validation, PodValidationOptions};
use crate::tree_names::member;

pub(crate) const SELECTOR: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector";

/// Requires a selector that is not empty; `kind` is the kind of the object.
pub(crate) fn required_selector(spec: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("selector");
    let Some(selector) = member(spec, "selector") else { return errors.push(FieldError::required(&at, "")) };
    selectors::label_selector(Some(selector), false, &at, errors);
    if is_empty(selector) {
        let why = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid(&at, internal::shown_as(SELECTOR, Some(selector)), why));
    }
}

/// Returns true if a selector matches labels; `None` for invalid selectors. A nil selector matches nothing.
pub(crate) fn selects(selector: Option<&Value>, labels: Option<&Value>) -> Option<bool> {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else { return Some(false) };
    if selectors::is_invalid(Some(selector)) {
        return None;
    }
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
    let equals = selector.object_at(&["matchLabels"]).into_iter().flat_map(|labels| labels.iter());
    let requirements = selector.list_at(&["matchExpressions"]).iter().all(|requirement| {
        let label = label(requirement.str_at(&["key"]));
        let listed =
            label.is_some_and(|label| requirement.list_at(&["values"]).iter().any(|v| v.as_str() == Some(label)));
        match requirement.str_at(&["operator"]) {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => label.is_some(),
            _ => label.is_none(),
        }
    });
    Some(requirements && equals.into_iter().all(|(key, value)| label(key) == value.as_str()))
}

pub(crate) fn is_empty(selector: &Value) -> bool {
    selector.object_at(&["matchLabels"]).is_none_or(|labels| labels.is_empty())
        && selector.list_at(&["matchExpressions"]).is_empty()
}

/// Returns the error of a template whose labels do not match.
pub(crate) fn mismatch(template: &Value, path: &FieldPath) -> FieldError {
    let at = path.child("metadata").child("labels");
    FieldError::invalid(&at, shown_labels(template), "`selector` does not match template `labels`")
}

/// Returns the labels of a template as a message shows them: in the order of the names, whatever was added at the end.
pub(crate) fn shown_labels(template: &Value) -> ErrorValue {
    let mut labels = template.at(&["metadata", "labels"]).cloned();
    if let Some(labels) = labels.as_mut().and_then(Value::as_object_mut) {
        labels.sort_by_name();
    }
    shown(labels.as_ref())
}

/// Validates the template of pods that run forever; `kind` is the kind of the object.
pub(crate) fn lasting_template(
    template: &Value,
    kind: &str,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    pod_validation::template(template, path, options, errors);
    lasting(template, kind, path, errors);
}

/// Requires the restart policy `Always` and no deadline.
pub(crate) fn lasting(template: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("spec");
    let policy = template.str_at(&["spec", "restartPolicy"]);
    if policy != "Always" {
        errors.push(FieldError::not_supported(&path.child("restartPolicy"), policy, &["Always"]));
    }
    if template.at(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| !seconds.is_null()) {
        let why = format!("activeDeadlineSeconds in {kind} is not Supported");
        errors.push(FieldError::forbidden(&path.child("activeDeadlineSeconds"), why));
    }
}

/// Reports a change of the selector, which is immutable.
pub(crate) fn immutable_selector(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let selector = |object: &Value| object.at(&["spec", "selector"]).filter(|selector| !selector.is_null()).cloned();
    let (new, old) = (selector(object), selector(old));
    let same = new.is_some() == old.is_some() && equal_as(SELECTOR, new.as_ref(), old.as_ref());
    let at = FieldPath::new("spec").child("selector");
    checks::immutable(&at, same, internal::shown_as(SELECTOR, new.as_ref()), errors);
}

/// Rejects negative numbers in a struct.
pub(crate) fn not_negative(holder: &Value, fields: &[&str], path: &FieldPath, errors: &mut FieldErrors) {
    for field in fields {
        checks::not_negative(&path.child(field), holder.int_at(&[field]), errors);
    }
}

/// Requires counts of a status not to exceed another count.
pub(crate) fn not_more(
    status: &Value,
    fields: &[&str],
    than: &str,
    why: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let count = |field: &str| status.int_at(&[field]).unwrap_or(0);
    for field in fields.iter().filter(|field| count(field) > count(than)) {
        errors.push(FieldError::invalid(&path.child(field), count(field), why));
    }
}

/// Rejects a decrease of the number of hash collisions.
pub(crate) fn collision_count(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let count = |object: &Value| object.int_at(&["status", "collisionCount"]);
    if let Some(old) = count(old)
        && count(object).is_none_or(|new| new < old)
    {
        let at = FieldPath::new("status").child("collisionCount");
        errors.push(FieldError::invalid(&at, count(object).unwrap_or(0), "cannot be decremented"));
    }
}

/// Rejects a negative number or percentage.
pub(crate) fn amount(holder: &Value, field: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(value) = holder.get(field) {
        int_or_percent(&path.child(field), value, errors);
    }
}

/// Returns the number of an amount or percentage.
pub(crate) fn number(holder: &Value, field: &str) -> i64 {
    match holder.get(field) {
        Some(Value::Int(number)) => *number,
        Some(Value::Str(text)) => percent(text).or_else(|| text.parse().ok()).unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn selection() {
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
            assert_eq!(selects(Some(&selector), Some(&labels)), want, "{selector:?}");
        }
    }
}
