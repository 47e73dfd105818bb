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
pub(crate) mod requirements;
pub(crate) mod scheduling;
mod security;
pub(crate) mod sources;
mod volumes;
mod windows;

pub(crate) use options::{PodValidationOptions, merges_label_keys};

use binnacle_validation::repeated;
use std::collections::{HashMap, HashSet};

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::ip::Legacy;
use binnacle_validation::metadata::{self, shown};
use binnacle_validation::names::inclusive_range_error;
use binnacle_validation::{checks, ip, names, tolerations};

use crate::internal;
use crate::tree_names::member;

const DEADLINE_MAX: i64 = i32::MAX as i64;
const HOSTNAME_OVERRIDE_MAX: usize = 64;
const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_LIST_MAX: usize = 2048;

/// Validates a template, an object with `metadata` and `spec`.
pub(crate) fn template(
    template: &Value,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let null = Value::Null;
    let own_spec = template.get("spec").unwrap_or(&null);
    let annotations = template.object_at(&["metadata", "annotations"]);
    metadata::labels(template.at(&["metadata", "labels"]), &path.child("labels"), errors);
    let at = path.child("annotations");
    metadata::annotations(template.at(&["metadata", "annotations"]), &at, errors);
    annotations::validate(annotations, own_spec, &at, options, errors);
    spec(own_spec, None, &path.child("spec"), options, errors);
    annotations::match_fields(annotations, own_spec, &path.child("spec"), errors);
    if !own_spec.list_at(&["ephemeralContainers"]).is_empty() {
        let at = path.child("spec").child("ephemeralContainers");
        errors.push(FieldError::forbidden(&at, "ephemeral containers not allowed in pod template"));
    }
}

/// Validates a pod's spec; `metadata` is the pod's, `None` for a template.
pub(crate) fn spec(
    spec: &Value,
    metadata: Option<&Value>,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let e = errors;
    let text = |field: &str| spec.str_at(&[field]);
    let list = |field: &str| spec.list_at(&[field]);
    let grace = spec.int_at(&["terminationGracePeriodSeconds"]);
    if grace.is_none() {
        e.push(FieldError::required(&path.child("terminationGracePeriodSeconds"), ""));
    }
    let pod_name = metadata.map_or("", |metadata| metadata.str_at(&["name"]));
    let volumes = volumes::validate(list("volumes"), pod_name, &path.child("volumes"), options, e);
    let claims = list("resourceClaims").iter().map(|claim| claim.str_at(&["name"])).filter(|name| !name.is_empty());
    let host_users = spec.get("hostUsers").and_then(Value::as_bool) != Some(false);
    let pod = containers::Pod { spec, volumes, claims: claims.collect(), options, grace, host_users };
    resource_claims(list("resourceClaims"), metadata, &path.child("resourceClaims"), e);
    containers::regular(&pod, path, e);
    containers::init(&pod, path, e);
    containers::ephemeral(&pod, path, e);
    requirements::pod_requirements(spec, &pod.claims, path, options, e);
    host_network(spec, path, options, e);
    checks::required_one_of(&path.child("restartPolicy"), text("restartPolicy"), &["Always", "OnFailure", "Never"], e);
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    checks::required_one_of(&path.child("dnsPolicy"), text("dnsPolicy"), &policies, e);
    metadata::labels(spec.get("nodeSelector"), &path.child("nodeSelector"), e);
    security::of_pod(spec, &path.child("securityContext"), options, e);
    scheduling::affinity(spec, &path.child("affinity"), options, e);
    let legacy = Legacy::of(options.features);
    dns_config(spec, &legacy, &path.child("dnsConfig"), e);
    for (i, gate) in list("readinessGates").iter().enumerate() {
        let at = path.child("readinessGates").index(i).child("conditionType");
        checks::qualified_name(&at, gate.str_at(&["conditionType"]), e);
    }
    scheduling_gates(list("schedulingGates"), &path.child("schedulingGates"), e);
    let at = path.child("topologySpreadConstraints");
    scheduling::topology_spread(list("topologySpreadConstraints"), &at, options, e);
    windows::host_processes(options.features, spec, path, e);
    security::host_users(spec, path, options, e);
    hostname_override(spec, path, e);
    for field in ["serviceAccountName", "nodeName"] {
        if !text(field).is_empty() {
            checks::subdomain(&path.child(field), text(field), e);
        }
    }
    if let Some(seconds) = spec.int_at(&["activeDeadlineSeconds"])
        && !(1..=DEADLINE_MAX).contains(&seconds)
    {
        let at = path.child("activeDeadlineSeconds");
        e.push(FieldError::invalid(&at, seconds, inclusive_range_error(1, DEADLINE_MAX)));
    }
    for field in ["hostname", "subdomain"] {
        if !text(field).is_empty() {
            checks::label(&path.child(field), text(field), e);
        }
    }
    tolerations::tolerations(list("tolerations"), options.compares_tolerations(), &path.child("tolerations"), e);
    host_aliases(list("hostAliases"), &legacy, &path.child("hostAliases"), e);
    if !text("priorityClassName").is_empty() {
        checks::subdomain(&path.child("priorityClassName"), text("priorityClassName"), e);
    }
    if let Some(name) = spec.get("runtimeClassName").and_then(Value::as_str) {
        checks::subdomain(&path.child("runtimeClassName"), name, e);
    }
    if let Some(policy) = spec.get("preemptionPolicy").and_then(Value::as_str) {
        let at = path.child("preemptionPolicy");
        checks::required_one_of(&at, policy, &["PreemptLowerPriority", "Never"], e);
    }
    if let Some(overhead) = member(spec, "overhead") {
        let limits = binnacle_schema::Object::from_iter([("limits", overhead.clone())]).into();
        let holder = requirements::Holder::Container;
        requirements::requirements(&limits, holder, &Default::default(), &path.child("overhead"), options, e);
    }
    windows::operating_system(spec, path, e);
    if let Some(group) = member(spec, "schedulingGroup") {
        let at = path.child("schedulingGroup").child("podGroupName");
        match group.get("podGroupName").and_then(Value::as_str) {
            Some(name) => checks::subdomain(&at, name, e),
            None => e.push(FieldError::invalid(&at, shown(None), "must specify one of: `podGroupName`")),
        }
    }
    file_keys(spec, path, e);
}

