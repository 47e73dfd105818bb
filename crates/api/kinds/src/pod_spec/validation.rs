//! Validation of pods and of templates for pods.

pub(crate) mod annotations;
pub(crate) mod containers;
mod env;
mod fields;
mod handlers;
mod mounts;
mod options;
pub(crate) mod paths;
mod projected;
mod relaxation;
pub(crate) mod requirements;
pub(crate) mod scheduling;
mod security;
pub(crate) mod sources;
mod volumes;
mod windows;

pub(crate) use options::{PodValidationOptions, merges_label_keys};

use std::collections::{HashMap, HashSet};

use binnacle_fields::core::v1::{
    Container, ContainerPort, EnvVar, EnvVarSource, FileKeySelector, HostAlias, PodDNSConfig as DnsConfig,
    PodDNSConfigOption, PodOS, PodReadinessGate, PodResourceClaim, PodSchedulingGate, PodSchedulingGroup, PodSpec,
    PodTemplateSpec, ResourceRequirements, Volume,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Object;
use binnacle_validation::ip::LegacyIpRules;
use binnacle_validation::metadata;
use binnacle_validation::names::inclusive_range_error;
use binnacle_validation::{checks, ip, names, tolerations};

use crate::internal;
use crate::pod_spec::containers::all_containers;

const DEADLINE_MAX: i64 = i32::MAX as i64;
const HOSTNAME_OVERRIDE_MAX: usize = 64;
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_LIST_MAX: usize = 2048;

/// Validates a template, an object with `metadata` and `spec`.
pub(crate) fn template(
    template: FieldRef<PodTemplateSpec>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    // kube-apiserver's paths do not name the metadata.
    let metadata = template.at(PodTemplateSpec::METADATA).located_at(&template);
    let (labels, annotations) = (metadata.at(ObjectMeta::LABELS), metadata.at(ObjectMeta::ANNOTATIONS));
    metadata::validate_labels(labels, errors);
    metadata::validate_annotations(annotations, errors);
    let own = template.at(PodTemplateSpec::SPEC);
    annotations::validate(annotations, own, options, errors);
    spec(own, None, options, errors);
    annotations::match_fields(annotations.object(), own, errors);
    let ephemeral = own.at(PodSpec::EPHEMERAL_CONTAINERS);
    if !ephemeral.is_empty() {
        errors.push(ephemeral.forbidden("ephemeral containers not allowed in pod template"));
    }
}

/// Validates a pod's spec; `metadata` is the pod's, `None` for a template.
pub(crate) fn spec(
    spec: FieldRef<PodSpec>,
    metadata: Option<FieldRef<ObjectMeta>>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let e = errors;
    let grace = spec.at(PodSpec::TERMINATION_GRACE_PERIOD_SECONDS);
    if !grace.is_set() {
        e.push(grace.required(""));
    }
    let pod_name = metadata.map_or("", |metadata| metadata.at(ObjectMeta::NAME).str());
    let (volumes, claims) = (spec.at(PodSpec::VOLUMES), spec.at(PodSpec::RESOURCE_CLAIMS));
    let pod = containers::Pod {
        spec,
        volumes: volumes::validate(&volumes, pod_name, options, e),
        claims: claims.items().map(|claim| claim.at(PodResourceClaim::NAME).str()).filter(|n| !n.is_empty()).collect(),
        options,
        grace: grace.int(),
        host_users: spec.at(PodSpec::HOST_USERS).get_bool() != Some(false),
    };
    resource_claims(claims, metadata, e);
    containers::regular(&pod, e);
    containers::init(&pod, e);
    containers::ephemeral(&pod, e);
    requirements::pod_requirements(spec, &pod.claims, options, e);
    host_network(spec, options, e);
    let policy = spec.at(PodSpec::RESTART_POLICY);
    checks::required_one_of(&policy, policy.str(), &["Always", "OnFailure", "Never"], e);
    let policy = spec.at(PodSpec::DNS_POLICY);
    checks::required_one_of(&policy, policy.str(), &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], e);
    let selector = spec.at(PodSpec::NODE_SELECTOR);
    metadata::validate_labels(selector, e);
    security::of_pod(spec, options, e);
    scheduling::affinity(spec, options, e);
    let legacy = LegacyIpRules::of(options.features);
    dns_config(spec, &legacy, e);
    gates(spec, e);
    scheduling::topology_spread(spec.at(PodSpec::TOPOLOGY_SPREAD_CONSTRAINTS), options, e);
    windows::host_processes(options.features, spec, e);
    security::host_users(spec, options, e);
    names_and_deadline(spec, e);
    let list = spec.at(PodSpec::TOLERATIONS);
    tolerations::validate(list.items(), options.compares_tolerations(), e);
    host_aliases(spec.at(PodSpec::HOST_ALIASES), &legacy, e);
    priority_and_overhead(spec, options, e);
    windows::operating_system(spec, e);
    let group = spec.at(PodSpec::SCHEDULING_GROUP);
    if group.is_set() {
        let name = group.at(PodSchedulingGroup::POD_GROUP_NAME);
        match name.get_str() {
            Some(given) => checks::subdomain(&name, given, e),
            None => e.push(name.invalid_as(name.value(), "must specify one of: `podGroupName`")),
        }
    }
    file_keys(spec, e);
}

