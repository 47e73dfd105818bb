//! Validation of a pod's status, which its node reports.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use binnacle_fields::core::v1::{
    Container, ContainerExtendedResourceRequest as RequestMapping, ContainerRestartRule,
    ContainerRestartRuleOnExitCodes as OnExitCodes, ContainerState, ContainerStateTerminated, ContainerStatus,
    ContainerUser, HostIP, LinuxContainerUser, Pod, PodCondition, PodExtendedResourceClaimStatus as ExtendedClaim,
    PodIP, PodOS, PodResourceClaim, PodResourceClaimStatus as ClaimStatus, PodSpec as Spec, PodStatus as Status,
    ResourceClaim, ResourceHealth, ResourceRequirements, ResourceStatus,
};
use binnacle_fields::types::{Int, List};
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::{Object, Value};
use binnacle_validation::ip::LegacyIpRules;
use binnacle_validation::names::inclusive_range_error;
use binnacle_validation::{checks, ip};

use super::{claim_statuses, update};
use crate::Features;
use crate::pod_spec::containers::restarts_all_containers;
use crate::pod_spec::validation::PodValidationOptions;

const ID_MAX: i64 = i32::MAX as i64;
const HEALTH_MESSAGE_MAX: usize = 1024;

type StatusList = Field<Status, List<ContainerStatus>>;
type ContainerList = Field<Spec, List<Container>>;

/// The lists of statuses with the lists of their containers, except for ephemeral containers, which never restart.
const STATUSES: [(StatusList, Option<ContainerList>); 3] = [
    (Status::CONTAINER_STATUSES, Some(Spec::CONTAINERS)),
    (Status::INIT_CONTAINER_STATUSES, Some(Spec::INIT_CONTAINERS)),
    (Status::EPHEMERAL_CONTAINER_STATUSES, None),
];

pub(in crate::core::pod) fn validate(features: &Features, pod: FieldRef<Pod>, old: FieldRef<Pod>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let e = &mut errors;
    update::annotations(pod, old, &PodValidationOptions::for_pod_update(features, old.value()), e);
    let (spec, status, old_status) = (pod.at(Pod::SPEC), pod.at(Pod::STATUS), old.at(Pod::STATUS));
    conditions(status.at(Status::CONDITIONS), e);
    nominated_node(features, pod, old, e);
    not_negative(status.at(Status::OBSERVED_GENERATION), e);
    let (class, old_class) = (status.at(Status::QOS_CLASS), old_status.at(Status::QOS_CLASS));
    checks::immutable(&class, class.str() == old_class.str(), class.str(), e);
    for (list, containers) in STATUSES {
        transitions(features, status.at(list), old_status.at(list), containers, old, e);
    }
    claim_statuses(status.at(Status::RESOURCE_CLAIM_STATUSES), spec, e);
    extended_claim(status.at(Status::EXTENDED_RESOURCE_CLAIM_STATUS), spec, e);
    claim_statuses::node_allocatable(status, spec, e);
    let legacy = LegacyIpRules::of(features);
    addresses(status.at(Status::POD_IPS), old_status.at(Status::POD_IPS), legacy.clone(), e);
    host_addresses(status, old_status, legacy, e);
    for (list, _) in STATUSES {
        users(status.at(list), spec, e);
    }
    for (list, containers) in STATUSES {
        match containers {
            Some(containers) => allocated(status.at(list), spec.at(containers), e),
            None => not_allocated(status.at(list), e),
        }
    }
    for (list, _) in STATUSES {
        claim_statuses::mounted_images(status.at(list), e);
    }
    errors
}

fn not_negative(number: FieldRef<Int>, errors: &mut FieldErrors) {
    if number.int_or_zero() < 0 {
        errors.push(number.invalid("must be a non-negative integer"));
    }
}

fn conditions(conditions: FieldRef<List<PodCondition>>, errors: &mut FieldErrors) {
    for condition in errors.while_room(conditions.items()) {
        not_negative(condition.at(PodCondition::OBSERVED_GENERATION), errors);
        let kind = condition.at(PodCondition::TYPE);
        if !["PodScheduled", "Ready", "Initialized"].contains(&kind.str()) {
            checks::qualified_name(&kind.reported_as("Type"), kind.str(), errors);
        }
    }
}

