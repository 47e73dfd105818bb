//! AppArmor profiles in annotations, which are copied to the fields that replaced them (KEP-24, version skew).

use binnacle_fields::core::v1::{
    Container, Pod, PodSecurityContext as PodContext, PodSpec, SecurityContext as Context,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_schema::{Value, value};

use super::containers::{all_containers, for_each_container};
use super::validation::is_windows;

const ANNOTATION_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST_PREFIX: &str = "localhost/";
const PROFILE_MAX: usize = 4095;

/// Sets the profile of each container with an annotation, unless it has a profile or the pod's profile is the same.
pub(crate) fn copy_annotations(object: &mut Value) {
    let mut pod = FieldMut::<Pod>::root(object);
    let given = pod.read();
    if is_windows(given.at(Pod::SPEC)) {
        return;
    }
    let Some(annotations) = given.at(Pod::METADATA).at(ObjectMeta::ANNOTATIONS).object().cloned() else { return };
    if !annotations.keys().any(|key| key.starts_with(ANNOTATION_PREFIX)) {
        return;
    }
    let of_pod = pod_profile(given.at(Pod::SPEC)).cloned();
    for_each_container(&mut pod.entry(Pod::SPEC), |mut container| {
        let key = format!("{ANNOTATION_PREFIX}{}", container.str(Container::NAME));
        let Some(profile) = annotations.get(&key).and_then(Value::as_str).and_then(profile) else { return };
        if Some(&profile) != of_pod.as_ref() {
            container.entry(Container::SECURITY_CONTEXT).default_nil(Context::APP_ARMOR_PROFILE, profile);
        }
    });
}

/// Returns warnings about the annotations of a pod, before they are copied to fields.
pub(crate) fn pod_warnings(object: &Value) -> Vec<String> {
    let pod = FieldRef::<Pod>::root(object);
    let (spec, metadata) = (pod.at(Pod::SPEC), pod.at(Pod::METADATA));
    if is_windows(spec) {
        return Vec::new();
    }
    let of_pod = pod_profile(spec);
    let containers = all_containers(&spec);
    let warnings = containers.iter().filter_map(|container| {
        let copied = profile(annotation_without_field(container, metadata)?);
        (copied.is_none() || copied.as_ref() != of_pod).then(|| deprecated(container, metadata))
    });
    warnings.collect()
}

/// Returns the warning about the annotation of a pod template for one of its containers.
pub(super) fn template_warning(
    spec: FieldRef<PodSpec>,
    container: FieldRef<Container>,
    metadata: FieldRef<ObjectMeta>,
) -> Option<String> {
    let annotation = annotation_without_field(container, metadata)?;
    let of_pod = pod_profile(spec);
    let same = of_pod.is_some() && of_pod == named_profile(annotation).as_ref();
    (!same).then(|| deprecated(container, metadata))
}

fn annotation_without_field<'v>(
    container: FieldRef<Container>,
    metadata: FieldRef<'_, 'v, ObjectMeta>,
) -> Option<&'v str> {
    if container.at(Container::SECURITY_CONTEXT).at(Context::APP_ARMOR_PROFILE).is_set() {
        return None;
    }
    metadata.at(ObjectMeta::ANNOTATIONS).key(&annotation_name(container)).get_str()
}

fn annotation_name(container: FieldRef<Container>) -> String {
    format!("{ANNOTATION_PREFIX}{}", container.at(Container::NAME).str())
}

fn deprecated(container: FieldRef<Container>, metadata: FieldRef<ObjectMeta>) -> String {
    let at = metadata.at(ObjectMeta::ANNOTATIONS).key(&annotation_name(container)).path();
    format!("{at}: deprecated since v1.30; use the \"appArmorProfile\" field instead")
}

fn pod_profile<'v>(spec: FieldRef<'_, 'v, PodSpec>) -> Option<&'v Value> {
    spec.at(PodSpec::SECURITY_CONTEXT).at(PodContext::APP_ARMOR_PROFILE).get()
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
