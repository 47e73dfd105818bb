//! `Pod`: containers that run together on one node.

mod scheduling;
mod subresources;
mod validation;

use binnacle_fields::core::v1::{
    self, Container, ContainerPort, ContainerStatus, PodIP, PodSpec as Spec, PodStatus as Status, ResourceRequirements,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Map, Quantity};
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};
use binnacle_validation::pod_resources as resources;
use binnacle_validation::{ip, names};

use crate::Features;
use crate::equality::equal;
use crate::pod_spec::{
    app_armor, drop_disabled_spec_fields, drop_disabled_status_fields, drop_init_container_annotations,
    set_spec_defaults, warnings,
};
use crate::prepare::{count_generation_if, start_generation};
use crate::{DeleteGrace, MetadataChecks, Strategy, StrategyContext};

pub(super) struct Pod;

impl Strategy for Pod {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut pod = FieldMut::<v1::Pod>::root(object);
        let mut spec = pod.entry(v1::Pod::SPEC);
        resources::default_requests_to_limits(spec.object());
        resources::default_pod_resources(spec.object());
        spec.default_nil(Spec::ENABLE_SERVICE_LINKS, true);
        if spec.read().at(Spec::HOST_NETWORK).bool() {
            default_host_ports(&mut spec);
        }
        set_spec_defaults(spec.object());
        if spec.read().at(Spec::TERMINATION_GRACE_PERIOD_SECONDS).int_or_zero() < 0 {
            spec.set(Spec::TERMINATION_GRACE_PERIOD_SECONDS, 1i64);
        }
        drop_init_container_annotations(pod.object());
        if let Some(mut status) = pod.structure(v1::Pod::STATUS) {
            set_status_defaults(&mut status);
        }
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut pod = FieldMut::<v1::Pod>::root(object);
        start_generation(&mut pod);
        // The QoS class is computed once, unless the client set it.
        let class = match pod.read().at(v1::Pod::STATUS).at(Status::QOS_CLASS).str() {
            "" => resources::qos_class(pod.entry(v1::Pod::SPEC).object()).to_owned(),
            class => class.to_owned(),
        };
        pod.remove(v1::Pod::STATUS);
        let mut status = pod.entry(v1::Pod::STATUS);
        status.set(Status::PHASE, "Pending");
        status.set(Status::QOS_CLASS, class);
        drop_disabled_fields(ctx.features, &mut pod, None);
        scheduling::set_gated_condition(&mut pod, ctx.now);
        scheduling::merge_label_keys(ctx.features, &mut pod);
        app_armor::copy_annotations(object);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut pod, old) = (FieldMut::<v1::Pod>::root(object), FieldRef::root(old));
        pod.keep(old, v1::Pod::STATUS);
        drop_disabled_fields(ctx.features, &mut pod, Some(old));
        count_generation(&mut pod, old);
    }

    fn prepare_for_subresource(&self, subresource: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut pod, old) = (FieldMut::<v1::Pod>::root(object), FieldRef::root(old));
        match subresource {
            "ephemeralcontainers" => subresources::prepare_ephemeral_containers(&mut pod, old),
            "resize" => subresources::prepare_resize(ctx.features, &mut pod, old),
            _ => {
                subresources::prepare_status(&mut pod, old);
                return drop_disabled_fields(ctx.features, &mut pod, Some(old));
            }
        }
        drop_disabled_fields(ctx.features, &mut pod, Some(old));
        count_generation(&mut pod, old);
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate_create(ctx.features, FieldRef::root(object))
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(ctx.features, FieldRef::root(object), FieldRef::root(old))
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        ctx: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        let validate = match subresource {
            "ephemeralcontainers" => validation::validate_ephemeral_containers,
            "resize" => validation::validate_resize,
            _ => validation::validate_status,
        };
        // Where the spec is validated, the metadata are, too.
        let mut errors = match subresource {
            "ephemeralcontainers" | "resize" => self.validate_whole_metadata(ctx, object),
            _ => FieldErrors::new(),
        };
        errors.extend(validate(ctx.features, FieldRef::root(object), FieldRef::root(old)));
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        // Updates are frequent and seldom come from people.
        if old.is_some() {
            return Vec::new();
        }
        let mut texts = Vec::new();
        let pod = FieldRef::<v1::Pod>::root(object);
        let problems = names::dns1123_label(pod.at(v1::Pod::METADATA).at(ObjectMeta::NAME).str());
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
        let pod = FieldRef::<v1::Pod>::root(object);
        let status = pod.at(v1::Pod::STATUS);
        // Addresses of hosts have the same field as those of pods.
        let lists = [status.at(Status::POD_IPS), status.at(Status::HOST_IPS).cast()];
        let addresses = lists.iter().flat_map(|list| list.items());
        let warning = |address: FieldRef<PodIP>| {
            let address = address.at(PodIP::IP);
            ip::ip_warnings(&address, address.str())
        };
        addresses.filter_map(warning).collect()
    }

    fn delete_grace(&self, object: &Value, requested: Option<i64>) -> DeleteGrace {
        let pod = FieldRef::<v1::Pod>::root(object);
        let (spec, status) = (pod.at(v1::Pod::SPEC), pod.at(v1::Pod::STATUS));
        let unscheduled = spec.at(Spec::NODE_NAME).is_empty();
        let terminated = matches!(status.at(Status::PHASE).str(), "Failed" | "Succeeded");
        if unscheduled || terminated {
            return DeleteGrace::Seconds(0);
        }
        let seconds = requested.unwrap_or_else(|| spec.at(Spec::TERMINATION_GRACE_PERIOD_SECONDS).int_or_zero());
        DeleteGrace::Seconds(if seconds < 0 { 1 } else { seconds })
    }
}

