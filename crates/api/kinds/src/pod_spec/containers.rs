//! Defaults of containers, init containers and ephemeral containers.

use binnacle_schema::Object;
use binnacle_validation::pod_resources as resources;

use super::image;
use crate::tree_names::{default_nil, default_zero, struct_mut, structs_mut, text};

pub(super) fn set_container_defaults(container: &mut Object) {
    let policy = image::pull_policy(text(container, "image"));
    default_zero(container, "imagePullPolicy", policy);
    default_zero(container, "terminationMessagePath", "/dev/termination-log");
    default_zero(container, "terminationMessagePolicy", "File");
    for port in structs_mut(container, "ports") {
        default_zero(port, "protocol", "TCP");
    }
    for variable in structs_mut(container, "env") {
        if let Some(source) = struct_mut(variable, "valueFrom") {
            if let Some(field) = struct_mut(source, "fieldRef") {
                set_field_selector_defaults(field);
            }
            if let Some(key) = struct_mut(source, "fileKeyRef") {
                default_nil(key, "optional", false);
            }
        }
    }
    if let Some(requirements) = struct_mut(container, "resources") {
        resources::round_up_requirements(requirements);
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = struct_mut(container, name) {
            set_probe_defaults(probe);
        }
    }
    if let Some(lifecycle) = struct_mut(container, "lifecycle") {
        for name in ["postStart", "preStop"] {
            if let Some(get) = struct_mut(lifecycle, name).and_then(|hook| struct_mut(hook, "httpGet")) {
                set_http_get_defaults(get);
            }
        }
    }
}

/// Sets the default version of a reference to a field of the pod.
pub(super) fn set_field_selector_defaults(field: &mut Object) {
    default_zero(field, "apiVersion", "v1");
}

fn set_probe_defaults(probe: &mut Object) {
    default_zero(probe, "timeoutSeconds", 1i64);
    default_zero(probe, "periodSeconds", 10i64);
    default_zero(probe, "successThreshold", 1i64);
    default_zero(probe, "failureThreshold", 3i64);
    if let Some(get) = struct_mut(probe, "httpGet") {
        set_http_get_defaults(get);
    }
    if let Some(grpc) = struct_mut(probe, "grpc") {
        default_nil(grpc, "service", "");
    }
}

fn set_http_get_defaults(get: &mut Object) {
    default_zero(get, "path", "/");
    default_zero(get, "scheme", "HTTP");
}
