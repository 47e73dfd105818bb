//! AppArmor profiles in annotations, which are copied to the fields that replaced them (KEP-24, version skew).

use binnacle_meta::FieldPath;
use binnacle_schema::{Object, Value, value};

use super::validation::containers::all;
use crate::tree_names::{is_nil, structs_mut, text};

const ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST_PREFIX: &str = "localhost/";
const PROFILE_MAX: usize = 4095;

/// Sets the profile of each container with an annotation, unless it has a profile or the pod's profile is the same.
pub(crate) fn copy_annotations(object: &mut Value) {
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

/// Returns warnings about the annotations of a pod, before they are copied to fields.
pub(crate) fn pod_warnings(object: &Value) -> Vec<String> {
    let (null, path) = (Value::Null, FieldPath::root());
    let (spec, metadata) = (object.get("spec").unwrap_or(&null), object.get("metadata").unwrap_or(&null));
    if spec.str_at(&["os", "name"]) == "windows" {
        return Vec::new();
    }
    let of_pod = pod_profile(spec);
    let containers = all(spec, &path).filter_map(|(container, _)| {
        let annotation = annotation_without_field(container, metadata)?;
        let copied = profile(annotation);
        (copied.is_none() || copied.as_ref() != of_pod).then(|| deprecated(container, &path))
    });
    containers.collect()
}

/// Returns the warning about the annotation of a pod template for one of its containers.
pub(super) fn template_warning(spec: &Value, container: &Value, metadata: &Value, path: &FieldPath) -> Option<String> {
    let annotation = annotation_without_field(container, metadata)?;
    let of_pod = pod_profile(spec);
    let same = of_pod.is_some() && of_pod == named_profile(annotation).as_ref();
    (!same).then(|| deprecated(container, path))
}

fn annotation_without_field<'a>(container: &Value, metadata: &'a Value) -> Option<&'a str> {
    let has_field = container.at(&["securityContext", "appArmorProfile"]).is_some_and(|profile| !profile.is_null());
    let annotations = metadata.object_at(&["annotations"]).filter(|_| !has_field)?;
    let name = format!("{ANNOTATION_PREFIX}{}", container.str_at(&["name"]));
    annotations.get(&name).and_then(Value::as_str)
}

fn deprecated(container: &Value, path: &FieldPath) -> String {
    let name = format!("{ANNOTATION_PREFIX}{}", container.str_at(&["name"]));
    let at = path.child("metadata").child("annotations").key(&name);
    format!("{at}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
}

fn pod_profile(spec: &Value) -> Option<&Value> {
    spec.at(&["securityContext", "appArmorProfile"]).filter(|profile| !profile.is_null())
}

fn set_profile(container: &mut Object, profile: Value) {
    let context = container.object_entry("securityContext");
    if is_nil(context, "appArmorProfile") {
        context.insert("appArmorProfile", profile);
    }
}

/// Returns the profile of an annotation; `None` if invalid.
fn profile(annotation: &str) -> Option<Value> {
    let valid = |name: &str| name.trim() == name && name.len() <= PROFILE_MAX;
    named_profile(annotation).filter(|_| annotation.strip_prefix(LOCALHOST_PREFIX).is_none_or(valid))
}

fn named_profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(value!({"type": "Unconfined"})),
        "runtime/default" => Some(value!({"type": "RuntimeDefault"})),
        _ => {
            let name = annotation.strip_prefix(LOCALHOST_PREFIX)?;
            (!name.is_empty()).then(|| value!({"type": "Localhost", "localhostProfile": name}))
        }
    }
}
