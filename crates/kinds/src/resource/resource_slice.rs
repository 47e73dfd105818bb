//! ResourceSlice: devices of a pool, as their driver publishes them.

use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};

use super::{date_taint, slice_validation};
use crate::prepare::{default_to, first_generation, next_generation, objects_at};
use crate::{Situation, Strategy};

pub(crate) struct ResourceSlice;

const DEVICES: &[&str] = &["spec", "devices"];

/// Belongs to the feature `DRANodeAllocatableResources`, which is off.
const MAPPINGS: &str = "nodeAllocatableResourceMappings";

/// Lists of attributes, which belong to the feature `DRAListTypeAttributes`, which is off.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

impl Strategy for ResourceSlice {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        for device in objects_at(object, DEVICES) {
            if version != "v1beta1" {
                default_multipliers(device);
            } else if let Some(basic) = device.get_mut("basic").and_then(Value::as_object_mut) {
                default_multipliers(basic);
            }
        }
    }

    fn prepare_for_create(&self, situation: &Situation<'_>, object: &mut Value) {
        date_taints(object, situation);
        first_generation(object);
        drop_disabled(object, &Value::Null);
    }

    fn prepare_for_update(&self, situation: &Situation<'_>, object: &mut Value, old: &Value) {
        date_taints(object, situation);
        next_generation(object, old, &["spec"]);
        drop_disabled(object, old);
    }

    fn validate(&self, _: &Situation<'_>, object: &Value) -> FieldErrors {
        slice_validation::slice(object, None)
    }

    fn validate_update(&self, _: &Situation<'_>, object: &Value, old: &Value) -> FieldErrors {
        slice_validation::slice(object, Some(old))
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let driver = object.str_at(&["spec", "driver"]);
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        let driver = binnacle_meta::go_quote(driver);
        vec![format!("spec.driver: driver names should be lowercase; {driver} contains uppercase characters")]
    }
}

fn default_multipliers(device: &mut Object) {
    let mappings = device.get_mut(MAPPINGS).and_then(Value::as_object_mut);
    for (_, mapping) in mappings.into_iter().flat_map(Object::iter_mut) {
        default_to(mapping.make_object(), "allocationMultiplier", "1");
    }
}

fn date_taints(object: &mut Value, situation: &Situation<'_>) {
    for device in objects_at(object, DEVICES) {
        let taints = device.get_mut("taints").and_then(Value::as_list_mut).into_iter().flatten();
        taints.for_each(|taint| date_taint(taint.make_object(), situation.now));
    }
}

/// Fields whose features are off go, unless they were in use before.
fn drop_disabled(object: &mut Value, old: &Value) {
    let old_devices = old.list_at(DEVICES);
    let mappings_in_use = old_devices.iter().any(|d| d.object_at(&[MAPPINGS]).is_some_and(|m| !m.is_empty()));
    let attributes = |device: &Value| device.object_at(&["attributes"]).cloned().unwrap_or_default();
    let lists_in_use =
        old_devices.iter().any(|d| attributes(d).values().any(|a| LISTS.iter().any(|list| a.get(list).is_some())));
    for device in objects_at(object, DEVICES) {
        if !mappings_in_use {
            device.remove(MAPPINGS);
        }
        let attributes = device.get_mut("attributes").and_then(Value::as_object_mut);
        for (_, attribute) in attributes.into_iter().flat_map(Object::iter_mut).filter(|_| !lists_in_use) {
            LISTS.iter().for_each(|list| drop(attribute.make_object().remove(list)));
        }
    }
}
