//! `resource.k8s.io/v1beta1`, which has requests without `exactly`, devices with `basic`, and plain values in slices
//! where v1 has pointers.

use binnacle_schema::{Object, Value};

use super::{each, finish};

const GROUP: &str = "resource.k8s.io";

pub(super) fn claim_to_v1(claim: &mut Value) {
    each(claim, &["spec", "devices", "requests"], request_to_v1);
    finish(claim, GROUP, "v1", "ResourceClaim");
}

pub(super) fn claim_from_v1(claim: &mut Value) {
    each(claim, &["spec", "devices", "requests"], request_from_v1);
    finish(claim, GROUP, "v1beta1", "ResourceClaim");
}

pub(super) fn claim_template_to_v1(template: &mut Value) {
    each(template, &["spec", "spec", "devices", "requests"], request_to_v1);
    finish(template, GROUP, "v1", "ResourceClaimTemplate");
}

pub(super) fn claim_template_from_v1(template: &mut Value) {
    each(template, &["spec", "spec", "devices", "requests"], request_from_v1);
    finish(template, GROUP, "v1beta1", "ResourceClaimTemplate");
}

pub(super) fn slice_to_v1(slice: &mut Value) {
    // Zero values of v1beta1 are absent already, as v1 requires.
    each(slice, &["spec", "devices"], |device| {
        let Some(members) = device.as_object_mut() else { return };
        if let Some(Value::Object(basic)) = members.remove("basic") {
            move_members(basic, members);
        }
    });
    finish(slice, GROUP, "v1", "ResourceSlice");
}

pub(super) fn slice_from_v1(slice: &mut Value) {
    if let Some(spec) = slice.get_mut("spec").and_then(Value::as_object_mut) {
        // In v1, empty and false values are pointers; v1beta1 has none, so these become absent.
        spec.retain(|name, value| match name.as_str() {
            "nodeName" => value.as_str() != Some(""),
            "allNodes" => value.as_bool() != Some(false),
            _ => true,
        });
    }
    each(slice, &["spec", "devices"], |device| {
        let Some(members) = device.as_object_mut() else { return };
        let name = members.remove("name");
        let basic = std::mem::take(members);
        if let Some(name) = name {
            members.insert("name", name);
        }
        members.insert("basic", basic);
    });
    finish(slice, GROUP, "v1beta1", "ResourceSlice");
}

/// The fields of a request that v1 holds in `exactly`.
const EXACTLY: [&str; 7] =
    ["deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity"];

fn request_to_v1(request: &mut Value) {
    let Some(members) = request.as_object_mut() else { return };
    let mut exactly = Object::new();
    for name in EXACTLY {
        if let Some(value) = members.remove(name) {
            exactly.insert(name, value);
        }
    }
    // The class name is always written; an empty one alone counts as no request.
    let says_something =
        exactly.iter().any(|(name, value)| name != "deviceClassName" || value.as_str().is_some_and(|s| !s.is_empty()));
    if says_something {
        members.insert("exactly", exactly);
    }
}

fn request_from_v1(request: &mut Value) {
    let Some(members) = request.as_object_mut() else { return };
    if let Some(Value::Object(exactly)) = members.remove("exactly") {
        move_members(exactly, members);
    }
}

fn move_members(from: Object, to: &mut Object) {
    for (name, value) in from.iter() {
        to.insert(name.clone(), value.clone());
    }
}
