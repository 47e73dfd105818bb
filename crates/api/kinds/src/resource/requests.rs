//! Requests for devices in claims and claim templates.

use binnacle_schema::{Object, Value};

use crate::Features;
use crate::gated_names::{Gated, drop_disabled};
use crate::prepare::{default_zero_to, objects_at};

/// Sets the defaults of the requests in the list at `path`; `version` is the object's version.
pub(super) fn set_defaults(version: &str, object: &mut Value, path: &[&str]) {
    for request in objects_at(object, path) {
        if version == "v1beta1" {
            // A request without a class has alternatives and no mode of its own.
            if request.get("deviceClassName").and_then(Value::as_str).is_some_and(|class| !class.is_empty()) {
                count_devices(request);
            }
        } else if let Some(exactly) = request.get_mut("exactly").and_then(Value::as_object_mut) {
            count_devices(exactly);
        }
        let alternatives = request.get_mut("firstAvailable").and_then(Value::as_list_mut);
        alternatives.into_iter().flatten().filter_map(Value::as_object_mut).for_each(count_devices);
    }
}

/// The gated fields of a claim's spec.
const GATED: &[Gated] = &[
    Gated { feature: "DRAPrioritizedList", fields: &[&["devices", "requests", "*", "firstAvailable"]] },
    Gated {
        feature: "DRADeviceTaints",
        fields: &[
            &["devices", "requests", "*", "exactly", "tolerations"],
            &["devices", "requests", "*", "firstAvailable", "*", "tolerations"],
        ],
    },
    Gated {
        feature: "DRAConsumableCapacity",
        fields: &[
            &["devices", "constraints", "*", "distinctAttribute"],
            &["devices", "requests", "*", "exactly", "capacity"],
            &["devices", "requests", "*", "firstAvailable", "*", "capacity"],
        ],
    },
];

/// Drops disabled fields from the claim's spec at a path.
pub(super) fn drop_disabled_fields(features: &Features, object: &mut Value, old: Option<&Value>, path: &[&str]) {
    if let Some(spec) = object.at_mut(path) {
        drop_disabled(features, spec, old.and_then(|old| old.at(path)), GATED);
    }
}

/// Sets the default count of devices: one.
fn count_devices(request: &mut Object) {
    default_zero_to(request, "allocationMode", "ExactCount");
    if request.get("allocationMode").and_then(Value::as_str) == Some("ExactCount") {
        default_zero_to(request, "count", 1i64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn defaults() {
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
            let mut claim = value!({"requests": [request]});
            set_defaults(version, &mut claim, &["requests"]);
            assert_eq!(claim, value!({"requests": [want]}));
        }
    }
}
