//! DeviceTaintRule: taints for selected devices.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Time};
use binnacle_schema::Value;
use binnacle_validation::{checks, conditions};

use super::date_taint;
use super::names::pool_name;
use super::slice_validation::validate_taint;
use crate::checks::{member, present, spec_path};
use crate::prepare::{clear_status, first_generation, next_generation, put_back, put_back_metadata};
use crate::storage::driver_name;
use crate::{Strategy, StrategyContext};

const TAINT: &[&str] = &["spec", "taint"];
const CONDITIONS_MAX: usize = 8;

pub(crate) struct DeviceTaintRule;

impl Strategy for DeviceTaintRule {
    fn pending_default(&self, object: &Value) -> Option<(&'static [&'static str], Value)> {
        const ADDED: &[&str] = &["spec", "taint", "timeAdded"];
        let absent = object.at(ADDED).is_none_or(Value::is_null);
        absent.then(|| (ADDED, Time::from_unix(0, 0).to_string().into()))
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        date_taint(object.make_at(TAINT), situation.now);
        clear_status(object);
        first_generation(object);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let taint = object.make_at(TAINT);
        date_taint(taint, situation.now);
        // A changed effect starts now, unless the client set the time.
        let same = |field: &str| taint.get(field) == old.at(TAINT).and_then(|taint| taint.get(field));
        if !same("effect") && same("timeAdded") {
            taint.insert("timeAdded", Time::from_unix(situation.now, 0).to_string());
        }
        put_back(object, old, "status");
        next_generation(object, old, &["spec"]);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }
    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        rule(object, None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        rule(object, old.at(TAINT))
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (list, path) = (object.list_at(&["status", "conditions"]), FieldPath::new("status").child("conditions"));
        conditions::conditions(list, &path, &mut errors);
        if list.len() > CONDITIONS_MAX {
            errors.push(FieldError::too_many(&path, list.len(), CONDITIONS_MAX));
        }
        errors
    }
}

fn rule(object: &Value, old_taint: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(object, "spec"), spec_path());
    let (selector, at) = (member(spec, "deviceSelector"), path.child("deviceSelector"));
    let text = |name| present(selector, name).and_then(Value::as_str);
    if let Some(driver) = text("driver") {
        driver_name(driver, &at.child("driver"), &mut errors);
    }
    if let Some(pool) = text("pool") {
        pool_name(&at.child("pool"), pool, &mut errors);
    }
    if let Some(device) = text("device") {
        checks::label(&at.child("device"), device, &mut errors);
    }
    validate_taint(member(spec, "taint"), old_taint, &path.child("taint"), &mut errors);
    errors
}
