//! Requests for devices in claims and claim templates.

use binnacle_fields::resource::v1::{
    DeviceClaim, DeviceConstraint, DeviceRequest, DeviceSubRequest, ExactDeviceRequest, ResourceClaimSpec as Spec,
};
use binnacle_fields::resource::v1beta1;
use binnacle_fields::{FieldMut, FieldRef, route};

use crate::Features;
use crate::gated::{GatedFields, drop_disabled};

/// Sets the defaults of the requests of a claim; `version` is the object's version.
pub(super) fn set_defaults(version: &str, mut spec: FieldMut<Spec>) {
    let Some(mut claim) = spec.structure(Spec::DEVICES) else { return };
    for mut request in claim.items(DeviceClaim::REQUESTS) {
        if version == "v1beta1" {
            // A request without a class has alternatives and no mode of its own.
            let flat = request.reborrow().cast::<v1beta1::DeviceRequest>();
            if !flat.str(v1beta1::DeviceRequest::DEVICE_CLASS_NAME).is_empty() {
                count_devices(flat.cast());
            }
        } else if let Some(exactly) = request.structure(DeviceRequest::EXACTLY) {
            count_devices(exactly);
        }
        request.items(DeviceRequest::FIRST_AVAILABLE).for_each(|alternative| count_devices(alternative.cast()));
    }
}

/// The gated fields of a claim's spec.
const GATED: &[GatedFields<Spec>] = &[
    GatedFields {
        feature: "DRAPrioritizedList",
        fields: &[route![Spec::DEVICES, DeviceClaim::REQUESTS, DeviceRequest::FIRST_AVAILABLE]],
    },
    GatedFields {
        feature: "DRADeviceTaints",
        fields: &[
            route![Spec::DEVICES, DeviceClaim::REQUESTS, DeviceRequest::EXACTLY, ExactDeviceRequest::TOLERATIONS],
            route![Spec::DEVICES, DeviceClaim::REQUESTS, DeviceRequest::FIRST_AVAILABLE, DeviceSubRequest::TOLERATIONS],
        ],
    },
    GatedFields {
        feature: "DRAConsumableCapacity",
        fields: &[
            route![Spec::DEVICES, DeviceClaim::CONSTRAINTS, DeviceConstraint::DISTINCT_ATTRIBUTE],
            route![Spec::DEVICES, DeviceClaim::REQUESTS, DeviceRequest::EXACTLY, ExactDeviceRequest::CAPACITY],
            route![Spec::DEVICES, DeviceClaim::REQUESTS, DeviceRequest::FIRST_AVAILABLE, DeviceSubRequest::CAPACITY],
        ],
    },
];

/// Drops disabled fields from a claim's spec.
pub(super) fn drop_disabled_fields(features: &Features, mut spec: FieldMut<Spec>, old: Option<FieldRef<Spec>>) {
    drop_disabled(features, &mut spec, old, GATED);
}

/// Sets the default count of devices: one. Alternatives and requests of `v1beta1` have the same fields as exact ones.
fn count_devices(mut request: FieldMut<ExactDeviceRequest>) {
    request.default_zero(ExactDeviceRequest::ALLOCATION_MODE, "ExactCount");
    if request.str(ExactDeviceRequest::ALLOCATION_MODE) == "ExactCount" {
        request.default_zero(ExactDeviceRequest::COUNT, 1i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn sets_defaults_of_device_requests() {
        for (version, request, want) in [
            (
                "v1",
                value!({"exactly": {"deviceClassName": "c"}}),
                value!({"exactly": {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1i64}}),
            ),
            ("v1", value!({"exactly": {"allocationMode": "All"}}), value!({"exactly": {"allocationMode": "All"}})),
            (
                "v1",
                value!({"firstAvailable": [{"count": 3i64}]}),
                value!({"firstAvailable": [{"count": 3i64, "allocationMode": "ExactCount"}]}),
            ),
            ("v1beta1", value!({"deviceClassName": ""}), value!({"deviceClassName": ""})),
            (
                "v1beta1",
                value!({"deviceClassName": "c"}),
                value!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1i64}),
            ),
        ] {
            let mut spec = value!({"devices": {"requests": [request]}});
            set_defaults(version, FieldMut::root(&mut spec));
            assert_eq!(spec, value!({"devices": {"requests": [want]}}));
        }
    }
}
