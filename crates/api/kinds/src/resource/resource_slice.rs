//! ResourceSlice: devices of a pool, published by their driver.

use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};

use super::{date_taint, slice_validation};
use crate::gated_names::{Gated, drop_disabled};
use crate::prepare::{default_to, first_generation, next_generation, objects_at};
use crate::{Strategy, StrategyContext};

pub(crate) struct ResourceSlice;

const DEVICES: &[&str] = &["spec", "devices"];

const GATED: &[Gated] = &[
    Gated { feature: "DRADeviceTaints", fields: &[&["spec", "devices", "*", "taints"]] },
    Gated {
        feature: "DRAPartitionableDevices",
        fields: &[
            &["spec", "sharedCounters"],
            &["spec", "perDeviceNodeSelection"],
            &["spec", "devices", "*", "consumesCounters"],
            &["spec", "devices", "*", "nodeName"],
            &["spec", "devices", "*", "nodeSelector"],
            &["spec", "devices", "*", "allNodes"],
        ],
    },
    // Binding conditions are reported in the status of claims, so they need both features.
    Gated { feature: "DRADeviceBindingConditions", fields: BINDING },
    Gated { feature: "DRAResourceClaimDeviceStatus", fields: BINDING },
    Gated {
        feature: "DRAConsumableCapacity",
        fields: &[
            &["spec", "devices", "*", "allowMultipleAllocations"],
            &["spec", "devices", "*", "capacity", "*", "requestPolicy"],
        ],
    },
    Gated {
        feature: "DRANodeAllocatableResources",
        fields: &[&["spec", "devices", "*", "nodeAllocatableResourceMappings"]],
    },
    Gated {
        feature: "DRAListTypeAttributes",
        fields: &[
            &["spec", "devices", "*", "attributes", "*", "bools"],
            &["spec", "devices", "*", "attributes", "*", "ints"],
            &["spec", "devices", "*", "attributes", "*", "strings"],
            &["spec", "devices", "*", "attributes", "*", "versions"],
        ],
    },
];

const BINDING: &[&[&str]] = &[
    &["spec", "devices", "*", "bindingConditions"],
    &["spec", "devices", "*", "bindingFailureConditions"],
    &["spec", "devices", "*", "bindsToNode"],
];

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

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        date_taints(object, situation);
        first_generation(object);
        drop_disabled(situation.features, object, None, GATED);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        date_taints(object, situation);
        next_generation(object, old, &["spec"]);
        drop_disabled(situation.features, object, Some(old), GATED);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        slice_validation::slice(object, None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
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
    let mappings = device.get_mut("nodeAllocatableResourceMappings").and_then(Value::as_object_mut);
    for (_, mapping) in mappings.into_iter().flat_map(Object::iter_mut) {
        default_to(mapping.make_object(), "allocationMultiplier", "1");
    }
}

fn date_taints(object: &mut Value, situation: &StrategyContext<'_>) {
    for device in objects_at(object, DEVICES) {
        let taints = device.get_mut("taints").and_then(Value::as_list_mut).into_iter().flatten();
        taints.for_each(|taint| date_taint(taint.make_object(), situation.now));
    }
}
