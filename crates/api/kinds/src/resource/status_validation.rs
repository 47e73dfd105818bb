//! Validation of the status of a claim: the allocation, the consumers, and the drivers' device statuses.

use std::collections::HashSet;

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value, json};
use binnacle_validation::{checks, conditions, ip};

use super::claim_validation::{CONFIG_MAX, configuration, free_form};
use super::names::{binding_conditions, bounded, duplicates, pool_name, request_reference, request_references, uid};
use crate::checks::{immutable_struct_as, member, one_of, present};
use crate::storage::driver_name;

const CONSUMERS_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONDITIONS_MAX: usize = 8;
const DATA_MAX: usize = 10 * 1024;
const INTERFACE_MAX: usize = 256;
const HARDWARE_MAX: usize = 128;
const ADDRESSES_MAX: usize = 16;

/// Validates a change of the status.
pub(super) fn status(claim: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (status, old_status) = (member(claim, "status"), member(old, "status"));
    let path = FieldPath::new("status");
    let consumers = bounded(status, "reservedFor", CONSUMERS_MAX, &path, &mut errors);
    for (at, consumer) in errors.while_room(&consumers) {
        for name in ["resource", "name", "uid"] {
            checks::required(&at.child(name), consumer.str_at(&[name]), &mut errors);
        }
    }
    duplicates(&consumers, |consumer| consumer.str_at(&["uid"]).to_owned(), &mut errors);
    device_statuses(status, &path, &mut errors);
    let (allocation, old_allocation) = (present(status, "allocation"), present(old_status, "allocation"));
    let at = path.child("reservedFor");
    if !status.list_at(&["reservedFor"]).is_empty() {
        let deleted = present(member(claim, "metadata"), "deletionTimestamp").is_some();
        let known = old_status.list_at(&["reservedFor"]);
        if allocation.is_none() {
            errors.push(FieldError::forbidden(&at, "may not be specified when `allocated` is not set"));
        } else if deleted && status.list_at(&["reservedFor"]).iter().any(|consumer| !known.contains(consumer)) {
            let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(FieldError::forbidden(&at, detail));
        }
    }
    let at = path.child("allocation");
    match (allocation, old_allocation) {
        (Some(_), Some(_)) => {
            immutable_struct_as(
                "io.k8s.api.resource.v1.AllocationResult",
                &at,
                allocation,
                old_allocation,
                &mut errors,
            );
        }
        (Some(allocation), None) => {
            let claim = member(member(claim, "spec"), "devices");
            validate_allocation(allocation, claim, &at, &mut errors);
        }
        (None, _) => {}
    }
    errors
}

fn validate_allocation(allocation: &Value, claim: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (devices, at) = (member(allocation, "devices"), path.child("devices"));
    for (at, result) in bounded(devices, "results", RESULTS_MAX, &at, errors) {
        request_reference(result.str_at(&["request"]), claim, &at.child("request"), errors);
        driver_name(result.str_at(&["driver"]), &at.child("driver"), errors);
        pool_name(&at.child("pool"), result.str_at(&["pool"]), errors);
        checks::label(&at.child("device"), result.str_at(&["device"]), errors);
        binding_conditions(result, &at, errors);
        if let Some(share) = present(result, "shareID").and_then(Value::as_str) {
            uid(&at.child("shareID"), share, errors);
        }
    }
    // The configuration of the claim and of its class.
    for (at, config) in bounded(devices, "config", 2 * CONFIG_MAX, &at, errors) {
        let (source, source_path) = (config.str_at(&["source"]), at.child("source"));
        if source.is_empty() {
            errors.push(FieldError::required(&source_path, ""));
        } else {
            one_of(&source_path, source, &["FromClaim", "FromClass"], errors);
        }
        request_references(config, claim, &at, errors);
        configuration(config, false, &at, errors);
    }
    if let Some(selector) = present(allocation, "nodeSelector") {
        super::node_selector(selector, &path.child("nodeSelector"), errors);
    }
}

/// Returns the key of a device or of a share of one, as messages show it.
fn device(status: &Value) -> String {
    const MEMBERS: [(&str, &str); 4] =
        [("Driver", "driver"), ("Pool", "pool"), ("Device", "device"), ("ShareID", "shareID")];
    let id: Object = MEMBERS.iter().map(|(shown, name)| (*shown, Value::from(status.str_at(&[name])))).collect();
    json::to_string(&id.into())
}

fn device_statuses(status: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let allocated: HashSet<String> = status.list_at(&["allocation", "devices", "results"]).iter().map(device).collect();
    let statuses = bounded(status, "devices", usize::MAX, path, errors);
    for (at, status) in errors.while_room(&statuses) {
        driver_name(status.str_at(&["driver"]), &at.child("driver"), errors);
        pool_name(&at.child("pool"), status.str_at(&["pool"]), errors);
        checks::label(&at.child("device"), status.str_at(&["device"]), errors);
        if let Some(share) = present(status, "shareID").and_then(Value::as_str) {
            uid(&at.child("shareID"), share, errors);
        }
        if !allocated.contains(&device(status)) {
            errors.push(FieldError::invalid(
                at,
                ErrorValue::raw(device(status)),
                "must be an allocated device in the claim",
            ));
        }
        let list = status.list_at(&["conditions"]);
        if list.len() > CONDITIONS_MAX {
            errors.push(FieldError::too_many(&at.child("conditions"), list.len(), CONDITIONS_MAX));
        }
        conditions::conditions(list, &at.child("conditions"), errors);
        if let Some(data) = present(status, "data") {
            free_form(Some(data), DATA_MAX, &at.child("data"), errors);
        }
        network_data(member(status, "networkData"), &at.child("networkData"), errors);
    }
    let mut seen = HashSet::new();
    for (at, status) in errors.while_room(statuses.iter().filter(|(_, status)| !seen.insert(device(status)))) {
        errors.push(FieldError::duplicate(at, ErrorValue::raw(device(status))));
    }
}

fn network_data(data: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (name, max) in [("interfaceName", INTERFACE_MAX), ("hardwareAddress", HARDWARE_MAX)] {
        if data.str_at(&[name]).len() > max {
            errors.push(FieldError::too_long(&path.child(name), max));
        }
    }
    let addresses = bounded(data, "ips", ADDRESSES_MAX, path, errors);
    for (at, address) in errors.while_room(&addresses) {
        ip::valid_interface_address(at, address.as_str().unwrap_or_default(), errors);
    }
    duplicates(&addresses, |address| address.as_str().unwrap_or_default().to_owned(), errors);
}
