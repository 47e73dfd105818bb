//! `resource.k8s.io`: devices, and the claims by which pods get them.

mod device_class;
mod device_taint_rule;
mod requests;
mod resource_claim;
mod resource_claim_template;
mod resource_pool_status_request;
mod resource_slice;

use binnacle_meta::Time;
use binnacle_schema::Object;

use crate::all::Entry;
use crate::prepare::default_to;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("DeviceClass", &device_class::DeviceClass),
    ("DeviceTaintRule", &device_taint_rule::DeviceTaintRule),
    ("ResourceClaim", &resource_claim::ResourceClaim),
    ("ResourceClaimTemplate", &resource_claim_template::ResourceClaimTemplate),
    ("ResourcePoolStatusRequest", &resource_pool_status_request::ResourcePoolStatusRequest),
    ("ResourceSlice", &resource_slice::ResourceSlice),
];

/// Taints begin when they are first seen. A default by its nature, set while preparing since it asks for the time.
fn date_taint(taint: &mut Object, now: i64) {
    default_to(taint, "timeAdded", Time::from_unix(now, 0).to_string());
}
