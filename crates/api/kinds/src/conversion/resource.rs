//! `resource.k8s.io/v1beta1`, which has requests without `exactly`, devices with `basic`, and plain values in slices
//! where v1 has pointers.

use binnacle_fields::FieldMut;
use binnacle_fields::resource::{v1, v1beta1};
use binnacle_schema::{Object, Value};

use super::finish;

const GROUP: &str = "resource.k8s.io";

pub(super) fn claim_to_v1(object: &mut Value) {
    let mut claim = FieldMut::root(object);
    if let Some(spec) = claim.structure(v1beta1::ResourceClaim::SPEC) {
        requests_to_v1(spec);
    }
    finish(object, GROUP, "v1", "ResourceClaim");
}

pub(super) fn claim_from_v1(object: &mut Value) {
    let mut claim = FieldMut::root(object);
    if let Some(spec) = claim.structure(v1::ResourceClaim::SPEC) {
        requests_from_v1(spec);
    }
    finish(object, GROUP, "v1beta1", "ResourceClaim");
}

pub(super) fn claim_template_to_v1(object: &mut Value) {
    let mut template = FieldMut::root(object);
    if let Some(mut outer) = template.structure(v1beta1::ResourceClaimTemplate::SPEC)
        && let Some(spec) = outer.structure(v1beta1::ResourceClaimTemplateSpec::SPEC)
    {
        requests_to_v1(spec);
    }
    finish(object, GROUP, "v1", "ResourceClaimTemplate");
}

pub(super) fn claim_template_from_v1(object: &mut Value) {
    let mut template = FieldMut::root(object);
    if let Some(mut outer) = template.structure(v1::ResourceClaimTemplate::SPEC)
        && let Some(spec) = outer.structure(v1::ResourceClaimTemplateSpec::SPEC)
    {
        requests_from_v1(spec);
    }
    finish(object, GROUP, "v1beta1", "ResourceClaimTemplate");
}

pub(super) fn slice_to_v1(object: &mut Value) {
    let mut slice = FieldMut::root(object);
    // Zero values of v1beta1 are absent already, as v1 requires.
    if let Some(mut spec) = slice.structure(v1beta1::ResourceSlice::SPEC) {
        for mut device in spec.items(v1beta1::ResourceSliceSpec::DEVICES) {
            if let Some(Value::Object(basic)) = device.remove(v1beta1::Device::BASIC) {
                move_members(basic, device.object());
            }
        }
    }
    finish(object, GROUP, "v1", "ResourceSlice");
}

pub(super) fn slice_from_v1(object: &mut Value) {
    let mut slice = FieldMut::root(object);
    if let Some(mut spec) = slice.structure(v1::ResourceSlice::SPEC) {
        // In v1, empty and false values are pointers; v1beta1 has none, so these become absent.
        if spec.str(v1::ResourceSliceSpec::NODE_NAME).is_empty() {
            spec.remove(v1::ResourceSliceSpec::NODE_NAME);
        }
        if !spec.read().at(v1::ResourceSliceSpec::ALL_NODES).bool() {
            spec.remove(v1::ResourceSliceSpec::ALL_NODES);
        }
        for mut device in spec.items(v1::ResourceSliceSpec::DEVICES) {
            let name = device.remove(v1::Device::NAME);
            let basic = std::mem::take(device.object());
            if let Some(name) = name {
                device.set(v1::Device::NAME, name);
            }
            device.reborrow().cast().set(v1beta1::Device::BASIC, Value::Object(basic));
        }
    }
    finish(object, GROUP, "v1beta1", "ResourceSlice");
}

/// The fields of a request that v1 holds in `exactly`, by the same names.
const EXACTLY: [&str; 7] = [
    v1::ExactDeviceRequest::DEVICE_CLASS_NAME.name(),
    v1::ExactDeviceRequest::SELECTORS.name(),
    v1::ExactDeviceRequest::ALLOCATION_MODE.name(),
    v1::ExactDeviceRequest::COUNT.name(),
    v1::ExactDeviceRequest::ADMIN_ACCESS.name(),
    v1::ExactDeviceRequest::TOLERATIONS.name(),
    v1::ExactDeviceRequest::CAPACITY.name(),
];

fn requests_to_v1(mut spec: FieldMut<v1beta1::ResourceClaimSpec>) {
    let Some(mut devices) = spec.structure(v1beta1::ResourceClaimSpec::DEVICES) else { return };
    for mut request in devices.items(v1beta1::DeviceClaim::REQUESTS) {
        let mut exactly = Object::new();
        for name in EXACTLY {
            if let Some(value) = request.object().remove(name) {
                exactly.insert(name, value);
            }
        }
        // The class name is always written; an empty one alone counts as no request.
        let class = v1::ExactDeviceRequest::DEVICE_CLASS_NAME.name();
        let says_something =
            exactly.iter().any(|(name, value)| name != class || value.as_str().is_some_and(|s| !s.is_empty()));
        if says_something {
            request.reborrow().cast().set(v1::DeviceRequest::EXACTLY, Value::Object(exactly));
        }
    }
}

fn requests_from_v1(mut spec: FieldMut<v1::ResourceClaimSpec>) {
    let Some(mut devices) = spec.structure(v1::ResourceClaimSpec::DEVICES) else { return };
    for mut request in devices.items(v1::DeviceClaim::REQUESTS) {
        if let Some(Value::Object(exactly)) = request.remove(v1::DeviceRequest::EXACTLY) {
            move_members(exactly, request.object());
        }
    }
}

fn move_members(from: Object, to: &mut Object) {
    for (name, value) in from.iter() {
        to.insert(name.clone(), value.clone());
    }
}
