//! DeviceTaintRule: taints for selected devices.

use binnacle_fields::resource::v1::DeviceTaint;
use binnacle_fields::resource::v1beta2::{
    DeviceTaintRule as Rule, DeviceTaintRuleSpec as Spec, DeviceTaintRuleStatus as Status,
    DeviceTaintSelector as Selector,
};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldErrors, Time};
use binnacle_schema::Value;
use binnacle_validation::{checks, conditions};

use super::names::pool_name;
use super::slice_validation::validate_taint;
use super::{date_taint, driver_name};
use crate::prepare::{count_generation, keep_metadata, start_generation};
use crate::{Strategy, StrategyContext};

const CONDITIONS_MAX: usize = 8;

pub(crate) struct DeviceTaintRule;

// The taint of a rule is cast to that of a device, which has the same fields.
impl Strategy for DeviceTaintRule {
    fn pending_default(&self, object: &Value) -> Option<(&'static [&'static str], Value)> {
        const ADDED: &[&str] = &[Rule::SPEC.name(), Spec::TAINT.name(), DeviceTaint::TIME_ADDED.name()];
        let rule = FieldRef::root(object);
        let spec = rule.at(Rule::SPEC);
        let is_absent = !spec.at(Spec::TAINT).cast().at(DeviceTaint::TIME_ADDED).is_set();
        is_absent.then(|| (ADDED, Time::from_unix(0, 0).to_string().into()))
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut rule = FieldMut::root(object);
        date_taint(rule.entry(Rule::SPEC).entry(Spec::TAINT).cast(), ctx.now);
        rule.remove(Rule::STATUS);
        start_generation(&mut rule);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut rule, old) = (FieldMut::root(object), FieldRef::root(old));
        let (mut spec, old_spec) = (rule.entry(Rule::SPEC), old.at(Rule::SPEC));
        let (mut taint, old_taint) = (spec.entry(Spec::TAINT).cast(), old_spec.at(Spec::TAINT).cast());
        date_taint(taint.reborrow(), ctx.now);
        // A changed effect starts now, unless the client set the time.
        let has_same_effect = taint.get(DeviceTaint::EFFECT) == old_taint.at(DeviceTaint::EFFECT).value();
        let has_same_time = taint.get(DeviceTaint::TIME_ADDED) == old_taint.at(DeviceTaint::TIME_ADDED).value();
        if !has_same_effect && has_same_time {
            taint.set(DeviceTaint::TIME_ADDED, Time::from_unix(ctx.now, 0).to_string());
        }
        rule.keep(old, Rule::STATUS);
        count_generation(&mut rule, old, Rule::SPEC);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut rule, old) = (FieldMut::root(object), FieldRef::root(old));
        rule.keep(old, Rule::SPEC);
        keep_metadata(&mut rule, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        spec_rules(FieldRef::root(object), None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let old = FieldRef::root(old);
        let spec = old.at(Rule::SPEC);
        spec_rules(FieldRef::root(object), spec.at(Spec::TAINT).cast().set())
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let rule = FieldRef::root(object);
        let status = rule.at(Rule::STATUS);
        let conditions = status.at(Status::CONDITIONS);
        conditions::validate(conditions.items(), &mut errors);
        if conditions.len() > CONDITIONS_MAX {
            errors.push(conditions.too_many(CONDITIONS_MAX));
        }
        errors
    }
}

fn spec_rules(rule: FieldRef<Rule>, old_taint: Option<FieldRef<DeviceTaint>>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = rule.at(Rule::SPEC);
    let selector = spec.at(Spec::DEVICE_SELECTOR);
    if let Some(driver) = selector.at(Selector::DRIVER).set() {
        driver_name(driver, &mut errors);
    }
    if let Some(pool) = selector.at(Selector::POOL).set() {
        pool_name(pool, &mut errors);
    }
    if let Some(device) = selector.at(Selector::DEVICE).set() {
        checks::label(&device, device.str(), &mut errors);
    }
    validate_taint(spec.at(Spec::TAINT).cast(), old_taint, &mut errors);
    errors
}
