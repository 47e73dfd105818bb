//! `metav1.LabelSelector`.

use binnacle_meta::{
    ErrorValue, FieldError, FieldErrors, FieldPath, LabelSelector, Operator, Requirement, SelectorError, Text, go_quote,
};
use binnacle_schema::Value;

use crate::{metadata, names};

/// Validates a label selector. `any_value` accepts invalid label values, for old objects with such values.
pub fn label_selector(selector: Option<&Value>, any_value: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(selector) = selector.filter(|s| !s.is_null()) else { return };
    metadata::labels(selector.get("matchLabels"), &path.child("matchLabels"), errors);
    for (i, requirement) in errors.while_room(selector.list_at(&["matchExpressions"]).iter().enumerate()) {
        label_selector_requirement(requirement, any_value, &path.child("matchExpressions").index(i), errors);
    }
}

/// Returns the error for an unknown operator in a requirement of any selector. Go shows values of named types as JSON,
/// with HTML characters escaped.
pub fn no_operator(operator: &str, requirement: &FieldPath) -> FieldError {
    let shown = ErrorValue::raw(binnacle_schema::json::to_string(&operator.into()));
    FieldError::invalid(&requirement.child("operator"), shown, "not a valid selector operator")
}

/// Validates one requirement of a label selector.
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
        _ => errors.push(no_operator(operator, path)),
    }
    let key = requirement.str_at(&["key"]);
    errors.extend(names::label_key(key).iter().map(|m| FieldError::invalid(&path.child("key"), key, m)));
    for (i, value) in errors.while_room(values.iter().filter_map(Value::as_str).enumerate().filter(|_| !any_value)) {
        errors.extend(names::label_value(value).iter().map(|m| FieldError::invalid(&at.index(i), value, m)));
    }
}

/// Converts to a [`LabelSelector`]. An absent selector selects nothing, an empty one everything.
///
/// Errors: those of client-go's `LabelSelectorAsSelector`.
pub fn parse(selector: Option<&Value>) -> Result<LabelSelector, SelectorError> {
    let Some(selector) = selector.filter(|selector| !selector.is_null()) else { return Ok(LabelSelector::nothing()) };
    let mut requirements = Vec::new();
    for (key, value) in selector.object_at(&["matchLabels"]).into_iter().flat_map(|labels| labels.iter()) {
        let value = value.as_str().unwrap_or_default();
        requirements.push(Requirement::new(key, Operator::Equals, vec![value.into()])?);
    }
    for expression in selector.list_at(&["matchExpressions"]) {
        let operator = match expression.str_at(&["operator"]) {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                let quoted = go_quote(other);
                return Err(SelectorError::new(format!("{quoted} is not a valid label selector operator")));
            }
        };
        let values = expression.list_at(&["values"]).iter().filter_map(Value::as_str).map(Text::from).collect();
        requirements.push(Requirement::new(expression.str_at(&["key"]), operator, values)?);
    }
    Ok(LabelSelector::new(requirements))
}

/// Returns true if a selector is invalid, so that an update may keep it.
pub fn is_invalid(selector: Option<&Value>) -> bool {
    let mut errors = FieldErrors::new();
    label_selector(selector, false, &FieldPath::root(), &mut errors);
    !errors.is_empty()
}
