//! AppArmor profiles that annotations name: copied to the fields that replaced them (KEP-24, version skew).

use binnacle_schema::{Object, Value, value};

use crate::tree::{is_nil, structs_mut, text};

const ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST_PREFIX: &str = "localhost/";
const PROFILE_MAX: usize = 4095;

/// Sets the profile of each container that has an annotation, no profile, and not the pod's profile anyway.
pub(super) fn copy_annotations(object: &mut Value) {
    if object.str_at(&["spec", "os", "name"]) == "windows" {
        return;
    }
    let Some(annotations) = object.object_at(&["metadata", "annotations"]).cloned() else { return };
    if !annotations.keys().any(|key| key.starts_with(ANNOTATION_PREFIX)) {
        return;
    }
    let spec = object.make_at(&["spec"]);
    let of_pod = spec.get("securityContext").and_then(|context| context.get("appArmorProfile")).cloned();
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in structs_mut(spec, list) {
            let key = format!("{ANNOTATION_PREFIX}{}", text(container, "name"));
            let Some(profile) = annotations.get(&key).and_then(Value::as_str).and_then(profile) else { continue };
            if Some(&profile) != of_pod.as_ref() {
                set_profile(container, profile);
            }
        }
    }
}

fn set_profile(container: &mut Object, profile: Value) {
    let context = container.object_entry("securityContext");
    if is_nil(context, "appArmorProfile") {
        context.insert("appArmorProfile", profile);
    }
}

/// The profile that an annotation means, `None` for what would not be valid.
fn profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(value!({"type": "Unconfined"})),
        "runtime/default" => Some(value!({"type": "RuntimeDefault"})),
        _ => {
            let name = annotation.strip_prefix(LOCALHOST_PREFIX)?;
            let valid = !name.is_empty() && name.trim() == name && name.len() <= PROFILE_MAX;
            valid.then(|| value!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}