/// Accepts `Always`, `IfNotPresent` or `Never`.
pub(super) fn pull_policy(path: &FieldPath, policy: &str, errors: &mut FieldErrors) {
    checks::required_one_of(path, policy, &["Always", "IfNotPresent", "Never"], errors);
}

fn resource_claims(list: &[Value], metadata: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    let mut known = HashSet::new();
    for (i, claim) in errors.while_room(list.iter().enumerate()) {
        if annotations::is_mirror(metadata) {
            let at = FieldPath::root().key("");
            errors.push(FieldError::forbidden(&at, "static pods do not support resource claims"));
            continue;
        }
        let at = path.index(i);
        match claim.str_at(&["name"]) {
            "" => errors.push(FieldError::required(&at.child("name"), "")),
            name if known.contains(name) => errors.push(FieldError::duplicate(&at.child("name"), name)),
            name => {
                checks::label(&at.child("name"), name, errors);
                known.insert(name);
            }
        }
        let fields = ["resourceClaimName", "resourceClaimTemplateName"];
        let given = fields.map(|field| claim.get(field).and_then(Value::as_str));
        let shown = || internal::shown_as("io.k8s.api.core.v1.PodResourceClaim", Some(claim));
        match given {
            [Some(_), Some(_)] => {
                let why = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.push(FieldError::invalid(&at, shown(), why));
            }
            [None, None] => {
                let why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.push(FieldError::invalid(&at, shown(), why));
            }
            _ => {}
        }
        for (field, name) in fields.iter().zip(given) {
            if let Some(name) = name {
                checks::subdomain(&at.child(field), name, errors);
            }
        }
    }
}

/// Requires the host ports of containers in the host network to equal their container ports.
fn host_network(spec: &Value, path: &FieldPath, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    if !spec.bool_at(&["hostNetwork"]) {
        return;
    }
    for (i, container) in errors.while_room(spec.list_at(&["containers"]).iter().enumerate()) {
        for (j, port) in errors.while_room(container.list_at(&["ports"]).iter().enumerate()) {
            let number = |field: &str| port.int_at(&[field]).unwrap_or(0);
            let host = number("hostPort");
            if (options.is_pod || host != 0) && host != number("containerPort") {
                let at = path.child("containers").index(i).child("ports").index(j).child("hostPort");
                let why = "must match `containerPort` when `hostNetwork` is true";
                errors.push(FieldError::invalid(&at, host, why));
            }
        }
    }
}

