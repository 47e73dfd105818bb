//! The selectors of a review (KEP-4601): their validation, and their text.

use binnacle_meta::{
    FieldError, FieldErrors, FieldPath, FieldSelector, FieldTerm, LabelSelector, Operator, Requirement, Text,
};
use binnacle_schema::Value;
use binnacle_validation::names;
use binnacle_work::pace;

/// The text of a selector, without requirements that could not be parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selected {
    pub(super) text: String,
    pub(super) failed: bool,
}

/// Validates `fieldSelector` and `labelSelector`.
pub(super) fn validate(resource: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (member, of_requirement) in [
        ("fieldSelector", field_requirement as fn(&Value, &FieldPath, &mut FieldErrors)),
        ("labelSelector", label_requirement),
    ] {
        let Some(selector) = resource.get(member).filter(|selector| !selector.is_null()) else { continue };
        let path = path.child(member);
        let (raw, requirements) = (selector.str_at(&["rawSelector"]), selector.list_at(&["requirements"]));
        if !raw.is_empty() && !requirements.is_empty() {
            let detail = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(&path.child("rawSelector"), raw, detail));
        }
        if raw.is_empty() && requirements.is_empty() {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(&path.child("requirements"), detail));
        }
        for (i, requirement) in errors.while_room(requirements.iter().enumerate()) {
            of_requirement(requirement, &path.child("requirements").index(i), errors);
        }
    }
}

/// Validates an operator. Unknown ones, perhaps of newer servers, are allowed: their requirements are ignored.
fn operator(requirement: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let values = requirement.list_at(&["values"]);
    pace(steps(requirement));
    match requirement.str_at(&["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&path.child("values"), detail));
        }
        _ => {}
    }
}

fn label_requirement(requirement: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    operator(requirement, path, errors);
    let key = requirement.str_at(&["key"]);
    errors.extend(names::label_key(key).iter().map(|m| FieldError::invalid(&path.child("key"), key, m)));
    let at = path.child("values");
    for (i, value) in errors.while_room(requirement.list_at(&["values"]).iter().filter_map(Value::as_str).enumerate()) {
        errors.extend(names::label_value(value).iter().map(|m| FieldError::invalid(&at.index(i), value, m)));
    }
}

fn field_requirement(requirement: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if requirement.str_at(&["key"]).is_empty() {
        errors.push(FieldError::required(&path.child("key"), "must be specified"));
    }
    operator(requirement, path, errors);
}

/// Returns the steps of reading a requirement and its values.
fn steps(requirement: &Value) -> u64 {
    10 + 10 * requirement.list_at(&["values"]).len() as u64
}

/// Returns the text of `labelSelector`.
pub(super) fn labels(resource: &Value) -> Selected {
    let selector = resource.get("labelSelector").unwrap_or(&Value::Null);
    let requirements = selector.list_at(&["requirements"]);
    if requirements.is_empty() {
        let raw = selector.str_at(&["rawSelector"]);
        pace(raw.len() as u64);
        return match LabelSelector::parse(raw) {
            Ok(parsed) => Selected { text: parsed.to_string(), failed: false },
            Err(_) => Selected { failed: true, ..Selected::default() },
        };
    }
    let (mut good, mut failed) = (Vec::new(), false);
    for requirement in requirements {
        pace(steps(requirement));
        let operator = match requirement.str_at(&["operator"]) {
            "In" => Some(Operator::In),
            "NotIn" => Some(Operator::NotIn),
            "Exists" => Some(Operator::Exists),
            "DoesNotExist" => Some(Operator::DoesNotExist),
            _ => None,
        };
        let values = requirement.list_at(&["values"]).iter().filter_map(Value::as_str).map(Text::from).collect();
        match operator.map(|operator| Requirement::new(requirement.str_at(&["key"]), operator, values)) {
            Some(Ok(requirement)) => good.push(requirement),
            _ => failed = true,
        }
    }
    let text = if good.is_empty() { String::new() } else { LabelSelector::new(good).to_string() };
    Selected { text, failed }
}

/// Returns the text of `fieldSelector`.
pub(super) fn fields(resource: &Value) -> Selected {
    let selector = resource.get("fieldSelector").unwrap_or(&Value::Null);
    let requirements = selector.list_at(&["requirements"]);
    if requirements.is_empty() {
        let raw = selector.str_at(&["rawSelector"]);
        pace(raw.len() as u64);
        return match FieldSelector::parse(raw) {
            Ok(parsed) => Selected { text: parsed.to_string(), failed: false },
            Err(_) => Selected { failed: true, ..Selected::default() },
        };
    }
    let (mut good, mut failed) = (Vec::new(), false);
    for requirement in requirements {
        pace(steps(requirement));
        let negated = match requirement.str_at(&["operator"]) {
            "In" => Some(false),
            "NotIn" => Some(true),
            // Field selectors have no other operators.
            _ => None,
        };
        match (negated, requirement.list_at(&["values"])) {
            (Some(negated), [Value::Str(value)]) => {
                let field = requirement.str_at(&["key"]).into();
                good.push(FieldTerm { field, value: value.clone(), negated });
            }
            _ => failed = true,
        }
    }
    let text = if good.is_empty() { String::new() } else { FieldSelector::new(good).to_string() };
    Selected { text, failed }
}
