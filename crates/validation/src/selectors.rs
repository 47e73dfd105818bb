//! `metav1.LabelSelector`.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use crate::{metadata, names};

/// The rules of a label selector. `any_value` lets invalid label values pass, where the old object has some.
pub fn label_selector(selector: Option<&Value>, any_value: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(selector) = selector.filter(|s| !s.is_null()) else { return };
    metadata::labels(selector.get("matchLabels"), &path.child("matchLabels"), errors);
    for (i, requirement) in errors.while_room(selector.list_at(&["matchExpressions"]).iter().enumerate()) {
        label_selector_requirement(requirement, any_value, &path.child("matchExpressions").index(i), errors);
    }
}

/// The rules of one requirement of a label selector.
pub fn label_selector_requirement(requirement: &Value, any_value: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let operator = requirement.str_at(&["operator"]);
    let values = requirement.list_at(&["values"]);
    let at = path.child("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(FieldError::required(&at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors
                .push(FieldError::forbidden(&at, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ => errors.push(FieldError::invalid(&path.child("operator"), operator, "not a valid selector operator")),
    }
    let key = requirement.str_at(&["key"]);
    errors.extend(names::label_key(key).iter().map(|m| FieldError::invalid(&path.child("key"), key, m)));
    for (i, value) in errors.while_room(values.iter().filter_map(Value::as_str).enumerate().filter(|_| !any_value)) {
        errors.extend(names::label_value(value).iter().map(|m| FieldError::invalid(&at.index(i), value, m)));
    }
}

/// Whether a selector breaks the rules: an update may keep it then.
pub fn is_invalid(selector: Option<&Value>) -> bool {
    let mut errors = FieldErrors::new();
    label_selector(selector, false, &FieldPath::root(), &mut errors);
    !errors.is_empty()
}
