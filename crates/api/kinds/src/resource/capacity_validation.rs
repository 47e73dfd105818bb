//! Validation of policies for requests of a shared device's capacity.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Quantity};
use binnacle_schema::Value;

use super::names::{bounded, duplicates};
use crate::checks::present;

const OPTIONS_MAX: usize = 10;

/// Validates a request policy for a capacity of `max`.
pub(super) fn request_policy(policy: &Value, max: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let values = !policy.list_at(&["validValues"]).is_empty();
    let range = present(policy, "validRange");
    if values && range.is_some() {
        let detail =
            "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
        errors.push(FieldError::forbidden(path, detail));
        return;
    }
    let field = if values { "validValues" } else { "validRange" };
    if !values && range.is_none() {
        return;
    }
    let Some(default) = present(policy, "default").and_then(Value::as_str) else {
        errors.push(FieldError::required(&path.child("default"), format!("required when {field} is defined")));
        return;
    };
    match range {
        None => valid_values(policy, default, max, path, errors),
        Some(range) => valid_range(range, default, max, &path.child("validRange"), errors),
    }
}

fn valid_values(policy: &Value, default: &str, max: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let values: Vec<&str> = policy.list_at(&["validValues"]).iter().filter_map(Value::as_str).collect();
    let at = path.child("validValues");
    for (i, pair) in errors.while_room(values.windows(2).enumerate()) {
        if quantity(pair[0]) > quantity(pair[1]) {
            errors.push(FieldError::invalid(&at.index(i + 1), pair[1], "values must be sorted in ascending order"));
        }
    }
    let options = bounded(policy, "validValues", OPTIONS_MAX, path, errors);
    for (at, option) in errors.while_room(&options) {
        let option = option.as_str().unwrap_or_default();
        if quantity(option) > quantity(max) {
            let detail = format!("option is larger than capacity value: {max}");
            errors.push(FieldError::invalid(at, option, detail));
        }
    }
    duplicates(&options, |option| value(option.as_str().unwrap_or_default()).to_string(), errors);
    if !options.iter().any(|(_, option)| quantity(option.as_str().unwrap_or_default()) == quantity(default)) {
        errors.push(FieldError::invalid(&at, default, "default value is not valid according to the requestPolicy"));
    }
}

fn valid_range(range: &Value, default: &str, max: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let text = |name| present(range, name).and_then(Value::as_str);
    let Some(min) = text("min") else {
        errors.push(FieldError::required(&path.child("min"), "required when validRange is defined"));
        return;
    };
    let mut refuse = |name, value: &str, detail: String| {
        errors.push(FieldError::invalid(&path.child(name), value, detail));
    };
    if quantity(min) > quantity(max) {
        refuse("min", min, format!("min is larger than capacity value: {max}"));
    }
    if quantity(default) < quantity(min) {
        refuse("min", default, format!("default is less than min: {min}"));
    }
    let top = text("max");
    if let Some(top) = top {
        if quantity(min) > quantity(top) {
            refuse("max", min, format!("min is larger than max: {top}"));
        }
        if quantity(top) > quantity(max) {
            refuse("max", top, format!("max is larger than capacity value: {max}"));
        }
        if quantity(default) > quantity(top) {
            refuse("max", default, format!("default is more than max: {top}"));
        }
    }
    let Some(step) = text("step") else { return };
    let (Some(first), Some(step_quantity)) = (quantity(min), quantity(step)) else { return };
    let mut one_step = first;
    one_step.add(&step_quantity);
    if Some(&one_step) > quantity(max).as_ref() {
        refuse("step", step, format!("one step {one_step} is larger than capacity value: {max}"));
    }
    for reached in [Some(default), top].into_iter().flatten() {
        let distance = value(reached).saturating_sub(value(min));
        // No number is a multiple of zero; kube-apiserver divides by zero and fails the request.
        if distance.checked_rem(value(step)).is_none_or(|rest| rest != 0) {
            refuse("step", reached, format!("value is not a multiple of a given step ({step}) from ({min})"));
        }
    }
}

fn quantity(text: &str) -> Option<Quantity> {
    Quantity::parse(text).ok()
}

fn value(text: &str) -> i64 {
    quantity(text).map_or(0, |quantity| quantity.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn policies() {
        for (policy, want) in [
            (value!({}), vec![]),
            (
                value!({"validValues": ["1", "2"]}),
                vec!["p.default: Required value: required when validValues is defined"],
            ),
            (value!({"default": "1", "validValues": ["1", "2"]}), vec![]),
            (
                value!({"default": "3", "validValues": ["2", "1", "20"]}),
                vec![
                    "p.validValues[1]: Invalid value: \"1\": values must be sorted in ascending order",
                    "p.validValues[2]: Invalid value: \"20\": option is larger than capacity value: 10",
                    "p.validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy",
                ],
            ),
            (
                value!({"default": "3", "validRange": {"min": "1", "max": "9", "step": "5"}}),
                vec![
                    "p.validRange.step: Invalid value: \"3\": value is not a multiple of a given step (5) from (1)",
                    "p.validRange.step: Invalid value: \"9\": value is not a multiple of a given step (5) from (1)",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            request_policy(&policy, "10", &FieldPath::new("p"), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