fn gates(spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    let readiness = spec.at(PodSpec::READINESS_GATES);
    for gate in errors.while_room(readiness.items()) {
        let condition = gate.at(PodReadinessGate::CONDITION_TYPE);
        checks::qualified_name(&condition, condition.str(), errors);
    }
    let list = spec.at(PodSpec::SCHEDULING_GATES);
    let repeated = crate::checks::repeated(list, PodSchedulingGate::NAME);
    for (i, gate) in errors.while_room(list.items().enumerate()) {
        let name = gate.at(PodSchedulingGate::NAME).str();
        checks::qualified_name(&gate, name, errors);
        if repeated[i] {
            errors.push(FieldError::duplicate(&gate, name));
        }
    }
}

fn names_and_deadline(spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    hostname_override(spec, errors);
    for name in [PodSpec::SERVICE_ACCOUNT_NAME, PodSpec::NODE_NAME] {
        let name = spec.at(name);
        if !name.is_empty() {
            checks::subdomain(&name, name.str(), errors);
        }
    }
    let deadline = spec.at(PodSpec::ACTIVE_DEADLINE_SECONDS);
    if deadline.int().is_some_and(|seconds| !(1..=DEADLINE_MAX).contains(&seconds)) {
        errors.push(deadline.invalid(inclusive_range_error(1, DEADLINE_MAX)));
    }
    for name in [PodSpec::HOSTNAME, PodSpec::SUBDOMAIN] {
        let name = spec.at(name);
        if !name.is_empty() {
            checks::label(&name, name.str(), errors);
        }
    }
}

fn priority_and_overhead(spec: FieldRef<PodSpec>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let class = spec.at(PodSpec::PRIORITY_CLASS_NAME);
    if !class.is_empty() {
        checks::subdomain(&class, class.str(), errors);
    }
    let class = spec.at(PodSpec::RUNTIME_CLASS_NAME);
    if let Some(name) = class.get_str() {
        checks::subdomain(&class, name, errors);
    }
    let preemption = spec.at(PodSpec::PREEMPTION_POLICY);
    if let Some(policy) = preemption.get_str() {
        checks::required_one_of(&preemption, policy, &["PreemptLowerPriority", "Never"], errors);
    }
    let overhead = spec.at(PodSpec::OVERHEAD);
    if let Some(amounts) = overhead.get() {
        let limits = Object::from_iter([(ResourceRequirements::LIMITS.name(), amounts.clone())]).into();
        let (path, holder) = (overhead.path(), requirements::Holder::Container);
        let requirements = FieldRef::located(&limits, &path);
        requirements::requirements(requirements, holder, &Default::default(), options, errors);
    }
}

