//! Validation of containers: the common rules, and those for regular, init and ephemeral ones.

use std::collections::{BTreeSet, HashSet};

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Container, ContainerPort, ContainerResizePolicy, ContainerRestartRule as RestartRule,
    ContainerRestartRuleOnExitCodes as ExitCodes, EphemeralContainer, PodOS, PodSpec, VolumeMount,
};
use binnacle_fields::types::List;
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_validation::{checks, names, ports};

use super::requirements::{self, Holder};
use super::volumes::Volumes;
use super::{PodValidationOptions, env, forbid, handlers, mounts, pull_policy, required, required_by, security};
use crate::checks::repeated;
use crate::pod_spec::containers::is_sidecar;

const RESTART_POLICIES: [&str; 3] = ["Always", "Never", "OnFailure"];
const RESTART_ACTIONS: [&str; 2] = ["Restart", "RestartAllContainers"];
const RESTART_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const NOT_EPHEMERAL: &str = "cannot be set for an Ephemeral Container";
const NOT_INIT: &str = "may not be set for init containers without restartPolicy=Always";

/// The parts of a pod that the validation of its containers needs.
pub(super) struct Pod<'a> {
    pub(super) spec: FieldRef<'a, 'a, PodSpec>,
    pub(super) volumes: Volumes<'a>,
    pub(super) claims: BTreeSet<&'a str>,
    pub(super) options: &'a PodValidationOptions<'a>,
    pub(super) grace: Option<i64>,
    pub(super) host_users: bool,
}

pub(super) fn regular(pod: &Pod<'_>, errors: &mut FieldErrors) {
    let list = pod.spec.at(PodSpec::CONTAINERS);
    if list.is_empty() {
        return errors.push(list.required(""));
    }
    let mut names = HashSet::new();
    for container in errors.while_room(list.items()) {
        common(container, pod, errors);
        let name = container.at(Container::NAME);
        if !names.insert(name.str()) {
            errors.push(FieldError::duplicate(&name, name.str()));
        }
        handlers::lifecycle(container, pod.grace, pod.os(), errors);
        handlers::probes(container, errors);
        if pod.options.allows_restart_rules() {
            restart_policy(container, pod.options, errors);
        } else {
            forbid(container.at(Container::RESTART_POLICY), "may not be set for non-init containers", errors);
        }
    }
    host_ports(list.items(), errors);
}

pub(super) fn init(pod: &Pod<'_>, errors: &mut FieldErrors) {
    let mut names: HashSet<&str> = names_of(pod.spec.at(PodSpec::CONTAINERS)).collect();
    let list = pod.spec.at(PodSpec::INIT_CONTAINERS);
    for container in errors.while_room(list.items()) {
        common(container, pod, errors);
        init_restart_policy(container, pod.options, errors);
        let name = container.at(Container::NAME);
        if names.contains(name.str()) {
            errors.push(FieldError::duplicate(&name, name.str()));
        } else if !name.is_empty() {
            names.insert(name.str());
        }
        // kube-apiserver checks each one as the first of a list of its own.
        let first = list.item(0).unwrap_or(container);
        host_ports([container.located_at(&first)], errors);
        if is_sidecar(container.value()) {
            handlers::lifecycle(container, pod.grace, pod.os(), errors);
            handlers::probes(container, errors);
            continue;
        }
        forbid(container.at(Container::LIFECYCLE), NOT_INIT, errors);
        for probe in [Container::LIVENESS_PROBE, Container::READINESS_PROBE, Container::STARTUP_PROBE] {
            forbid(container.at(probe), NOT_INIT, errors);
        }
        if pod.options.restarting_init_containers {
            continue;
        }
        let policies = container.at(Container::RESIZE_POLICY);
        for policy in errors.while_room(policies.items()) {
            let restart = policy.at(ContainerResizePolicy::RESTART_POLICY);
            if restart.str() == "RestartContainer" {
                let why = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.push(restart.invalid(why));
            }
        }
    }
}

