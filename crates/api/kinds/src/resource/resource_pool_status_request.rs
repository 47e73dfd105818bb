//! ResourcePoolStatusRequest: a request for the state of device pools, which is answered once.

use std::collections::HashSet;

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::shown;
use binnacle_validation::{checks, conditions, names};

use super::names::bounded;
use crate::checks::{immutable_struct_as, member, present, spec_path};
use crate::equality::equal_as;
use crate::prepare::{clear_status, put_back, put_back_metadata};
use crate::{Strategy, StrategyContext};

const SPEC: &str = "io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequestSpec";
const STATUS: &str = "io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequestStatus";
const POOL_NAME_MAX: usize = 253;
const LIMIT_MAX: i64 = 1000;
const POOLS_MAX: usize = 1000;
const CONDITIONS_MAX: usize = 10;
const ERROR_MAX: usize = 256;

pub(crate) struct ResourcePoolStatusRequest;

impl Strategy for ResourcePoolStatusRequest {
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec_rules(member(object, "spec"), &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if !equal_as(SPEC, object.get("spec"), old.get("spec")) {
            errors.push(FieldError::invalid(&spec_path(), ErrorValue::raw("null"), "field is immutable"));
        }
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("status");
        let (status, old_status) = (present(object, "status"), present(old, "status"));
        if old_status.is_some() {
            // A status is immutable once set.
            immutable_struct_as(STATUS, &path, status, old_status, &mut errors);
            if equal_as(STATUS, status, old_status) {
                return errors;
            }
        }
        if let Some(status) = status {
            if old_status.is_none() {
                let list = status.list_at(&["conditions"]);
                conditions::conditions(list, &path.child("conditions"), &mut errors);
            }
            status_rules(status, &path, &mut errors);
        }
        errors
    }
}

fn spec_rules(spec: &Value, errors: &mut FieldErrors) {
    let path = spec_path();
    driver(spec, &path, errors);
    if let Some(name) = present(spec, "poolName").and_then(Value::as_str) {
        pool_name(&path.child("poolName"), name, errors);
    }
    let at = path.child("limit");
    match spec.int_at(&["limit"]) {
        None => errors.push(FieldError::required(&at, "")),
        Some(limit) if limit > LIMIT_MAX => {
            let why = format!("must be less than or equal to {LIMIT_MAX}");
            errors.push(FieldError::invalid(&at, limit, why));
        }
        limit => at_least(&at, limit, 1, errors),
    }
}

fn status_rules(status: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("poolCount");
    match status.int_at(&["poolCount"]) {
        None => errors.push(FieldError::required(&at, "")),
        count => at_least(&at, count, 0, errors),
    }
    for (at, pool) in bounded(status, "pools", POOLS_MAX, path, errors) {
        pool_rules(pool, &at, errors);
    }
    let mut seen = HashSet::new();
    for (at, condition) in bounded(status, "conditions", CONDITIONS_MAX, path, errors) {
        if !seen.insert(condition.str_at(&["type"])) {
            errors.push(FieldError::duplicate(&at, shown(Some(condition))));
        }
    }
}

fn pool_rules(pool: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    driver(pool, path, errors);
    let at = path.child("poolName");
    match pool.str_at(&["poolName"]) {
        "" => errors.push(FieldError::required(&at, "")),
        name => pool_name(&at, name, errors),
    }
    let at = path.child("generation");
    match pool.int_at(&["generation"]).unwrap_or(0) {
        0 => errors.push(FieldError::required(&at, "")),
        generation => at_least(&at, Some(generation), 0, errors),
    }
    at_least(&path.child("resourceSliceCount"), pool.int_at(&["resourceSliceCount"]), 1, errors);
    for name in ["totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices"] {
        at_least(&path.child(name), pool.int_at(&[name]), 0, errors);
    }
    if let Some(node) = present(pool, "nodeName").and_then(Value::as_str) {
        checks::long_name(&path.child("nodeName"), node, errors);
    }
    if pool.str_at(&["validationError"]).len() > ERROR_MAX {
        errors.push(FieldError::too_long(&path.child("validationError"), ERROR_MAX));
    }
}

fn driver(holder: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("driver");
    match holder.str_at(&["driver"]) {
        "" => errors.push(FieldError::required(&at, "")),
        name => checks::invalid_for(&at, name, names::long_name_caseless(name), errors),
    }
}

/// Validates the name of a pool, which consists of long segments separated by slashes.
fn pool_name(path: &FieldPath, name: &str, errors: &mut FieldErrors) {
    if name.len() > POOL_NAME_MAX {
        errors.push(FieldError::too_long(path, POOL_NAME_MAX));
    }
    for (i, part) in errors.while_room(name.split('/').enumerate()) {
        if part.is_empty() {
            errors.push(FieldError::invalid(path, name, format!("segment {i}: must not be empty")));
        }
        for problem in names::long_name(part).iter().filter(|_| !part.is_empty()) {
            errors.push(FieldError::invalid(path, part, format!("segment {i}: {problem}")));
        }
    }
}

fn at_least(path: &FieldPath, value: Option<i64>, min: i64, errors: &mut FieldErrors) {
    if let Some(value) = value.filter(|value| *value < min) {
        errors.push(FieldError::invalid(path, value, format!("must be greater than or equal to {min}")));
    }
}
