//! Validation of the requests and constraints of a claim, and of device classes, which have parts of them.

use binnacle_fields::FieldRef;
use binnacle_fields::resource::v1::{
    CELDeviceSelector, DeviceClaim, DeviceClaimConfiguration, DeviceConstraint, DeviceRequest, DeviceSelector,
    DeviceSubRequest, DeviceToleration, ExactDeviceRequest, OpaqueDeviceConfiguration,
};
use binnacle_fields::types::{Json, List};
use binnacle_meta::{ErrorValue, FieldErrors};
use binnacle_schema::{Value, json};
use binnacle_validation::{checks, names};

use super::driver_name;
use super::names::{REQUESTS_MAX, bounded, duplicates, fully_qualified_name, request_references};
use crate::expressions;

pub(super) const CONFIG_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const SELECTORS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;
const EXPRESSION_MAX: usize = 10 * 1024;
const PARAMETERS_MAX: usize = 10 * 1024;

/// Validates `spec.devices` of a claim.
pub(super) fn devices(devices: FieldRef<DeviceClaim>, errors: &mut FieldErrors) {
    let requests = bounded(devices.at(DeviceClaim::REQUESTS), REQUESTS_MAX, errors);
    for request in errors.while_room(requests.items()) {
        validate_request(request, errors);
    }
    duplicates(requests, |request| request.at(DeviceRequest::NAME).str(), errors);
    for constraint in bounded(devices.at(DeviceClaim::CONSTRAINTS), CONSTRAINTS_MAX, errors).items() {
        request_references(constraint.at(DeviceConstraint::REQUESTS), devices, errors);
        let attributes = [DeviceConstraint::MATCH_ATTRIBUTE, DeviceConstraint::DISTINCT_ATTRIBUTE];
        match attributes.map(|field| constraint.at(field)).into_iter().find(FieldRef::is_set) {
            Some(attribute) => fully_qualified_name(attribute, errors),
            None => {
                let detail = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
                errors.push(constraint.required(detail));
            }
        }
    }
    for config in bounded(devices.at(DeviceClaim::CONFIG), CONFIG_MAX, errors).items() {
        request_references(config.at(DeviceClaimConfiguration::REQUESTS), devices, errors);
        configuration(config.at(DeviceClaimConfiguration::OPAQUE), false, errors);
    }
}

fn validate_request(request: FieldRef<DeviceRequest>, errors: &mut FieldErrors) {
    let name = request.at(DeviceRequest::NAME);
    checks::label(&name, name.str(), errors);
    let (exactly, alternatives) = (request.at(DeviceRequest::EXACTLY), request.at(DeviceRequest::FIRST_AVAILABLE));
    match (exactly.is_set(), !alternatives.is_empty()) {
        (false, false) => errors.push(request.required("exactly one of `exactly` or `firstAvailable` is required")),
        (true, true) => {
            let detail = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(request.invalid_as(ErrorValue::raw("null"), detail));
        }
        (true, false) => device_request(exactly, errors),
        (false, true) => {
            let alternatives = bounded(alternatives, ALTERNATIVES_MAX, errors);
            for alternative in errors.while_room(alternatives.items()) {
                let name = alternative.at(DeviceSubRequest::NAME);
                checks::label(&name, name.str(), errors);
                // An alternative has the fields of a request, except for `adminAccess`.
                device_request(alternative.cast(), errors);
            }
            duplicates(alternatives, |alternative| alternative.at(DeviceSubRequest::NAME).str(), errors);
        }
    }
}

fn device_request(request: FieldRef<ExactDeviceRequest>, errors: &mut FieldErrors) {
    let class = request.at(ExactDeviceRequest::DEVICE_CLASS_NAME);
    if class.is_empty() {
        errors.push(class.required(""));
    } else {
        checks::subdomain(&class, class.str(), errors);
    }
    selectors(request.at(ExactDeviceRequest::SELECTORS), errors);
    let (mode, count) = (request.at(ExactDeviceRequest::ALLOCATION_MODE), request.at(ExactDeviceRequest::COUNT));
    let number = count.int_or_zero();
    match mode.str() {
        "All" => {
            if number != 0 {
                errors.push(count.invalid("must not be specified when allocationMode is 'All'"));
            }
        }
        "ExactCount" => {
            if number <= 0 {
                errors.push(count.invalid_as(number, "must be greater than zero"));
            }
        }
        _ => checks::one_of(&mode, mode.str(), &["All", "ExactCount"], errors),
    }
    let tolerations = request.at(ExactDeviceRequest::TOLERATIONS);
    for toleration in errors.while_room(tolerations.items()) {
        validate_toleration(toleration, errors);
    }
}

/// Validates device selectors.
pub(super) fn selectors(selectors: FieldRef<List<DeviceSelector>>, errors: &mut FieldErrors) {
    for selector in bounded(selectors, SELECTORS_MAX, errors).items() {
        let cel = selector.at(DeviceSelector::CEL);
        if !cel.is_set() {
            errors.push(cel.required(""));
            continue;
        }
        let expression = cel.at(CELDeviceSelector::EXPRESSION);
        if expression.str().len() > EXPRESSION_MAX {
            errors.push(expression.too_long(EXPRESSION_MAX));
        } else {
            expressions::device_selector(&expression.path(), expression.str(), errors);
        }
    }
}

fn validate_toleration(toleration: FieldRef<DeviceToleration>, errors: &mut FieldErrors) {
    let (key, operator) = (toleration.at(DeviceToleration::KEY), toleration.at(DeviceToleration::OPERATOR));
    let (value, effect) = (toleration.at(DeviceToleration::VALUE), toleration.at(DeviceToleration::EFFECT));
    if !key.is_empty() {
        checks::qualified_name(&key, key.str(), errors);
    }
    match operator.str() {
        "Exists" => {
            if !value.is_empty() {
                errors.push(value.invalid("must be empty for operator `Exists`"));
            }
        }
        "Equal" => checks::invalid_for(&value, value.str(), names::label_value(value.str()), errors),
        other => checks::required_one_of(&operator, other, &["Equal", "Exists"], errors),
    }
    if !effect.is_empty() {
        checks::one_of(&effect, effect.str(), &EFFECTS, errors);
    }
}

pub(super) const EFFECTS: [&str; 3] = ["NoExecute", "NoSchedule", "None"];

/// Validates the configuration of devices; stored ones may be above the limit.
pub(super) fn configuration(opaque: FieldRef<OpaqueDeviceConfiguration>, stored: bool, errors: &mut FieldErrors) {
    if !opaque.is_set() {
        errors.push(opaque.required(""));
        return;
    }
    driver_name(opaque.at(OpaqueDeviceConfiguration::DRIVER), errors);
    let max = if stored { usize::MAX } else { PARAMETERS_MAX };
    free_form(opaque.at(OpaqueDeviceConfiguration::PARAMETERS), max, errors);
}

/// Validates a free-form object for the driver.
pub(super) fn free_form(object: FieldRef<Json>, max: usize, errors: &mut FieldErrors) {
    match object.value() {
        Value::Null => errors.push(object.required("")),
        Value::Raw(text) if text.len() > max => errors.push(object.too_long(max)),
        value if json::to_string(value).len() > max => errors.push(object.too_long(max)),
        Value::Object(_) => {}
        Value::Raw(text) if text.starts_with('{') => {}
        _ => errors.push(object.invalid_as("<value omitted>", "must be a valid JSON object")),
    }
}
