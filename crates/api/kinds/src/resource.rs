//! `resource.k8s.io`: devices, and the claims through which pods get them.

mod capacity_validation;
mod claim_validation;
mod device_class;
mod device_taint_rule;
mod names;
mod requests;
mod resource_claim;
mod resource_claim_template;
mod resource_pool_status_request;
mod resource_slice;
mod slice_validation;
mod status_validation;

use binnacle_fields::core::v1::NodeSelector;
use binnacle_fields::resource::v1::DeviceTaint;
use binnacle_fields::types::Str;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldErrors, Time};

use crate::Entry;
use crate::pod_spec::validation::scheduling;
use crate::storage;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("DeviceClass", &device_class::DeviceClass),
    ("DeviceTaintRule", &device_taint_rule::DeviceTaintRule),
    ("ResourceClaim", &resource_claim::ResourceClaim),
    ("ResourceClaimTemplate", &resource_claim_template::ResourceClaimTemplate),
    ("ResourcePoolStatusRequest", &resource_pool_status_request::ResourcePoolStatusRequest),
    ("ResourceSlice", &resource_slice::ResourceSlice),
];

/// Sets the time of a new taint. This is a default, but it needs the current time and so belongs to preparation.
fn date_taint(mut taint: FieldMut<DeviceTaint>, now: i64) {
    taint.default_nil(DeviceTaint::TIME_ADDED, Time::from_unix(now, 0).to_string());
}

/// Validates the name of a driver, which may be in any case.
fn driver_name(driver: FieldRef<Str>, errors: &mut FieldErrors) {
    storage::driver_name(driver.str(), &driver, errors);
}

/// Validates a selector of the nodes that have the devices.
fn node_selector(selector: FieldRef<NodeSelector>, errors: &mut FieldErrors) {
    scheduling::node_selector(selector, false, errors);
}