// === Checks that several files share ===

/// Accepts `Always`, `IfNotPresent` or `Never`.
fn pull_policy(policy: FieldRef<Str>, errors: &mut FieldErrors) {
    checks::required_one_of(&policy, policy.str(), &["Always", "IfNotPresent", "Never"], errors);
}

/// Rejects a field that is set.
fn forbid<T>(field: FieldRef<T>, why: &str, errors: &mut FieldErrors) {
    if field.is_set() {
        errors.push(field.forbidden(why));
    }
}

/// Requires texts.
pub(crate) fn required<M>(holder: FieldRef<M>, fields: &[Field<M, Str>], errors: &mut FieldErrors) {
    for field in fields {
        let field = holder.at(*field);
        checks::required(&field, field.str(), errors);
    }
}

/// Requires a text and validates it.
fn required_by(field: FieldRef<Str>, rule: impl FnOnce(&str) -> Vec<String>, errors: &mut FieldErrors) {
    match field.str() {
        "" => errors.push(field.required("")),
        text => checks::invalid_for(&field, text, rule(text), errors),
    }
}

/// Accepts an absent text or one of the supported ones.
fn optional_one_of(field: FieldRef<Str>, supported: &[&str], errors: &mut FieldErrors) {
    if let Some(text) = field.get_str() {
        checks::one_of(&field, text, supported, errors);
    }
}

/// Returns true for a pod for Windows.
pub(super) fn is_windows(spec: FieldRef<PodSpec>) -> bool {
    spec.at(PodSpec::OS).at(PodOS::NAME).str() == "windows"
}

// === Other parts of the spec ===

fn resource_claims(
    list: FieldRef<List<PodResourceClaim>>,
    metadata: Option<FieldRef<ObjectMeta>>,
    errors: &mut FieldErrors,
) {
    let mut known = HashSet::new();
    for claim in errors.while_room(list.items()) {
        if annotations::is_mirror(metadata) {
            let at = FieldPath::root().key("");
            errors.push(FieldError::forbidden(&at, "static pods do not support resource claims"));
            continue;
        }
        let name = claim.at(PodResourceClaim::NAME);
        match name.str() {
            "" => errors.push(name.required("")),
            given if known.contains(given) => errors.push(name.duplicate()),
            given => {
                checks::label(&name, given, errors);
                known.insert(given);
            }
        }
        let fields = [PodResourceClaim::RESOURCE_CLAIM_NAME, PodResourceClaim::RESOURCE_CLAIM_TEMPLATE_NAME];
        let shown = || internal::shown(claim);
        match fields.map(|field| claim.at(field).is_set()) {
            [true, true] => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.push(claim.invalid_as(shown(), why));
            }
            [false, false] => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.push(claim.invalid_as(shown(), why));
            }
            _ => {}
        }
        for field in fields {
            let name = claim.at(field);
            if let Some(given) = name.get_str() {
                checks::subdomain(&name, given, errors);
            }
        }
    }
}

/// Requires the host ports of containers in the host network to equal their container ports.
fn host_network(spec: FieldRef<PodSpec>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    if !spec.at(PodSpec::HOST_NETWORK).bool() {
        return;
    }
    let containers = spec.at(PodSpec::CONTAINERS);
    for container in errors.while_room(containers.items()) {
        let ports = container.at(Container::PORTS);
        for port in errors.while_room(ports.items()) {
            let host = port.at(ContainerPort::HOST_PORT);
            let number = host.int_or_zero();
            let is_checked = options.is_pod || number != 0;
            if is_checked && number != port.at(ContainerPort::CONTAINER_PORT).int_or_zero() {
                errors.push(host.invalid_as(number, "must match `containerPort` when `hostNetwork` is true"));
            }
        }
    }
}