pub(super) fn ephemeral(pod: &Pod<'_>, errors: &mut FieldErrors) {
    let others = names_of(pod.spec.at(PodSpec::CONTAINERS)).chain(names_of(pod.spec.at(PodSpec::INIT_CONTAINERS)));
    let others: HashSet<&str> = others.collect();
    let mut names = others.clone();
    let list = pod.spec.at(PodSpec::EPHEMERAL_CONTAINERS);
    for ephemeral in errors.while_room(list.items()) {
        // Ephemeral containers have all fields of the others.
        let container = ephemeral.cast::<Container>();
        common(container, pod, errors);
        image_space(container, errors);
        let name = container.at(Container::NAME);
        if !names.insert(name.str()) {
            errors.push(FieldError::duplicate(&name, name.str()));
        }
        let target = ephemeral.at(EphemeralContainer::TARGET_CONTAINER_NAME);
        if !target.is_empty() && !others.contains(target.str()) {
            errors.push(target.not_found());
        }
        not_ephemeral(container, errors);
        let mounts = container.at(Container::VOLUME_MOUNTS);
        for mount in errors.while_room(mounts.items()) {
            for path in [VolumeMount::SUB_PATH, VolumeMount::SUB_PATH_EXPR] {
                let path = mount.at(path);
                if !path.is_empty() {
                    errors.push(path.forbidden(NOT_EPHEMERAL));
                }
            }
        }
    }
}

/// Rejects the fields that ephemeral containers may not have.
fn not_ephemeral(container: FieldRef<Container>, errors: &mut FieldErrors) {
    forbid(container.at(Container::PORTS), NOT_EPHEMERAL, errors);
    // Resources are not a pointer in Go: they are present even if empty.
    let resources = container.at(Container::RESOURCES);
    if !resources.is_zero() {
        errors.push(resources.forbidden(NOT_EPHEMERAL));
    }
    forbid(container.at(Container::RESIZE_POLICY), NOT_EPHEMERAL, errors);
    forbid(container.at(Container::RESTART_POLICY), NOT_EPHEMERAL, errors);
    forbid(container.at(Container::RESTART_POLICY_RULES), NOT_EPHEMERAL, errors);
    for probe in [Container::LIVENESS_PROBE, Container::READINESS_PROBE, Container::STARTUP_PROBE] {
        forbid(container.at(probe), NOT_EPHEMERAL, errors);
    }
    forbid(container.at(Container::LIFECYCLE), NOT_EPHEMERAL, errors);
}

/// Rejects space around the image of a container in a pod; templates may have it.
pub(crate) fn image_space(container: FieldRef<Container>, errors: &mut FieldErrors) {
    let image = container.at(Container::IMAGE);
    if image.str().trim() != image.str() {
        errors.push(image.invalid("must not have leading or trailing whitespace"));
    }
}

impl<'a> Pod<'a> {
    fn os(&self) -> Option<&'a str> {
        self.spec.at(PodSpec::OS).set().map(|os| os.at(PodOS::NAME).str())
    }
}

fn names_of<'v>(list: FieldRef<'_, 'v, List<Container>>) -> impl Iterator<Item = &'v str> {
    list.list().iter().map(|container| FieldRef::root(container).at(Container::NAME).str())
}

fn common(container: FieldRef<Container>, pod: &Pod<'_>, errors: &mut FieldErrors) {
    required_by(container.at(Container::NAME), names::dns1123_label, errors);
    required(container, &[Container::IMAGE], errors);
    let policy = container.at(Container::TERMINATION_MESSAGE_POLICY);
    checks::required_one_of(&policy, policy.str(), &["File", "FallbackToLogsOnError"], errors);
    container_ports(container.at(Container::PORTS), errors);
    env::variables(container.at(Container::ENV), pod.options, errors);
    env::sources(container.at(Container::ENV_FROM), errors);
    mounts::mounts(container, &pod.volumes, errors);
    mounts::devices(container, &pod.volumes, errors);
    pull_policy(container.at(Container::IMAGE_PULL_POLICY), errors);
    let resources = container.at(Container::RESOURCES);
    requirements::requirements(resources, Holder::Container, &pod.claims, pod.options, errors);
    let pod_policy = pod.spec.at(PodSpec::RESTART_POLICY).str();
    resize_policy(container.at(Container::RESIZE_POLICY), pod_policy, errors);
    security::of_container(pod.options.features, container, pod.host_users, errors);
}

fn container_ports(list: FieldRef<List<ContainerPort>>, errors: &mut FieldErrors) {
    let mut names = HashSet::new();
    for port in errors.while_room(list.items()) {
        let name = port.at(ContainerPort::NAME);
        if !name.is_empty() {
            let messages = ports::name(name.str());
            if !messages.is_empty() {
                checks::invalid_for(&name, name.str(), messages, errors);
            } else if !names.insert(name.str()) {
                errors.push(name.duplicate());
            }
        }
        let number = port.at(ContainerPort::CONTAINER_PORT);
        match number.int_or_zero() {
            0 => errors.push(number.required("")),
            given => ports::number(&number, given, errors),
        }
        let host = port.at(ContainerPort::HOST_PORT);
        match host.int_or_zero() {
            0 => {}
            given => ports::number(&host, given, errors),
        }
        let protocol = port.at(ContainerPort::PROTOCOL);
        checks::required_one_of(&protocol, protocol.str(), &["SCTP", "TCP", "UDP"], errors);
    }
}

