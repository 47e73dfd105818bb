//! Defaults of a pod's spec, in pods and templates.

use binnacle_fields::FieldMut;
use binnacle_fields::core::v1::{PodSpec, PodTemplateSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_schema::{Object, Value};
use binnacle_validation::pod_resources as resources;

use super::containers::{for_each_container, set_container_defaults};
use super::volumes::set_volume_defaults;
use super::write;

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
    write(template, |mut template: FieldMut<PodTemplateSpec>| {
        // `spec` is not a pointer in Go, so it is always present.
        spec_defaults(template.entry(PodTemplateSpec::SPEC));
        drop_annotations(template);
    });
}

/// Sets the defaults of a pod's spec.
pub(crate) fn set_spec_defaults(spec: &mut Object) {
    write(spec, spec_defaults);
}

fn spec_defaults(mut spec: FieldMut<PodSpec>) {
    spec.default_zero(PodSpec::DNS_POLICY, "ClusterFirst");
    spec.default_zero(PodSpec::RESTART_POLICY, "Always");
    spec.default_nil(PodSpec::SECURITY_CONTEXT, Value::from(Object::new()));
    spec.default_nil(PodSpec::TERMINATION_GRACE_PERIOD_SECONDS, TERMINATION_GRACE_PERIOD);
    spec.default_zero(PodSpec::SCHEDULER_NAME, "default-scheduler");

    spec.items(PodSpec::VOLUMES).for_each(set_volume_defaults);
    for_each_container(&mut spec, set_container_defaults);
    if let Some(overhead) = spec.map(PodSpec::OVERHEAD) {
        resources::round_up(overhead);
    }
    if let Some(mut requirements) = spec.structure(PodSpec::RESOURCES) {
        resources::round_up_requirements(requirements.object());
    }
    mirror_service_account(spec);
}

/// Makes `serviceAccount`, the old name, equal to `serviceAccountName`.
fn mirror_service_account(mut spec: FieldMut<PodSpec>) {
    let is_old = spec.str(PodSpec::SERVICE_ACCOUNT_NAME).is_empty();
    let from = if is_old { PodSpec::SERVICE_ACCOUNT } else { PodSpec::SERVICE_ACCOUNT_NAME };
    if spec.str(from).is_empty() {
        spec.remove(PodSpec::SERVICE_ACCOUNT_NAME);
        spec.remove(PodSpec::SERVICE_ACCOUNT);
    } else {
        let name = spec.get(from).clone();
        spec.set(PodSpec::SERVICE_ACCOUNT_NAME, name.clone());
        spec.set(PodSpec::SERVICE_ACCOUNT, name);
    }
}

/// Removes the annotations that carried init containers before there was a field.
pub(crate) fn drop_init_container_annotations(object: &mut Object) {
    write(object, drop_annotations);
}

/// Pods have their metadata in the same field as templates.
fn drop_annotations(mut template: FieldMut<PodTemplateSpec>) {
    let Some(mut metadata) = template.structure(PodTemplateSpec::METADATA) else { return };
    if let Some(annotations) = metadata.map(ObjectMeta::ANNOTATIONS) {
        for name in INIT_CONTAINER_ANNOTATIONS {
            annotations.remove(name);
        }
    }
}
