//! `Pod`: containers that run together on one node.

mod scheduling;
mod subresources;
mod validation;

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::pod_resources as resources;
use binnacle_validation::{ip, names};

use crate::Features;
use crate::equality::equal_at;
use crate::pod_spec::{app_armor, warnings};
use crate::pod_spec::{
    drop_disabled_spec_fields, drop_disabled_status_fields, drop_init_container_annotations, set_spec_defaults,
};
use crate::tree_names::{default_nil, is_zero, keep, struct_mut, structs_mut, text};
use crate::{DeleteGrace, MetadataChecks, Strategy, StrategyContext, spec_generation};

pub(super) struct Pod;

impl Strategy for Pod {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        resources::default_requests_to_limits(spec);
        resources::default_pod_resources(spec);
        default_nil(spec, "enableServiceLinks", true);
        if spec.get("hostNetwork").and_then(Value::as_bool) == Some(true) {
            default_host_ports(spec);
        }
        set_spec_defaults(spec);
        if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
            spec.insert("terminationGracePeriodSeconds", 1i64);
        }
        drop_init_container_annotations(object.make_object());
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
            set_status_defaults(status);
        }
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        spec_generation(object, None, |_, _| true);
        // The QoS class is computed once, unless the client set it.
        let class = match object.str_at(&["status", "qosClass"]) {
            "" => resources::qos_class(object.make_at(&["spec"])).into(),
            class => Value::from(class),
        };
        let status = Object::from_iter([("phase", Value::from("Pending")), ("qosClass", class)]);
        object.make_object().insert("status", status);
        drop_disabled_fields(situation.features, object, None);
        scheduling::set_gated_condition(object, situation.now);
        scheduling::merge_label_keys(situation.features, object);
        app_armor::copy_annotations(object);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "status");
        drop_disabled_fields(situation.features, object, Some(old));
        bump_generation(object, old);
    }

    fn prepare_for_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &mut Value,
        old: &Value,
    ) {
        match subresource {
            "ephemeralcontainers" => subresources::prepare_ephemeral_containers(object, old),
            "resize" => subresources::prepare_resize(situation.features, object, old),
            _ => {
                subresources::prepare_status(object, old);
                return drop_disabled_fields(situation.features, object, Some(old));
            }
        }
        drop_disabled_fields(situation.features, object, Some(old));
        bump_generation(object, old);
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate_create(situation.features, object)
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(situation.features, object, old)
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        match subresource {
            "ephemeralcontainers" => validation::validate_ephemeral_containers(situation.features, object, old),
            "resize" => validation::validate_resize(situation.features, object, old),
            _ => validation::validate_status(situation.features, object, old),
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        // Updates are frequent and seldom come from people.
        if old.is_some() {
            return Vec::new();
        }
        let mut texts = Vec::new();
        let problems = names::dns1123_label(object.str_at(&["metadata", "name"]));
        if !problems.is_empty() {
            texts.push(format!(
                "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [{}]",
                problems.join(" ")
            ));
        }
        texts.extend(warnings::of_pod(object));
        texts
    }

    fn warnings_on_receipt(&self, object: &Value) -> Vec<String> {
        app_armor::pod_warnings(object)
    }

    fn warnings_on_subresource(&self, subresource: &str, object: &Value) -> Vec<String> {
        if subresource != "status" {
            return Vec::new();
        }
        let mut warnings = Vec::new();
        for list in ["podIPs", "hostIPs"] {
            for (i, address) in object.list_at(&["status", list]).iter().enumerate() {
                let at = FieldPath::new("status").child(list).index(i).child("ip");
                warnings.extend(ip::ip_warnings(&at, address.str_at(&["ip"])));
            }
        }
        warnings
    }

    fn delete_grace(&self, object: &Value, asked: Option<i64>) -> DeleteGrace {
        let unscheduled = object.str_at(&["spec", "nodeName"]).is_empty();
        let terminated = matches!(object.str_at(&["status", "phase"]), "Failed" | "Succeeded");
        if unscheduled || terminated {
            return DeleteGrace::Seconds(0);
        }
        let seconds = asked.or_else(|| object.int_at(&["spec", "terminationGracePeriodSeconds"])).unwrap_or(0);
        DeleteGrace::Seconds(if seconds < 0 { 1 } else { seconds })
    }
}

fn drop_disabled_fields(features: &Features, object: &mut Value, old: Option<&Value>) {
    type Drop = fn(&Features, &mut Value, Option<&Value>);
    for (member, drop_disabled) in
        [("spec", drop_disabled_spec_fields as Drop), ("status", drop_disabled_status_fields)]
    {
        object.make_at(&[member]);
        if let Some(value) = object.get_mut(member) {
            drop_disabled(features, value, old.and_then(|old| old.get(member)));
        }
    }
}

fn bump_generation(object: &mut Value, old: &Value) {
    spec_generation(object, Some(old), |object, old| !equal_at("io.k8s.api.core.v1.PodSpec", object, old, &["spec"]));
}

/// Sets the host ports of containers in the host network to their container ports.
fn default_host_ports(spec: &mut Object) {
    for list in ["containers", "initContainers"] {
        for port in structs_mut(spec, list).flat_map(|container| structs_mut(container, "ports")) {
            if is_zero(port, "hostPort")
                && !is_zero(port, "containerPort")
                && let Some(number) = port.get("containerPort").cloned()
            {
                port.insert("hostPort", number);
            }
        }
    }
}

fn set_status_defaults(status: &mut Object) {
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        structs_mut(status, list).for_each(round_up_status);
    }
    round_up_status(status);
    agree_on_pod_ips(status);
}

fn round_up_status(status: &mut Object) {
    if let Some(allocated) = struct_mut(status, "allocatedResources") {
        resources::round_up(allocated);
    }
    if let Some(requirements) = struct_mut(status, "resources") {
        resources::round_up_requirements(requirements);
    }
}

/// Makes `podIP` and the first of `podIPs` equal. If they differ, the kubelet only knows `podIP`, so it wins.
fn agree_on_pod_ips(status: &mut Object) {
    let one = text(status, "podIP").to_owned();
    let first = structs_mut(status, "podIPs").next().map(|first| text(first, "ip").to_owned());
    match first {
        Some(first) if one.is_empty() => {
            status.insert("podIP", first);
        }
        first if !one.is_empty() && first.as_ref() != Some(&one) => {
            status.insert("podIPs", vec![Object::from_iter([("ip", one)])]);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