fn dns_config(spec: FieldRef<PodSpec>, legacy: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    let config = spec.at(PodSpec::DNS_CONFIG);
    let (servers, searches) = (config.at(DnsConfig::NAMESERVERS), config.at(DnsConfig::SEARCHES));
    if spec.at(PodSpec::DNS_POLICY).str() == "None" {
        if !config.is_set() {
            return errors.push(config.required("must provide `dnsConfig` when `dnsPolicy` is None"));
        }
        if servers.is_empty() {
            return errors.push(servers.required("must provide at least one DNS nameserver when `dnsPolicy` is None"));
        }
    }
    if servers.len() > NAMESERVERS_MAX {
        errors.push(servers.invalid(format!("must not have more than {NAMESERVERS_MAX} nameservers")));
    }
    for server in errors.while_room(servers.items()) {
        ip::legacy_ip(&server, server.str(), legacy, errors);
    }
    if searches.len() > SEARCHES_MAX {
        errors.push(searches.invalid(format!("must not have more than {SEARCHES_MAX} search paths")));
    }
    let spaces = searches.len().saturating_sub(1);
    if searches.strs().map(str::len).sum::<usize>() + spaces > SEARCH_LIST_MAX {
        let why = format!("must not have more than {SEARCH_LIST_MAX} characters (including spaces) in the search list");
        errors.push(searches.invalid(why));
    }
    for search in errors.while_room(searches.items().filter(|search| search.str() != ".")) {
        let domain = search.str().strip_suffix('.').unwrap_or(search.str());
        checks::invalid_for(&search, domain, names::dns1123_subdomain_with_underscore(domain), errors);
    }
    let options = config.at(DnsConfig::OPTIONS);
    for option in errors.while_room(options.items()) {
        if option.at(PodDNSConfigOption::NAME).is_empty() {
            errors.push(option.required("must not be empty"));
        }
    }
}

fn hostname_override(spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    let hostname = spec.at(PodSpec::HOSTNAME_OVERRIDE);
    let Some(name) = hostname.get_str() else { return };
    for field in [PodSpec::SET_HOSTNAME_AS_FQDN, PodSpec::HOST_NETWORK] {
        if spec.at(field).bool() {
            errors.push(hostname.forbidden(format!("may not be specified when {} is true", field.name())));
        }
    }
    if name.len() > HOSTNAME_OVERRIDE_MAX {
        errors.push(hostname.too_long(HOSTNAME_OVERRIDE_MAX));
    }
    checks::subdomain(&hostname, name, errors);
}

fn host_aliases(list: FieldRef<List<HostAlias>>, legacy: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    for alias in errors.while_room(list.items()) {
        let ip = alias.at(HostAlias::IP);
        ip::legacy_ip(&ip, ip.str(), legacy, errors);
        let names = alias.at(HostAlias::HOSTNAMES);
        for name in errors.while_room(names.items()) {
            checks::subdomain(&name, name.str(), errors);
        }
    }
}

/// Validates variables from files, which must be in an `emptyDir` volume of the pod.
fn file_keys(spec: FieldRef<PodSpec>, errors: &mut FieldErrors) {
    // Of several volumes with one name the last one counts.
    let volumes = spec.at(PodSpec::VOLUMES);
    let volumes: HashMap<&str, FieldRef<Volume>> =
        volumes.items().map(|volume| (volume.at(Volume::NAME).str(), volume)).collect();
    for container in errors.while_room(all_containers(&spec).iter()) {
        let variables = container.at(Container::ENV);
        for variable in errors.while_room(variables.items()) {
            let source = variable.at(EnvVar::VALUE_FROM);
            let key = source.at(EnvVarSource::FILE_KEY_REF);
            if !key.is_set() {
                continue;
            }
            let name = key.at(FileKeySelector::VOLUME_NAME);
            match volumes.get(name.str()) {
                None => errors.push(FieldError::not_found(&name, name.str())),
                Some(volume) if !volume.at(Volume::EMPTY_DIR).is_set() => {
                    errors.push(name.invalid_as(name.str(), "referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    }
}
