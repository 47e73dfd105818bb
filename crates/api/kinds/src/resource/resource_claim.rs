//! ResourceClaim: requested devices, and their allocation.

use std::collections::HashSet;

use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use super::{claim_validation, requests, status_validation};
use crate::checks::{immutable_struct_as, member, spec_path};
use crate::gated_names::{Gated, drop_disabled};
use crate::prepare::{clear_status, put_back, put_back_metadata};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct ResourceClaim;

/// The gated fields of the status.
const STATUS: &[Gated] = &[
    Gated { feature: "DRAResourceClaimDeviceStatus", fields: &[&["status", "devices"]] },
    Gated {
        feature: "DRAConsumableCapacity",
        fields: &[
            &["status", "allocation", "devices", "results", "*", "shareID"],
            &["status", "allocation", "devices", "results", "*", "consumedCapacity"],
            &["status", "devices", "*", "shareID"],
        ],
    },
    Gated {
        feature: "DRADeviceBindingConditions",
        fields: &[
            &["status", "allocation", "devices", "results", "*", "bindingConditions"],
            &["status", "allocation", "devices", "results", "*", "bindingFailureConditions"],
        ],
    },
];

impl Strategy for ResourceClaim {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn set_defaults(&self, version: &str, object: &mut Value) {
        requests::set_defaults(version, object, &["spec", "devices", "requests"]);
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
        requests::drop_disabled_fields(situation.features, object, None, &["spec"]);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        requests::drop_disabled_fields(situation.features, object, Some(old), &["spec"]);
    }

    fn prepare_for_subresource(&self, _: &str, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
        drop_deallocated(object, old);
        drop_disabled(situation.features, object, Some(old), STATUS);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let devices = member(member(object, "spec"), "devices");
        claim_validation::devices(devices, &spec_path().child("devices"), &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = object.get("spec");
        immutable_struct_as(
            "io.k8s.api.resource.v1.ResourceClaimSpec",
            &spec_path(),
            spec,
            old.get("spec"),
            &mut errors,
        );
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        status_validation::status(object, old)
    }
}

const RESULTS: &[&str] = &["status", "allocation", "devices", "results"];

/// Returns the key of a device or of a share of one.
fn device(status: &Value) -> [&str; 4] {
    ["driver", "pool", "device", "shareID"].map(|field| status.str_at(&[field]))
}

/// Drops the status of deallocated devices, so that the deallocating client need not know it.
fn drop_deallocated(object: &mut Value, old: &Value) {
    let devices = |list: &[Value]| -> HashSet<[String; 4]> {
        list.iter().map(|result| device(result).map(str::to_owned)).collect()
    };
    let (kept, known) = (devices(object.list_at(RESULTS)), devices(old.list_at(RESULTS)));
    let is_gone = |status: &Value| {
        let device = device(status).map(str::to_owned);
        known.contains(&device) && !kept.contains(&device)
    };
    let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) else { return };
    let Some(devices) = status.get_mut("devices").and_then(Value::as_list_mut) else { return };
    devices.retain(|device| !is_gone(device));
    if devices.is_empty() {
        status.remove("devices");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn reports_on_deallocated_devices_are_dropped() {
        let device = |name: &'static str| value!({"driver": "d", "pool": "p", "device": name});
        let [a, b, c] = ["a", "b", "c"].map(device);
        let allocated = |results: Vec<Value>| value!({"devices": {"results": results}});
        let old_allocation = allocated(vec![a.clone(), b.clone()]);
        let new_allocation = allocated(vec![b.clone()]);
        let old = value!({"status": {"allocation": old_allocation}});
        let reports = vec![a, b.clone(), c.clone()];
        let mut new = value!({"status": {"allocation": new_allocation, "devices": reports}});
        drop_deallocated(&mut new, &old);
        assert_eq!(new.list_at(&["status", "devices"]), [b, c]);
    }
}
