//! ResourcePoolStatusRequest: a request for the state of device pools, which is answered once.

use std::collections::HashSet;

use binnacle_fields::meta::v1::Condition;
use binnacle_fields::resource::v1alpha3::{
    PoolStatus as Pool, ResourcePoolStatusRequest as Request, ResourcePoolStatusRequestSpec as Spec,
    ResourcePoolStatusRequestStatus as Status,
};
use binnacle_fields::types::{Int, Str};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{ErrorValue, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::{checks, conditions, names};

use super::names::bounded;
use crate::checks::immutable_pointer;
use crate::equality::equal;
use crate::prepare::keep_metadata;
use crate::{Strategy, StrategyContext};

const POOL_NAME_MAX: usize = 253;
const LIMIT_MAX: i64 = 1000;
const POOLS_MAX: usize = 1000;
const CONDITIONS_MAX: usize = 10;
const ERROR_MAX: usize = 256;

pub(crate) struct ResourcePoolStatusRequest;

impl Strategy for ResourcePoolStatusRequest {
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        FieldMut::root(object).remove(Request::STATUS);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::root(object).keep(FieldRef::root(old), Request::STATUS);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut request, old) = (FieldMut::root(object), FieldRef::root(old));
        request.keep(old, Request::SPEC);
        keep_metadata(&mut request, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let request = FieldRef::root(object);
        spec_rules(request.at(Request::SPEC), &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        let spec = new.at(Request::SPEC);
        if !equal(spec, old.at(Request::SPEC)) {
            errors.push(spec.invalid_as(ErrorValue::raw("null"), IMMUTABLE));
        }
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        let (status, old_status) = (new.at(Request::STATUS), old.at(Request::STATUS));
        if old_status.is_set() {
            // A status is immutable once set.
            immutable_pointer(status, old_status, &mut errors);
            if equal(status, old_status) {
                return errors;
            }
        }
        if status.is_set() {
            if !old_status.is_set() {
                conditions::validate(status.at(Status::CONDITIONS).items(), &mut errors);
            }
            status_rules(status, &mut errors);
        }
        errors
    }
}

fn spec_rules(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    driver(spec.at(Spec::DRIVER), errors);
    if let Some(name) = spec.at(Spec::POOL_NAME).set() {
        pool_name(name, errors);
    }
    let limit = spec.at(Spec::LIMIT);
    match limit.int() {
        None => errors.push(limit.required("")),
        Some(number) if number > LIMIT_MAX => {
            errors.push(limit.invalid(format!("must be less than or equal to {LIMIT_MAX}")));
        }
        _ => at_least(limit, 1, errors),
    }
}

fn status_rules(status: FieldRef<Status>, errors: &mut FieldErrors) {
    let count = status.at(Status::POOL_COUNT);
    if count.int().is_none() {
        errors.push(count.required(""));
    }
    at_least(count, 0, errors);
    for pool in bounded(status.at(Status::POOLS), POOLS_MAX, errors).items() {
        pool_rules(pool, errors);
    }
    let mut seen = HashSet::new();
    for condition in bounded(status.at(Status::CONDITIONS), CONDITIONS_MAX, errors).items() {
        if !seen.insert(condition.at(Condition::TYPE).str()) {
            errors.push(condition.duplicate());
        }
    }
}

fn pool_rules(pool: FieldRef<Pool>, errors: &mut FieldErrors) {
    driver(pool.at(Pool::DRIVER), errors);
    let name = pool.at(Pool::POOL_NAME);
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        pool_name(name, errors);
    }
    let generation = pool.at(Pool::GENERATION);
    if generation.int_or_zero() == 0 {
        errors.push(generation.required(""));
    }
    at_least(generation, 0, errors);
    at_least(pool.at(Pool::RESOURCE_SLICE_COUNT), 1, errors);
    for field in [Pool::TOTAL_DEVICES, Pool::ALLOCATED_DEVICES, Pool::AVAILABLE_DEVICES, Pool::UNAVAILABLE_DEVICES] {
        at_least(pool.at(field), 0, errors);
    }
    if let Some(node) = pool.at(Pool::NODE_NAME).set() {
        checks::long_name(&node, node.str(), errors);
    }
    let problem = pool.at(Pool::VALIDATION_ERROR);
    if problem.str().len() > ERROR_MAX {
        errors.push(problem.too_long(ERROR_MAX));
    }
}

fn driver(driver: FieldRef<Str>, errors: &mut FieldErrors) {
    match driver.str() {
        "" => errors.push(driver.required("")),
        name => checks::invalid_for(&driver, name, names::long_name_caseless(name), errors),
    }
}

/// Validates the name of a pool, which consists of long segments separated by slashes.
fn pool_name(field: FieldRef<Str>, errors: &mut FieldErrors) {
    let name = field.str();
    if name.len() > POOL_NAME_MAX {
        errors.push(field.too_long(POOL_NAME_MAX));
    }
    for (i, part) in errors.while_room(name.split('/').enumerate()) {
        if part.is_empty() {
            errors.push(field.invalid_as(name, format!("segment {i}: must not be empty")));
        }
        for problem in names::long_name(part).iter().filter(|_| !part.is_empty()) {
            errors.push(field.invalid_as(part, format!("segment {i}: {problem}")));
        }
    }
}

fn at_least(field: FieldRef<Int>, min: i64, errors: &mut FieldErrors) {
    if field.int().is_some_and(|number| number < min) {
        errors.push(field.invalid(format!("must be greater than or equal to {min}")));
    }
}
