//! Validation of the requests and constraints of a claim, and of device classes, which have parts of them.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Value, json};
use binnacle_validation::{checks, names};

use super::names::{bounded, duplicates, fully_qualified_name, request_references};
use crate::checks::{invalid_each, items, one_of, present};
use crate::expressions;
use crate::storage::driver_name;

pub(super) const REQUESTS_MAX: usize = 32;
pub(super) const CONFIG_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const EXPRESSION_MAX: usize = 10 * 1024;
const PARAMETERS_MAX: usize = 10 * 1024;

/// Validates `spec.devices` of a claim.
pub(super) fn devices(devices: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let requests = bounded(devices, "requests", REQUESTS_MAX, path, errors);
    for (at, request) in errors.while_room(&requests) {
        validate_request(request, at, errors);
    }
    duplicates(&requests, name, errors);
    for (at, constraint) in bounded(devices, "constraints", CONSTRAINTS_MAX, path, errors) {
        request_references(constraint, devices, &at, errors);
        let attribute = ["matchAttribute", "distinctAttribute"]
            .into_iter()
            .find_map(|name| present(constraint, name).and_then(Value::as_str).map(|value| (name, value)));
        match attribute {
            Some((name, value)) => fully_qualified_name(&at.child(name), value, errors),
            None => {
                let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
                errors.push(FieldError::required(&at, detail));
            }
        }
    }
    for (at, config) in bounded(devices, "config", CONFIG_MAX, path, errors) {
        request_references(config, devices, &at, errors);
        configuration(config, false, &at, errors);
    }
}

fn name(item: &Value) -> String {
    item.str_at(&["name"]).to_owned()
}

fn validate_request(request: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    checks::label(&path.child("name"), request.str_at(&["name"]), errors);
    let alternatives = !request.list_at(&["firstAvailable"]).is_empty();
    match (present(request, "exactly"), alternatives) {
        (None, false) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required";
            errors.push(FieldError::required(path, detail));
        }
        (Some(_), true) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(FieldError::invalid(path, binnacle_meta::ErrorValue::raw("null"), detail));
        }
        (Some(exactly), false) => device_request(exactly, &path.child("exactly"), errors),
        (None, true) => {
            let alternatives = bounded(request, "firstAvailable", ALTERNATIVES_MAX, path, errors);
            for (at, alternative) in errors.while_room(&alternatives) {
                checks::label(&at.child("name"), alternative.str_at(&["name"]), errors);
                device_request(alternative, at, errors);
            }
            duplicates(&alternatives, name, errors);
        }
    }
}

fn device_request(request: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (class, at) = (request.str_at(&["deviceClassName"]), path.child("deviceClassName"));
    if class.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        checks::subdomain(&at, class, errors);
    }
    selectors(request, path, errors);
    let (mode, count) = (request.str_at(&["allocationMode"]), request.int_at(&["count"]).unwrap_or(0));
    let at = path.child("count");
    match mode {
        "All" => {
            if count != 0 {
                let detail = "must not be specified when allocationMode is 'All'";
                errors.push(FieldError::invalid(&at, count, detail));
            }
        }
        "ExactCount" => {
            if count <= 0 {
                errors.push(FieldError::invalid(&at, count, "must be greater than zero"));
            }
        }
        _ => one_of(&path.child("allocationMode"), mode, &["All", "ExactCount"], errors),
    }
    for (at, toleration) in errors.while_room(items(request, "tolerations", path)) {
        validate_toleration(toleration, &at, errors);
    }
}

/// Validates device selectors.
pub(super) fn selectors(object: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (at, selector) in bounded(object, "selectors", SELECTORS_MAX, path, errors) {
        let at = at.child("cel");
        match present(selector, "cel") {
            None => errors.push(FieldError::required(&at, "")),
            Some(cel) => {
                let (expression, at) = (cel.str_at(&["expression"]), at.child("expression"));
                if expression.len() > EXPRESSION_MAX {
                    errors.push(FieldError::too_long(&at, EXPRESSION_MAX));
                } else {
                    expressions::device_selector(&at, expression, errors);
                }
            }
        }
    }
}

fn validate_toleration(toleration: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|name| toleration.str_at(&[name]));
    if !key.is_empty() {
        checks::qualified_name(&path.child("key"), key, errors);
    }
    let at = path.child("value");
    match operator {
        "Exists" => {
            if !value.is_empty() {
                errors.push(FieldError::invalid(&at, value, "must be empty for operator `Exists`"));
            }
        }
        "Equal" => invalid_each(&at, value, &names::label_value(value), errors),
        "" => errors.push(FieldError::required(&path.child("operator"), "")),
        _ => one_of(&path.child("operator"), operator, &["Equal", "Exists"], errors),
    }
    if !effect.is_empty() {
        one_of(&path.child("effect"), effect, &EFFECTS, errors);
    }
}

pub(super) const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Validates the configuration of devices; stored ones may be above the limit.
pub(super) fn configuration(config: &Value, stored: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let path = path.child("opaque");
    let Some(opaque) = present(config, "opaque") else {
        errors.push(FieldError::required(&path, ""));
        return;
    };
    driver_name(opaque.str_at(&["driver"]), &path.child("driver"), errors);
    let max = if stored { usize::MAX } else { PARAMETERS_MAX };
    free_form(opaque.get("parameters"), max, &path.child("parameters"), errors);
}

/// Validates a free-form object for the driver.
pub(super) fn free_form(value: Option<&Value>, max: usize, path: &FieldPath, errors: &mut FieldErrors) {
    match value.filter(|value| !value.is_null()) {
        None => errors.push(FieldError::required(path, "")),
        Some(Value::Raw(text)) if text.len() > max => errors.push(FieldError::too_long(path, max)),
        Some(value) if json::to_string(value).len() > max => errors.push(FieldError::too_long(path, max)),
        Some(Value::Object(_)) => {}
        Some(Value::Raw(text)) if text.starts_with('{') => {}
        Some(_) => errors.push(FieldError::invalid(path, "<value omitted>", "must be a valid JSON object")),
    }
}
