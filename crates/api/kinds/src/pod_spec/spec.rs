//! Defaults of a pod's spec, in pods and templates.

use binnacle_schema::{Object, Value};
use binnacle_validation::pod_resources as resources;

use super::{containers, volumes};
use crate::tree_names::{default_nil, default_zero, is_zero, struct_mut, structs_mut};

const TERMINATION_GRACE_PERIOD: i64 = 30;

/// Annotations in which clients before v1.8 carried init containers; they are always removed.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Sets the defaults of a pod template, an object with `metadata` and `spec`.
pub(crate) fn set_template_defaults(template: &mut Object) {
    // `spec` is not a pointer in Go, so it is always present.
    set_spec_defaults(template.object_entry("spec"));
    drop_init_container_annotations(template);
}

/// Sets the defaults of a pod's spec.
pub(crate) fn set_spec_defaults(spec: &mut Object) {
    default_zero(spec, "dnsPolicy", "ClusterFirst");
    default_zero(spec, "restartPolicy", "Always");
    default_nil(spec, "securityContext", Object::new());
    default_nil(spec, "terminationGracePeriodSeconds", TERMINATION_GRACE_PERIOD);
    default_zero(spec, "schedulerName", "default-scheduler");

    structs_mut(spec, "volumes").for_each(volumes::set_volume_defaults);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        structs_mut(spec, list).for_each(containers::set_container_defaults);
    }
    if let Some(overhead) = struct_mut(spec, "overhead") {
        resources::round_up(overhead);
    }
    if let Some(resources) = struct_mut(spec, "resources") {
        resources::round_up_requirements(resources);
    }
    mirror_service_account(spec);
}

/// Makes `serviceAccount`, the old name, equal to `serviceAccountName`.
fn mirror_service_account(spec: &mut Object) {
    let from = if is_zero(spec, "serviceAccountName") { "serviceAccount" } else { "serviceAccountName" };
    match spec.get(from).cloned() {
        Some(Value::Str(name)) if !name.is_empty() => {
            spec.insert("serviceAccountName", name.clone());
            spec.insert("serviceAccount", name);
        }
        _ => {
            spec.remove("serviceAccountName");
            spec.remove("serviceAccount");
        }
    }
}

/// Removes the annotations that carried init containers before there was a field.
pub(crate) fn drop_init_container_annotations(object: &mut Object) {
    let metadata = struct_mut(object, "metadata");
    if let Some(annotations) = metadata.and_then(|metadata| struct_mut(metadata, "annotations")) {
        for name in INIT_CONTAINER_ANNOTATIONS {
            annotations.remove(name);
        }
    }
}