fn drop_disabled_fields(features: &Features, pod: &mut FieldMut<v1::Pod>, old: Option<FieldRef<v1::Pod>>) {
    let old_spec = old.and_then(|old| old.at(v1::Pod::SPEC).get());
    let old_status = old.and_then(|old| old.at(v1::Pod::STATUS).get());
    drop_disabled_spec_fields(features, pod.entry(v1::Pod::SPEC).value(), old_spec);
    drop_disabled_status_fields(features, pod.entry(v1::Pod::STATUS).value(), old_status);
}

fn count_generation(pod: &mut FieldMut<v1::Pod>, old: FieldRef<v1::Pod>) {
    count_generation_if(!equal(pod.read().at(v1::Pod::SPEC), old.at(v1::Pod::SPEC)), pod, old);
}

/// Sets the host ports of containers in the host network to their container ports.
fn default_host_ports(spec: &mut FieldMut<Spec>) {
    for list in [Spec::CONTAINERS, Spec::INIT_CONTAINERS] {
        for mut container in spec.items(list) {
            for mut port in container.items(Container::PORTS) {
                let number = port.read().at(ContainerPort::CONTAINER_PORT).int_or_zero();
                if number != 0 {
                    port.default_zero(ContainerPort::HOST_PORT, number);
                }
            }
        }
    }
}

fn set_status_defaults(status: &mut FieldMut<Status>) {
    let lists = [Status::CONTAINER_STATUSES, Status::INIT_CONTAINER_STATUSES, Status::EPHEMERAL_CONTAINER_STATUSES];
    for list in lists {
        for mut container in status.items(list) {
            round_up(&mut container, ContainerStatus::ALLOCATED_RESOURCES, ContainerStatus::RESOURCES);
        }
    }
    round_up(status, Status::ALLOCATED_RESOURCES, Status::RESOURCES);
    agree_on_pod_ips(status);
}

fn round_up<M>(
    status: &mut FieldMut<M>,
    allocated: Field<M, Map<Quantity>>,
    requirements: Field<M, ResourceRequirements>,
) {
    if let Some(allocated) = status.map(allocated) {
        resources::round_up(allocated);
    }
    if let Some(mut requirements) = status.structure(requirements) {
        resources::round_up_requirements(requirements.object());
    }
}

/// Makes `podIP` and the first of `podIPs` equal. If they differ, the kubelet only supports `podIP`, which takes
/// precedence.
fn agree_on_pod_ips(status: &mut FieldMut<Status>) {
    let one = status.str(Status::POD_IP).to_owned();
    let first = status.read().at(Status::POD_IPS).item(0).map(|first| first.at(PodIP::IP).str().to_owned());
    match first {
        Some(first) if one.is_empty() => status.set(Status::POD_IP, first),
        first if !one.is_empty() && first.as_ref() != Some(&one) => {
            let first = Object::from_iter([(PodIP::IP.name(), one)]);
            status.set(Status::POD_IPS, vec![first.into()]);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