fn dns_config(spec: &Value, legacy: &Legacy<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let config = member(spec, "dnsConfig");
    let texts = |field: &str| {
        let items = config.map_or(&[][..], |config| config.list_at(&[field]));
        items.iter().filter_map(Value::as_str).collect::<Vec<_>>()
    };
    let (servers, searches) = (texts("nameservers"), texts("searches"));
    if spec.str_at(&["dnsPolicy"]) == "None" {
        if config.is_none() {
            return errors.push(FieldError::required(path, "must provide `dnsConfig` when `dnsPolicy` is None"));
        }
        if servers.is_empty() {
            let why = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.push(FieldError::required(&path.child("nameservers"), why));
        }
    }
    let Some(config) = config else { return };
    let mut too_many = |field: &str, why: String| {
        errors.push(FieldError::invalid(&path.child(field), shown(config.get(field)), why));
    };
    if servers.len() > NAMESERVERS_MAX {
        too_many("nameservers", format!("must not have more than {NAMESERVERS_MAX} nameservers"));
    }
    for (i, server) in errors.while_room(servers.iter().enumerate()) {
        ip::legacy_ip(&path.child("nameservers").index(i), server, legacy, errors);
    }
    let mut too_many = |why: String| {
        errors.push(FieldError::invalid(&path.child("searches"), shown(config.get("searches")), why));
    };
    if searches.len() > SEARCHES_MAX {
        too_many(format!("must not have more than {SEARCHES_MAX} search paths"));
    }
    if searches.join(" ").len() > SEARCH_LIST_MAX {
        too_many(format!("must not have more than {SEARCH_LIST_MAX} characters (including spaces) in the search list"));
    }
    for (i, search) in errors.while_room(searches.iter().enumerate().filter(|(_, search)| **search != ".")) {
        let search = search.strip_suffix('.').unwrap_or(search);
        let messages = names::dns1123_subdomain_with_underscore(search);
        checks::invalid_for(&path.child("searches").index(i), search, messages, errors);
    }
    for (i, option) in errors.while_room(config.list_at(&["options"]).iter().enumerate()) {
        if option.str_at(&["name"]).is_empty() {
            errors.push(FieldError::required(&path.child("options").index(i), "must not be empty"));
        }
    }
}

fn scheduling_gates(list: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let repeated = repeated(list, |gate| gate.str_at(&["name"]));
    for (i, gate) in errors.while_room(list.iter().enumerate()) {
        let name = gate.str_at(&["name"]);
        checks::qualified_name(&path.index(i), name, errors);
        if repeated[i] {
            errors.push(FieldError::duplicate(&path.index(i), name));
        }
    }
}

fn hostname_override(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(name) = spec.get("hostnameOverride").and_then(Value::as_str) else { return };
    let at = path.child("hostnameOverride");
    for field in ["setHostnameAsFQDN", "hostNetwork"] {
        if spec.bool_at(&[field]) {
            errors.push(FieldError::forbidden(&at, format!("may not be specified when {field} is true")));
        }
    }
    if name.len() > HOSTNAME_OVERRIDE_MAX {
        errors.push(FieldError::too_long(&at, HOSTNAME_OVERRIDE_MAX));
    }
    checks::subdomain(&at, name, errors);
}

fn host_aliases(list: &[Value], legacy: &Legacy<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    for (i, alias) in errors.while_room(list.iter().enumerate()) {
        let at = path.index(i);
        ip::legacy_ip(&at.child("ip"), alias.str_at(&["ip"]), legacy, errors);
        for (j, name) in errors.while_room(alias.list_at(&["hostnames"]).iter().filter_map(Value::as_str).enumerate()) {
            checks::subdomain(&at.child("hostnames").index(j), name, errors);
        }
    }
}

/// Validates variables from files, which must be in an `emptyDir` volume of the pod.
fn file_keys(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    // Of several volumes with one name the last one counts.
    let volumes: HashMap<&str, &Value> =
        spec.list_at(&["volumes"]).iter().map(|volume| (volume.str_at(&["name"]), volume)).collect();
    for (container, at) in errors.while_room(containers::all(spec, path)) {
        for (i, variable) in errors.while_room(container.list_at(&["env"]).iter().enumerate()) {
            let Some(key) = variable.at(&["valueFrom", "fileKeyRef"]).filter(|key| !key.is_null()) else { continue };
            let name = key.str_at(&["volumeName"]);
            let at = at.child("env").index(i).child("valueFrom").child("fileKeyRef").child("volumeName");
            match volumes.get(name) {
                None => errors.push(FieldError::not_found(&at, name)),
                Some(volume) if member(volume, "emptyDir").is_none() => {
                    errors.push(FieldError::invalid(&at, name, "referenced volume must be of type emptyDir"));
                }
                Some(_) => {}
            }
        }
    }
}
