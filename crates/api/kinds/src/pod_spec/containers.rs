//! Containers, init containers and ephemeral containers: iteration, common predicates, defaults.

use binnacle_fields::core::v1::{
    Container, ContainerPort, ContainerRestartRule as RestartRule, EnvVar, EnvVarSource, FileKeySelector, GRPCAction,
    HTTPGetAction, Lifecycle, LifecycleHandler, ObjectFieldSelector, PodSpec, Probe,
};
use binnacle_fields::types::List;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_schema::Value;
use binnacle_validation::pod_resources as resources;

use super::image;

/// The lists of containers of a pod.
pub(crate) struct AllContainers<'p, 'v>([FieldRef<'p, 'v, List<Container>>; 3]);

impl<'v> AllContainers<'_, 'v> {
    /// Iterates over the containers in the order in which kube-apiserver visits them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = FieldRef<'_, 'v, Container>> {
        self.0.iter().flat_map(FieldRef::items)
    }
}

/// Returns all containers of a pod.
pub(crate) fn all_containers<'p, 'v>(spec: &'p FieldRef<'_, 'v, PodSpec>) -> AllContainers<'p, 'v> {
    // Ephemeral containers have all fields of the others.
    let ephemeral = spec.at(PodSpec::EPHEMERAL_CONTAINERS).cast();
    AllContainers([spec.at(PodSpec::INIT_CONTAINERS), spec.at(PodSpec::CONTAINERS), ephemeral])
}

/// Returns true for an init container that keeps running beside the others.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    FieldRef::root(container).at(Container::RESTART_POLICY).str() == "Always"
}

/// Returns true if the exit of some container can restart all of them.
pub(crate) fn restarts_all_containers(spec: &Value) -> bool {
    let spec = FieldRef::<PodSpec>::root(spec);
    [PodSpec::INIT_CONTAINERS, PodSpec::CONTAINERS].into_iter().any(|list| {
        spec.at(list).items().any(|container| {
            let rules = container.at(Container::RESTART_POLICY_RULES);
            rules.items().any(|rule| rule.at(RestartRule::ACTION).str() == "RestartAllContainers")
        })
    })
}

/// Calls a function for each container, init container and ephemeral container.
pub(super) fn for_each_container(spec: &mut FieldMut<PodSpec>, mut write: impl FnMut(FieldMut<Container>)) {
    spec.items(PodSpec::INIT_CONTAINERS).for_each(&mut write);
    spec.items(PodSpec::CONTAINERS).for_each(&mut write);
    // Ephemeral containers have all fields of the others.
    spec.items(PodSpec::EPHEMERAL_CONTAINERS).for_each(|mut container| write(FieldMut::root(container.value())));
}

pub(super) fn set_container_defaults(mut container: FieldMut<Container>) {
    let policy = image::pull_policy(container.str(Container::IMAGE));
    container.default_zero(Container::IMAGE_PULL_POLICY, policy);
    container.default_zero(Container::TERMINATION_MESSAGE_PATH, "/dev/termination-log");
    container.default_zero(Container::TERMINATION_MESSAGE_POLICY, "File");
    for mut port in container.items(Container::PORTS) {
        port.default_zero(ContainerPort::PROTOCOL, "TCP");
    }
    for mut variable in container.items(Container::ENV) {
        let Some(mut source) = variable.structure(EnvVar::VALUE_FROM) else { continue };
        if let Some(field) = source.structure(EnvVarSource::FIELD_REF) {
            set_field_selector_defaults(field);
        }
        if let Some(mut key) = source.structure(EnvVarSource::FILE_KEY_REF) {
            key.default_nil(FileKeySelector::OPTIONAL, false);
        }
    }
    if let Some(mut requirements) = container.structure(Container::RESOURCES) {
        resources::round_up_requirements(requirements.object());
    }
    for probe in [Container::LIVENESS_PROBE, Container::READINESS_PROBE, Container::STARTUP_PROBE] {
        if let Some(probe) = container.structure(probe) {
            set_probe_defaults(probe);
        }
    }
    if let Some(mut lifecycle) = container.structure(Container::LIFECYCLE) {
        for hook in [Lifecycle::POST_START, Lifecycle::PRE_STOP] {
            let Some(mut hook) = lifecycle.structure(hook) else { continue };
            if let Some(get) = hook.structure(LifecycleHandler::HTTP_GET) {
                set_http_get_defaults(get);
            }
        }
    }
}

/// Sets the default version of a reference to a field of the pod.
pub(super) fn set_field_selector_defaults(mut field: FieldMut<ObjectFieldSelector>) {
    field.default_zero(ObjectFieldSelector::API_VERSION, "v1");
}

fn set_probe_defaults(mut probe: FieldMut<Probe>) {
    probe.default_zero(Probe::TIMEOUT_SECONDS, 1i64);
    probe.default_zero(Probe::PERIOD_SECONDS, 10i64);
    probe.default_zero(Probe::SUCCESS_THRESHOLD, 1i64);
    probe.default_zero(Probe::FAILURE_THRESHOLD, 3i64);
    if let Some(get) = probe.structure(Probe::HTTP_GET) {
        set_http_get_defaults(get);
    }
    if let Some(mut grpc) = probe.structure(Probe::GRPC) {
        grpc.default_nil(GRPCAction::SERVICE, "");
    }
}

fn set_http_get_defaults(mut get: FieldMut<HTTPGetAction>) {
    get.default_zero(HTTPGetAction::PATH, "/");
    get.default_zero(HTTPGetAction::SCHEME, "HTTP");
}
