//! The usage of ResourceClaims: their number, and the number of devices of each class that they request.

use std::collections::BTreeMap;

use binnacle_fields::FieldRef;
use binnacle_fields::resource::v1::{DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec};
use binnacle_schema::Value;

use super::counts::count_of;
use super::evaluator::{Evaluator, number};
use crate::plugin::Request;
use crate::plugins::pod_resources::{Resources, add};

pub(super) struct DeviceClaims;

const BY_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// The maximum number of devices of an allocation; a request for all devices counts as that many.
const MAX_DEVICES: usize = 32;

impl Evaluator for DeviceClaims {
    fn handles(&self, request: Request<'_>, _: &Value) -> bool {
        request.attributes.subresource.is_empty()
    }

    fn counts(&self, name: &str) -> bool {
        name.ends_with(BY_CLASS) || name == count()
    }

    fn usage(&self, claim: &Value) -> Resources {
        let mut usage = Resources::from([(count(), number(1))]);
        let claim = FieldRef::<ResourceClaim>::root(claim);
        let devices_of_claim = claim.at(ResourceClaim::SPEC).at(ResourceClaimSpec::DEVICES).detached();
        for request in devices_of_claim.at(DeviceClaim::REQUESTS).values() {
            // An alternative has the fields of an exact request that are read here.
            let alternatives = request.at(DeviceRequest::FIRST_AVAILABLE).values().map(|each| each.cast());
            let exactly = request.at(DeviceRequest::EXACTLY).set();
            // Only one of the alternatives is allocated, so the maximum of each class is charged.
            let mut max_devices: BTreeMap<&str, usize> = BTreeMap::new();
            let exactly = exactly.filter(|_| alternatives.len() == 0);
            for exact in alternatives.chain(exactly) {
                let devices = devices(exact);
                let max_of_class =
                    max_devices.entry(exact.at(ExactDeviceRequest::DEVICE_CLASS_NAME).str()).or_default();
                *max_of_class = (*max_of_class).max(devices);
            }
            let max_devices =
                max_devices.into_iter().map(|(class, devices)| (format!("{class}{BY_CLASS}"), number(devices)));
            add(&mut usage, &max_devices.collect());
        }
        usage
    }
}

fn count() -> String {
    count_of("resource.k8s.io", "resourceclaims")
}

fn devices(request: FieldRef<ExactDeviceRequest>) -> usize {
    match request.at(ExactDeviceRequest::ALLOCATION_MODE).str() {
        "ExactCount" => usize::try_from(request.at(ExactDeviceRequest::COUNT).int_or_zero()).unwrap_or(0),
        "All" => MAX_DEVICES,
        _ => 0,
    }
}
