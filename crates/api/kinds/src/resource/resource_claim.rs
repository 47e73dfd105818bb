//! ResourceClaim: requested devices, and their allocation.

use std::collections::HashSet;

use binnacle_fields::resource::v1::{
    AllocatedDeviceStatus, AllocationResult, DeviceAllocationResult, DeviceRequestAllocationResult as Share,
    ResourceClaim as Claim, ResourceClaimSpec as Spec, ResourceClaimStatus as Status,
};
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use super::{claim_validation, requests, status_validation};
use crate::checks::immutable_struct;
use crate::gated::{GatedFields, drop_disabled};
use crate::prepare::keep_metadata;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct ResourceClaim;

macro_rules! share {
    ($field:ident) => {
        route![
            Claim::STATUS,
            Status::ALLOCATION,
            AllocationResult::DEVICES,
            DeviceAllocationResult::RESULTS,
            Share::$field
        ]
    };
}

/// The gated fields of the status.
const STATUS: &[GatedFields<Claim>] = &[
    GatedFields { feature: "DRAResourceClaimDeviceStatus", fields: &[route![Claim::STATUS, Status::DEVICES]] },
    GatedFields {
        feature: "DRAConsumableCapacity",
        fields: &[
            share!(SHARE_ID),
            share!(CONSUMED_CAPACITY),
            route![Claim::STATUS, Status::DEVICES, AllocatedDeviceStatus::SHARE_ID],
        ],
    },
    GatedFields {
        feature: "DRADeviceBindingConditions",
        fields: &[share!(BINDING_CONDITIONS), share!(BINDING_FAILURE_CONDITIONS)],
    },
];

impl Strategy for ResourceClaim {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_THEN_CHANGE
    }

    fn set_defaults(&self, version: &str, object: &mut Value) {
        if let Some(spec) = FieldMut::root(object).structure(Claim::SPEC) {
            requests::set_defaults(version, spec);
        }
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut claim = FieldMut::root(object);
        claim.remove(Claim::STATUS);
        if let Some(spec) = claim.structure(Claim::SPEC) {
            requests::drop_disabled_fields(ctx.features, spec, None);
        }
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut claim, old) = (FieldMut::root(object), FieldRef::root(old));
        claim.keep(old, Claim::STATUS);
        if let Some(spec) = claim.structure(Claim::SPEC) {
            requests::drop_disabled_fields(ctx.features, spec, Some(old.at(Claim::SPEC)));
        }
    }

    fn prepare_for_subresource(&self, _: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut claim, old) = (FieldMut::root(object), FieldRef::root(old));
        claim.keep(old, Claim::SPEC);
        keep_metadata(&mut claim, old);
        drop_deallocated(&mut claim, old);
        drop_disabled(ctx.features, &mut claim, Some(old), STATUS);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let claim = FieldRef::root(object);
        let spec = claim.at(Claim::SPEC);
        claim_validation::devices(spec.at(Spec::DEVICES), &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        immutable_struct(new.at(Claim::SPEC), old.at(Claim::SPEC), &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        status_validation::status(FieldRef::root(object), FieldRef::root(old))
    }
}

/// Returns the key of a device or of a share of one. The status of a device has the same fields.
fn key<'v>(device: FieldRef<'_, 'v, Share>) -> [&'v str; 4] {
    [Share::DRIVER, Share::POOL, Share::DEVICE, Share::SHARE_ID].map(|field| device.at(field).str())
}

fn allocated<'v>(claim: FieldRef<'_, 'v, Claim>) -> HashSet<[&'v str; 4]> {
    let status = claim.at(Claim::STATUS);
    let allocation = status.at(Status::ALLOCATION);
    allocation.at(AllocationResult::DEVICES).at(DeviceAllocationResult::RESULTS).items().map(key).collect()
}

/// Drops the status of deallocated devices, so that the client that deallocates them does not have to remove it.
fn drop_deallocated(claim: &mut FieldMut<Claim>, old: FieldRef<Claim>) {
    let mut deallocated = allocated(old);
    let remaining = allocated(claim.read());
    deallocated.retain(|device| !remaining.contains(device));
    let Some(mut status) = claim.structure(Claim::STATUS) else { return };
    let Some(devices) = status.get_mut(Status::DEVICES).and_then(Value::as_list_mut) else { return };
    devices.retain(|device| !deallocated.contains(&key(FieldRef::root(device))));
    if devices.is_empty() {
        status.remove(Status::DEVICES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn drops_status_of_deallocated_devices() {
        let device = |name: &'static str| value!({"driver": "d", "pool": "p", "device": name});
        let [a, b, c] = ["a", "b", "c"].map(device);
        let allocated = |results: Vec<Value>| value!({"devices": {"results": results}});
        let old_allocation = allocated(vec![a.clone(), b.clone()]);
        let new_allocation = allocated(vec![b.clone()]);
        let old = value!({"status": {"allocation": old_allocation}});
        let reports = vec![a, b.clone(), c.clone()];
        let mut new = value!({"status": {"allocation": new_allocation, "devices": reports}});
        drop_deallocated(&mut FieldMut::root(&mut new), FieldRef::root(&old));
        assert_eq!(new.list_at(&["status", "devices"]), [b, c]);
    }
}