fn nominated_node(features: &Features, pod: FieldRef<Pod>, old: FieldRef<Pod>, errors: &mut FieldErrors) {
    let (status, old_status) = (pod.at(Pod::STATUS), old.at(Pod::STATUS));
    let name = status.at(Status::NOMINATED_NODE_NAME);
    if name.is_empty() || name.str() == old_status.at(Status::NOMINATED_NODE_NAME).str() {
        return;
    }
    checks::subdomain(&name, name.str(), errors);
    let is_bound = !old.at(Pod::SPEC).at(Spec::NODE_NAME).is_empty();
    if is_bound && features.enabled("ClearingNominatedNodeNameAfterBinding") {
        errors.push(name.forbidden("may not be set on pods that are already bound to a node"));
    }
}

/// Rejects terminated containers that run again, unless their restart policy restarts them.
fn transitions(
    features: &Features,
    new: FieldRef<List<ContainerStatus>>,
    old: FieldRef<List<ContainerStatus>>,
    containers: Option<Field<Spec, List<Container>>>,
    pod: FieldRef<Pod>,
    errors: &mut FieldErrors,
) {
    let spec = pod.at(Pod::SPEC);
    if containers.is_some()
        && PodValidationOptions::for_pod_update(features, pod.value()).allows_restart_of_all()
        && restarts_all_containers(spec.value())
    {
        return;
    }
    let containers = containers.map(|list| spec.at(list));
    let containers = first_by_name(containers.iter().flat_map(|list| list.items()));
    let running = new.items().filter(|new| !new.at(ContainerStatus::STATE).at(ContainerState::TERMINATED).is_set());
    let running: HashSet<&str> = running.map(|new| new.at(ContainerStatus::NAME).str()).collect();
    for old in errors.while_room(old.items()) {
        let name = old.at(ContainerStatus::NAME).str();
        let state = old.at(ContainerStatus::STATE);
        let ended = state.at(ContainerState::TERMINATED);
        if !ended.is_set() || !running.contains(name) {
            continue;
        }
        let code = ended.at(ContainerStateTerminated::EXIT_CODE).int_or_zero();
        if !containers.get(name).is_some_and(|container| should_restart(*container, spec, code)) {
            errors.push(state.forbidden("may not be transitioned to non-terminated state"));
        }
    }
}

/// Returns the first container of each name.
fn first_by_name<'p, 'v>(
    containers: impl IntoIterator<Item = FieldRef<'p, 'v, Container>>,
) -> HashMap<&'v str, FieldRef<'p, 'v, Container>> {
    let mut by_name = HashMap::new();
    for container in containers {
        by_name.entry(container.at(Container::NAME).str()).or_insert(container);
    }
    by_name
}

fn should_restart(container: FieldRef<Container>, spec: FieldRef<Spec>, code: i64) -> bool {
    let matches = |rule: FieldRef<ContainerRestartRule>| {
        let codes = rule.at(ContainerRestartRule::EXIT_CODES);
        let found = codes.at(OnExitCodes::VALUES).list().contains(&Value::Int(code));
        match codes.at(OnExitCodes::OPERATOR).str() {
            "In" => found,
            "NotIn" => !found,
            _ => false,
        }
    };
    let by = |policy: &str| match policy {
        "Always" => Some(true),
        "OnFailure" => Some(code != 0),
        "Never" => Some(false),
        _ => None,
    };
    let own = container.at(Container::RESTART_POLICY).get_str();
    if own.is_some() && container.at(Container::RESTART_POLICY_RULES).items().any(matches) {
        return true;
    }
    own.and_then(by).or_else(|| by(spec.at(Spec::RESTART_POLICY).str())).unwrap_or(true)
}

fn claim_statuses(claims: FieldRef<List<ClaimStatus>>, spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let known = spec.at(Spec::RESOURCE_CLAIMS);
    let known: HashSet<&str> = known.items().map(|known| known.at(PodResourceClaim::NAME).str()).collect();
    let mut seen = HashSet::new();
    for claim in errors.while_room(claims.items()) {
        let name = claim.at(ClaimStatus::NAME);
        if !known.contains(name.str()) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(name.invalid_as(name.str(), why));
        }
        if !seen.insert(name.str()) {
            errors.push(FieldError::duplicate(&name, name.str()));
        }
        let claim = claim.at(ClaimStatus::RESOURCE_CLAIM_NAME);
        if let Some(name) = claim.get_str() {
            checks::typed_subdomain(&claim, name, errors);
        }
    }
}

