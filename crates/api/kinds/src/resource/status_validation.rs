//! Validation of the status of a claim: the allocation, the consumers, and the drivers' device statuses.

use std::collections::HashSet;

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::resource::v1::{
    AllocatedDeviceStatus, AllocationResult, DeviceAllocationConfiguration as Config, DeviceAllocationResult,
    DeviceClaim, DeviceRequestAllocationResult as Share, NetworkDeviceData, ResourceClaim,
    ResourceClaimConsumerReference as Consumer, ResourceClaimSpec, ResourceClaimStatus as Status,
};
use binnacle_fields::types::List;
use binnacle_meta::{ErrorValue, FieldError, FieldErrors};
use binnacle_schema::{Object, Value, json};
use binnacle_validation::{checks, conditions, ip};

use super::claim_validation::{CONFIG_MAX, configuration, free_form};
use super::names::{binding_conditions, bounded, duplicates, pool_name, request_reference, request_references, uid};
use super::{driver_name, node_selector};
use crate::checks::immutable_pointer;

const CONSUMERS_MAX: usize = 256;
const RESULTS_MAX: usize = 32;
const CONDITIONS_MAX: usize = 8;
const DATA_MAX: usize = 10 * 1024;
const INTERFACE_MAX: usize = 256;
const HARDWARE_MAX: usize = 128;
const ADDRESSES_MAX: usize = 16;

/// Validates a change of the status.
pub(super) fn status(claim: FieldRef<ResourceClaim>, old: FieldRef<ResourceClaim>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (status, old_status) = (claim.at(ResourceClaim::STATUS), old.at(ResourceClaim::STATUS));
    let consumers = status.at(Status::RESERVED_FOR);
    consumer_rules(consumers, &mut errors);
    device_statuses(status, &mut errors);
    let (allocation, old_allocation) = (status.at(Status::ALLOCATION), old_status.at(Status::ALLOCATION));
    if !consumers.is_empty() {
        let is_deleted = claim.at(ResourceClaim::METADATA).at(ObjectMeta::DELETION_TIMESTAMP).is_set();
        let known = old_status.at(Status::RESERVED_FOR).list();
        if !allocation.is_set() {
            errors.push(consumers.forbidden("may not be specified when `allocated` is not set"));
        } else if is_deleted && consumers.list().iter().any(|consumer| !known.contains(consumer)) {
            let detail = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set";
            errors.push(consumers.forbidden(detail));
        }
    }
    if allocation.is_set() && old_allocation.is_set() {
        immutable_pointer(allocation, old_allocation, &mut errors);
    } else if allocation.is_set() {
        let spec = claim.at(ResourceClaim::SPEC);
        validate_allocation(allocation, spec.at(ResourceClaimSpec::DEVICES), &mut errors);
    }
    errors
}

fn consumer_rules(consumers: FieldRef<List<Consumer>>, errors: &mut FieldErrors) {
    let consumers = bounded(consumers, CONSUMERS_MAX, errors);
    for consumer in errors.while_room(consumers.items()) {
        for field in [Consumer::RESOURCE, Consumer::NAME, Consumer::UID] {
            let field = consumer.at(field);
            checks::required(&field, field.str(), errors);
        }
    }
    duplicates(consumers, |consumer| consumer.at(Consumer::UID).str(), errors);
}

fn validate_allocation(allocation: FieldRef<AllocationResult>, claim: FieldRef<DeviceClaim>, errors: &mut FieldErrors) {
    let devices = allocation.at(AllocationResult::DEVICES);
    for result in bounded(devices.at(DeviceAllocationResult::RESULTS), RESULTS_MAX, errors).items() {
        request_reference(result.at(Share::REQUEST), claim, errors);
        device_rules(result, errors);
        let (conditions, failures) =
            (result.at(Share::BINDING_CONDITIONS), result.at(Share::BINDING_FAILURE_CONDITIONS));
        binding_conditions(conditions, failures, errors);
        share_id(result, errors);
    }
    // The configuration of the claim and of its class.
    for config in bounded(devices.at(DeviceAllocationResult::CONFIG), 2 * CONFIG_MAX, errors).items() {
        let source = config.at(Config::SOURCE);
        checks::required_one_of(&source, source.str(), &["FromClaim", "FromClass"], errors);
        request_references(config.at(Config::REQUESTS), claim, errors);
        configuration(config.at(Config::OPAQUE), false, errors);
    }
    if let Some(selector) = allocation.at(AllocationResult::NODE_SELECTOR).set() {
        node_selector(selector, errors);
    }
}

fn device_rules(device: FieldRef<Share>, errors: &mut FieldErrors) {
    driver_name(device.at(Share::DRIVER), errors);
    pool_name(device.at(Share::POOL), errors);
    let name = device.at(Share::DEVICE);
    checks::label(&name, name.str(), errors);
}

fn share_id(device: FieldRef<Share>, errors: &mut FieldErrors) {
    if let Some(share) = device.at(Share::SHARE_ID).set() {
        uid(share, errors);
    }
}

/// Returns the key of a device or of a share of one, as messages show it.
fn key(device: FieldRef<Share>) -> String {
    let members =
        [("Driver", Share::DRIVER), ("Pool", Share::POOL), ("Device", Share::DEVICE), ("ShareID", Share::SHARE_ID)];
    let key: Object = members.iter().map(|(shown, field)| (*shown, Value::from(device.at(*field).str()))).collect();
    json::to_string(&key.into())
}

fn device_statuses(status: FieldRef<Status>, errors: &mut FieldErrors) {
    let allocation = status.at(Status::ALLOCATION);
    let devices = allocation.at(AllocationResult::DEVICES);
    let allocated: HashSet<String> = devices.at(DeviceAllocationResult::RESULTS).items().map(key).collect();
    let statuses = status.at(Status::DEVICES);
    for status in errors.while_room(statuses.items()) {
        // The status of a device has the fields that name it in the allocation.
        let device = status.cast::<Share>();
        device_rules(device, errors);
        share_id(device, errors);
        if !allocated.contains(&key(device)) {
            errors.push(status.invalid_as(ErrorValue::raw(key(device)), "must be an allocated device in the claim"));
        }
        let conditions = status.at(AllocatedDeviceStatus::CONDITIONS);
        if conditions.len() > CONDITIONS_MAX {
            errors.push(conditions.too_many(CONDITIONS_MAX));
        }
        conditions::validate(conditions.items(), errors);
        if let Some(data) = status.at(AllocatedDeviceStatus::DATA).set() {
            free_form(data, DATA_MAX, errors);
        }
        network_data(status.at(AllocatedDeviceStatus::NETWORK_DATA), errors);
    }
    let mut seen = HashSet::new();
    for status in errors.while_room(statuses.items().filter(|status| !seen.insert(key(status.cast())))) {
        errors.push(FieldError::duplicate(&status, ErrorValue::raw(key(status.cast()))));
    }
}

fn network_data(data: FieldRef<NetworkDeviceData>, errors: &mut FieldErrors) {
    let limits =
        [(NetworkDeviceData::INTERFACE_NAME, INTERFACE_MAX), (NetworkDeviceData::HARDWARE_ADDRESS, HARDWARE_MAX)];
    for (field, max) in limits {
        let field = data.at(field);
        if field.str().len() > max {
            errors.push(field.too_long(max));
        }
    }
    let addresses = bounded(data.at(NetworkDeviceData::IPS), ADDRESSES_MAX, errors);
    for address in errors.while_room(addresses.items()) {
        ip::valid_interface_address(&address, address.str(), errors);
    }
    duplicates(addresses, |address| address.str(), errors);
}
