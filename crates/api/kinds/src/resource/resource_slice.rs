//! ResourceSlice: devices of a pool, published by their driver.

use binnacle_fields::resource::v1::{
    Device, DeviceAttribute, DeviceCapacity, NodeAllocatableResourceMapping as Mapping, ResourceSlice as Slice,
    ResourceSliceSpec as Spec,
};
use binnacle_fields::resource::v1beta1;
use binnacle_fields::{FieldMut, FieldRef, Route, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};

use super::{date_taint, slice_validation};
use crate::gated::{GatedFields, drop_disabled};
use crate::prepare::{count_generation, start_generation};
use crate::{Strategy, StrategyContext};

pub(crate) struct ResourceSlice;

macro_rules! device {
    ($($field:expr),*) => { route![Slice::SPEC, Spec::DEVICES, $($field),*] };
}

const GATED: &[GatedFields<Slice>] = &[
    GatedFields { feature: "DRADeviceTaints", fields: &[device![Device::TAINTS]] },
    GatedFields {
        feature: "DRAPartitionableDevices",
        fields: &[
            route![Slice::SPEC, Spec::SHARED_COUNTERS],
            route![Slice::SPEC, Spec::PER_DEVICE_NODE_SELECTION],
            device![Device::CONSUMES_COUNTERS],
            device![Device::NODE_NAME],
            device![Device::NODE_SELECTOR],
            device![Device::ALL_NODES],
        ],
    },
    // Binding conditions are reported in the status of claims, so they need both features.
    GatedFields { feature: "DRADeviceBindingConditions", fields: BINDING },
    GatedFields { feature: "DRAResourceClaimDeviceStatus", fields: BINDING },
    GatedFields {
        feature: "DRAConsumableCapacity",
        fields: &[
            device![Device::ALLOW_MULTIPLE_ALLOCATIONS],
            device![Device::CAPACITY, DeviceCapacity::REQUEST_POLICY],
        ],
    },
    GatedFields {
        feature: "DRANodeAllocatableResources",
        fields: &[device![Device::NODE_ALLOCATABLE_RESOURCE_MAPPINGS]],
    },
    GatedFields {
        feature: "DRAListTypeAttributes",
        fields: &[
            device![Device::ATTRIBUTES, DeviceAttribute::BOOLS],
            device![Device::ATTRIBUTES, DeviceAttribute::INTS],
            device![Device::ATTRIBUTES, DeviceAttribute::STRINGS],
            device![Device::ATTRIBUTES, DeviceAttribute::VERSIONS],
        ],
    },
];

const BINDING: &[Route<Slice>] =
    &[device![Device::BINDING_CONDITIONS], device![Device::BINDING_FAILURE_CONDITIONS], device![Device::BINDS_TO_NODE]];

impl Strategy for ResourceSlice {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        let mut slice = FieldMut::root(object);
        let Some(mut spec) = slice.structure(Slice::SPEC) else { return };
        for mut device in spec.items(Spec::DEVICES) {
            if version != "v1beta1" {
                default_multipliers(device.map(Device::NODE_ALLOCATABLE_RESOURCE_MAPPINGS));
            } else if let Some(mut basic) = device.cast().structure(v1beta1::Device::BASIC) {
                default_multipliers(basic.map(v1beta1::BasicDevice::NODE_ALLOCATABLE_RESOURCE_MAPPINGS));
            }
        }
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut slice = FieldMut::root(object);
        date_taints(&mut slice, ctx);
        start_generation(&mut slice);
        drop_disabled(ctx.features, &mut slice, None, GATED);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut slice, old) = (FieldMut::root(object), FieldRef::root(old));
        date_taints(&mut slice, ctx);
        count_generation(&mut slice, old, Slice::SPEC);
        drop_disabled(ctx.features, &mut slice, Some(old), GATED);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        slice_validation::slice(FieldRef::root(object), None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        slice_validation::slice(FieldRef::root(object), Some(FieldRef::root(old)))
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let driver = FieldRef::root(object).at(Slice::SPEC).at(Spec::DRIVER).str();
        if driver == driver.to_lowercase() {
            return Vec::new();
        }
        let driver = binnacle_meta::go_quote(driver);
        vec![format!("spec.driver: driver names should be lowercase; {driver} contains uppercase characters")]
    }
}

fn default_multipliers(mappings: Option<&mut Object>) {
    for (_, mapping) in mappings.into_iter().flat_map(Object::iter_mut) {
        FieldMut::root(mapping).default_nil(Mapping::ALLOCATION_MULTIPLIER, "1");
    }
}

fn date_taints(slice: &mut FieldMut<Slice>, ctx: &StrategyContext<'_>) {
    let Some(mut spec) = slice.structure(Slice::SPEC) else { return };
    for mut device in spec.items(Spec::DEVICES) {
        let taints = device.get_mut(Device::TAINTS).and_then(Value::as_list_mut).into_iter().flatten();
        taints.for_each(|taint| date_taint(FieldMut::root(taint), ctx.now));
    }
}