fn extended_claim(claim: FieldRef<ExtendedClaim>, spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    if !claim.is_set() {
        return;
    }
    let mappings = claim.at(ExtendedClaim::REQUEST_MAPPINGS);
    if mappings.is_empty() {
        errors.push(mappings.required("at least one request mapping is required"));
    }
    let lists = [spec.at(Spec::CONTAINERS), spec.at(Spec::INIT_CONTAINERS)];
    let containers = first_by_name(lists.iter().flat_map(|list| list.items()));
    let mut seen = HashSet::new();
    for mapping in errors.while_room(mappings.items()) {
        let name = mapping.at(RequestMapping::CONTAINER_NAME);
        let resource = mapping.at(RequestMapping::RESOURCE_NAME);
        let request = mapping.at(RequestMapping::REQUEST_NAME);
        match containers.get(name.str()) {
            None => {
                let why = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.push(name.invalid_as(name.str(), why));
            }
            Some(container) if !requests(*container, resource.str()) => {
                let why = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.push(resource.invalid_as(resource.str(), why));
            }
            Some(_) => {}
        }
        // kube-apiserver leaves the mapping out of the path.
        checks::label(&claim.path().child(RequestMapping::REQUEST_NAME.name()), request.str(), errors);
        if !seen.insert([name.str(), resource.str(), request.str()]) {
            errors.extend([name, resource, request].map(|field| FieldError::duplicate(&field, field.str())));
        }
    }
    let name = claim.at(ExtendedClaim::RESOURCE_CLAIM_NAME);
    match name.str() {
        "" => errors.push(name.required("")),
        text => checks::subdomain(&name, text, errors),
    }
}

/// Validates addresses: at most one of each family.
fn addresses<'v>(
    list: FieldRef<List<PodIP>>,
    old: FieldRef<'_, 'v, List<PodIP>>,
    legacy: LegacyIpRules<'v>,
    errors: &mut FieldErrors,
) {
    let legacy = legacy.allowing_existing(old.items().map(|known| known.at(PodIP::IP).str()));
    for item in errors.while_room(list.items()) {
        ip::legacy_ip(&item, item.at(PodIP::IP).str(), &legacy, errors);
    }
    if list.len() < 2 {
        return;
    }
    let texts: Vec<&str> = list.items().map(|item| item.at(PodIP::IP).str()).collect();
    let parsed: Vec<_> = texts.iter().map(|text| ip::parse_ip(text)).collect();
    if let Some(bad) = parsed.iter().position(Option::is_none) {
        let why = format!("failed to check for dual stack with error:invalid IP[{bad}]: {}", texts[bad]);
        errors.push(FieldError::internal(&list, why));
    }
    let v6 = |address: &Option<std::net::IpAddr>| address.is_some_and(|address| address.is_ipv6());
    let dual = parsed.iter().all(Option::is_some) && parsed.iter().any(v6) && !parsed.iter().all(v6);
    if !dual || list.len() > 2 {
        let items = texts.iter().map(|text| Object::from_iter([("IP", Value::from(*text))]).into());
        let all = Value::List(items.collect());
        errors.push(list.invalid_as(&all, "may specify no more than one IP for each IP family"));
    }
}

fn host_addresses<'v>(
    status: FieldRef<Status>,
    old: FieldRef<'_, 'v, Status>,
    legacy: LegacyIpRules<'v>,
    errors: &mut FieldErrors,
) {
    let list = status.at(Status::HOST_IPS);
    let Some(first) = list.item(0) else { return };
    let address = first.at(HostIP::IP);
    if status.at(Status::HOST_IP).str() != address.str() {
        errors.push(address.invalid_as(address.str(), "must be equal to `hostIP`"));
    }
    // Addresses of hosts have the same field as those of pods.
    addresses(list.cast(), old.at(Status::HOST_IPS).cast(), legacy, errors);
}