/// Rejects host ports that two containers have.
fn host_ports<'p, 'v: 'p>(containers: impl IntoIterator<Item = FieldRef<'p, 'v, Container>>, errors: &mut FieldErrors) {
    let mut taken = HashSet::new();
    for container in errors.while_room(containers) {
        let ports = container.at(Container::PORTS);
        for port in errors.while_room(ports.items()) {
            let host = port.at(ContainerPort::HOST_PORT);
            let number = host.int_or_zero();
            let (protocol, address) = (port.at(ContainerPort::PROTOCOL).str(), port.at(ContainerPort::HOST_IP).str());
            if number != 0 && !taken.insert((protocol, address, number)) {
                errors.push(FieldError::duplicate(&host, format!("{protocol}/{address}/{number}").as_str()));
            }
        }
    }
}

fn resize_policy(list: FieldRef<List<ContainerResizePolicy>>, pod_policy: &str, errors: &mut FieldErrors) {
    let repeated = repeated(list, ContainerResizePolicy::RESOURCE_NAME);
    for (i, item) in errors.while_room(list.items().enumerate()) {
        let resource = item.at(ContainerResizePolicy::RESOURCE_NAME).str();
        if repeated[i] {
            errors.push(FieldError::duplicate(&item, checks::of_named_type(resource)));
        }
        checks::required_one_of(&list, resource, &["cpu", "memory"], errors);
        let policy = item.at(ContainerResizePolicy::RESTART_POLICY).str();
        checks::required_one_of(&list, policy, &["NotRequired", "RestartContainer"], errors);
        if pod_policy == "Never" && policy != "NotRequired" {
            errors.push(list.invalid_as(policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"));
        }
    }
}

/// Validates the restart policy of an init container, which may be a sidecar without the gate for restart rules; rules
/// of sidecars need another gate.
fn init_restart_policy(container: FieldRef<Container>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let (policy, rules) = (container.at(Container::RESTART_POLICY), container.at(Container::RESTART_POLICY_RULES));
    match policy.get_str() {
        None if !rules.is_empty() => {
            errors.push(policy.required("must specify restartPolicy when restart rules are used"));
        }
        None => {}
        Some("Always") if !options.allows_restart_rules() => {}
        Some(_) if !options.allows_restart_rules() => errors.push(policy.not_supported(&["Always"])),
        Some("Always") if !options.allows_restart_of_all() && rules.is_empty() => {}
        Some("Always") if !options.allows_restart_of_all() => {
            let why = "restartPolicyRules are not allowed for init containers with restart policy Always";
            errors.push(rules.forbidden(why));
        }
        Some(_) => restart_policy(container, options, errors),
    }
}

/// Validates the restart policy of a container and its rules for exit codes.
fn restart_policy(container: FieldRef<Container>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let (policy, rules) = (container.at(Container::RESTART_POLICY), container.at(Container::RESTART_POLICY_RULES));
    match policy.get_str() {
        Some(given) => checks::one_of(&policy, given, &RESTART_POLICIES, errors),
        None if rules.is_empty() => return,
        None => errors.push(policy.required("must specify restartPolicy when restart rules are used")),
    }
    let actions = if options.allows_restart_of_all() { &RESTART_ACTIONS[..] } else { &RESTART_ACTIONS[..1] };
    if rules.len() > RESTART_RULES_MAX {
        errors.push(rules.too_many(RESTART_RULES_MAX));
    }
    for rule in errors.while_room(rules.items()) {
        let action = rule.at(RestartRule::ACTION);
        checks::one_of(&action, action.str(), actions, errors);
        let codes = rule.at(RestartRule::EXIT_CODES);
        if !codes.is_set() {
            errors.push(codes.required("must be specified"));
            continue;
        }
        let operator = codes.at(ExitCodes::OPERATOR);
        checks::one_of(&operator, operator.str(), &["In", "NotIn"], errors);
        let values = codes.at(ExitCodes::VALUES);
        if values.len() > EXIT_CODES_MAX {
            errors.push(values.too_many(EXIT_CODES_MAX));
        }
    }
}