fn users(statuses: FieldRef<List<ContainerStatus>>, spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let os = spec.at(Spec::OS).set().map_or("linux", |os| os.at(PodOS::NAME).str());
    for status in errors.while_room(statuses.items()) {
        let user = status.at(ContainerStatus::USER);
        let Some(user) = user.at(ContainerUser::LINUX).set() else { continue };
        if os == "windows" {
            errors.push(user.forbidden("cannot be set for a windows pod"));
        }
        if os != "linux" {
            continue;
        }
        let mut id = |id: FieldRef<Int>| {
            if !(0..=ID_MAX).contains(&id.int_or_zero()) {
                errors.push(id.invalid(inclusive_range_error(0, ID_MAX)));
            }
        };
        id(user.at(LinuxContainerUser::UID));
        id(user.at(LinuxContainerUser::GID));
        user.at(LinuxContainerUser::SUPPLEMENTAL_GROUPS).items().for_each(id);
    }
}

/// Validates the health of devices, which must belong to claims of the container.
fn allocated(
    statuses: FieldRef<List<ContainerStatus>>,
    containers: FieldRef<List<Container>>,
    errors: &mut FieldErrors,
) {
    let containers = first_by_name(containers.items());
    for status in errors.while_room(statuses.items()) {
        let container = containers.get(status.at(ContainerStatus::NAME).str());
        let claims = container.map(|container| requested_claims(*container)).unwrap_or_default();
        let resources = status.at(ContainerStatus::ALLOCATED_RESOURCES_STATUS);
        for resource in errors.while_room(resources.items()) {
            if let Some(container) = container {
                requested(*container, &claims, resource, errors);
            }
            devices(resource.at(ResourceStatus::RESOURCES), errors);
        }
    }
}

fn devices(devices: FieldRef<List<ResourceHealth>>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for device in errors.while_room(devices.items()) {
        let health = device.at(ResourceHealth::HEALTH);
        checks::one_of(&health, health.str(), &["Healthy", "Unhealthy", "Unknown"], errors);
        let message = device.at(ResourceHealth::MESSAGE);
        match message.get_str() {
            Some("") => errors.push(message.required("must be non-empty if specified")),
            Some(text) if text.len() > HEALTH_MESSAGE_MAX => errors.push(message.too_long(HEALTH_MESSAGE_MAX)),
            _ => {}
        }
        let id = device.at(ResourceHealth::RESOURCE_ID);
        if !seen.insert(id.str()) {
            errors.push(FieldError::duplicate(&id, id.shown_as_json()));
        }
    }
}

fn not_allocated(statuses: FieldRef<List<ContainerStatus>>, errors: &mut FieldErrors) {
    for status in errors.while_room(statuses.items()) {
        let resources = status.at(ContainerStatus::ALLOCATED_RESOURCES_STATUS);
        if !resources.is_empty() {
            errors.push(resources.forbidden("must not be specified in container status"));
        }
    }
}

/// Returns the claims of a container as statuses name them: `claim` or `claim/request`.
fn requested_claims<'v>(container: FieldRef<'_, 'v, Container>) -> HashSet<Cow<'v, str>> {
    let resources = container.at(Container::RESOURCES);
    let claims = resources.at(ResourceRequirements::CLAIMS);
    let named = claims.items().map(|claim| {
        match (claim.at(ResourceClaim::NAME).str(), claim.at(ResourceClaim::REQUEST).str()) {
            (name, "") => Cow::Borrowed(name),
            (name, request) => Cow::Owned(format!("{name}/{request}")),
        }
    });
    named.collect()
}

fn requested(
    container: FieldRef<Container>,
    claims: &HashSet<Cow<'_, str>>,
    resource: FieldRef<ResourceStatus>,
    errors: &mut FieldErrors,
) {
    let name = resource.at(ResourceStatus::NAME);
    let (found, why) = match name.str().strip_prefix("claim:") {
        Some(claim) => (
            claims.contains(claim),
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
        ),
        None => (requests(container, name.str()), "must match one of the container's resource requests"),
    };
    if !found {
        errors.push(name.invalid_as(name.str(), why));
    }
}

fn requests(container: FieldRef<Container>, resource: &str) -> bool {
    container.at(Container::RESOURCES).at(ResourceRequirements::REQUESTS).has_key(resource)
}
