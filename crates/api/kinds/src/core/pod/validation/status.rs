//! Validation of a pod's status, which its node reports.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::ip::Legacy;
use binnacle_validation::metadata::shown;
use binnacle_validation::names::inclusive_range_error;
use binnacle_validation::{checks, ip, repeated};

use super::{reported, update};
use crate::Features;
use crate::pod_spec::validation::PodValidationOptions;
use crate::pod_spec::validation::containers::restarts_all_containers;
use crate::tree_names::member;

const ID_MAX: i64 = i32::MAX as i64;
const HEALTH_MESSAGE_MAX: usize = 1024;
const NOT_NEGATIVE: &str = "must be a non-negative integer";
const STATUSES: [&str; 3] = ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"];

pub(in crate::core::pod) fn validate(features: &Features, object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    update::annotations(object, old, &PodValidationOptions::for_pod_update(features, old), &mut errors);
    let path = FieldPath::new("status");
    let null = Value::Null;
    let (spec, status) = (object.get("spec").unwrap_or(&null), object.get("status").unwrap_or(&null));
    let old_status = old.get("status").unwrap_or(&null);
    conditions(status, &path.child("conditions"), &mut errors);
    nominated_node(features, object, old, &path.child("nominatedNodeName"), &mut errors);
    if let Some(generation) = status.int_at(&["observedGeneration"]).filter(|generation| *generation < 0) {
        errors.push(FieldError::invalid(&path.child("observedGeneration"), generation, NOT_NEGATIVE));
    }
    let class = |status: &Value| status.str_at(&["qosClass"]).to_owned();
    let at = path.child("qosClass");
    checks::immutable(&at, class(status) == class(old_status), class(status).as_str(), &mut errors);
    for list in STATUSES {
        let (new, old_list) = (status.list_at(&[list]), old_status.list_at(&[list]));
        transitions(features, list, new, old_list, old, &path.child(list), &mut errors);
    }
    claim_statuses(status, spec, &path.child("resourceClaimStatuses"), &mut errors);
    extended_claim(status, spec, &path.child("extendedResourceClaimStatus"), &mut errors);
    reported::node_allocatable(status, spec, &path.child("nodeAllocatableResourceClaimStatuses"), &mut errors);
    let legacy = Legacy::of(features);
    addresses(status, old_status, "podIPs", legacy.clone(), &path, &mut errors);
    host_addresses(status, old_status, legacy, &path, &mut errors);
    for list in STATUSES {
        users(status.list_at(&[list]), spec, &path.child(list), &mut errors);
    }
    for (list, containers) in [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")] {
        let containers = spec.list_at(&[containers]);
        allocated(status.list_at(&[list]), containers, &path.child(list), &mut errors);
    }
    for (i, status) in errors.while_room(status.list_at(&["ephemeralContainerStatuses"]).iter().enumerate()) {
        if !status.list_at(&["allocatedResourcesStatus"]).is_empty() {
            let at = path.child("ephemeralContainerStatuses").index(i).child("allocatedResourcesStatus");
            errors.push(FieldError::forbidden(&at, "must not be specified in container status"));
        }
    }
    for list in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        reported::mounted_images(status, list, &path, &mut errors);
    }
    errors
}

fn conditions(status: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (i, condition) in errors.while_room(status.list_at(&["conditions"]).iter().enumerate()) {
        if let Some(generation) = condition.int_at(&["observedGeneration"]).filter(|generation| *generation < 0) {
            let at = path.index(i).child("observedGeneration");
            errors.push(FieldError::invalid(&at, generation, NOT_NEGATIVE));
        }
        let kind = condition.str_at(&["type"]);
        if !["PodScheduled", "Ready", "Initialized"].contains(&kind) {
            checks::qualified_name(&path.index(i).child("Type"), kind, errors);
        }
    }
}

fn nominated_node(features: &Features, object: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let nominated = |object: &Value| object.str_at(&["status", "nominatedNodeName"]).to_owned();
    let (name, old_name) = (nominated(object), nominated(old));
    if name == old_name || name.is_empty() {
        return;
    }
    checks::subdomain(path, &name, errors);
    let is_bound = !old.str_at(&["spec", "nodeName"]).is_empty();
    if is_bound && features.enabled("ClearingNominatedNodeNameAfterBinding") {
        let why = "may not be set on pods that are already bound to a node";
        errors.push(FieldError::forbidden(path, why));
    }
}

/// Rejects terminated containers that run again, unless their restart policy restarts them.
fn transitions(
    features: &Features,
    list: &str,
    new: &[Value],
    old: &[Value],
    pod: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let null = Value::Null;
    let spec = pod.get("spec").unwrap_or(&null);
    let containers = match list {
        "containerStatuses" => spec.list_at(&["containers"]),
        "initContainerStatuses" => spec.list_at(&["initContainers"]),
        _ => &[],
    };
    if list != "ephemeralContainerStatuses"
        && PodValidationOptions::for_pod_update(features, pod).allows_restart_of_all()
        && restarts_all_containers(spec)
    {
        return;
    }
    let containers = first_by_name(containers);
    let running = new.iter().filter(|new| new.at(&["state", "terminated"]).is_none_or(Value::is_null));
    let running: HashSet<&str> = running.map(|new| new.str_at(&["name"])).collect();
    for (i, old) in errors.while_room(old.iter().enumerate()) {
        let Some(ended) = old.at(&["state", "terminated"]).filter(|ended| !ended.is_null()) else { continue };
        let name = old.str_at(&["name"]);
        if !running.contains(name) {
            continue;
        }
        let code = ended.int_at(&["exitCode"]).unwrap_or(0);
        let container = containers.get(name);
        if !container.is_some_and(|container| should_restart(container, spec, code)) {
            let why = "may not be transitioned to non-terminated state";
            errors.push(FieldError::forbidden(&path.index(i).child("state"), why));
        }
    }
}

/// Returns the first container of each name.
fn first_by_name<'a>(containers: impl IntoIterator<Item = &'a Value>) -> HashMap<&'a str, &'a Value> {
    let mut by_name = HashMap::new();
    for container in containers {
        by_name.entry(container.str_at(&["name"])).or_insert(container);
    }
    by_name
}

fn should_restart(container: &Value, spec: &Value, code: i64) -> bool {
    let matches = |rule: &&Value| {
        let Some(codes) = member(rule, "exitCodes") else { return false };
        let found = codes.list_at(&["values"]).contains(&Value::Int(code));
        match codes.str_at(&["operator"]) {
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
    let own = container.get("restartPolicy").and_then(Value::as_str);
    if own.is_some() && container.list_at(&["restartPolicyRules"]).iter().find(matches).is_some() {
        return true;
    }
    own.and_then(by).or_else(|| by(spec.str_at(&["restartPolicy"]))).unwrap_or(true)
}

fn claim_statuses(status: &Value, spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list = status.list_at(&["resourceClaimStatuses"]);
    let repeated = repeated(list, |claim| claim.str_at(&["name"]));
    let known: HashSet<&str> = spec.list_at(&["resourceClaims"]).iter().map(|known| known.str_at(&["name"])).collect();
    for (i, claim) in errors.while_room(list.iter().enumerate()) {
        let at = path.index(i);
        let name = claim.str_at(&["name"]);
        if !known.contains(name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.push(FieldError::invalid(&at.child("name"), name, why));
        }
        if repeated[i] {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        if let Some(claim) = claim.get("resourceClaimName").and_then(Value::as_str) {
            checks::subdomain(&at.child("resourceClaimName"), claim, errors);
        }
    }
}

fn extended_claim(status: &Value, spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(claim) = member(status, "extendedResourceClaimStatus") else { return };
    let mappings = claim.list_at(&["requestMappings"]);
    let at = path.child("requestMappings");
    if mappings.is_empty() {
        errors.push(FieldError::required(&at, "at least one request mapping is required"));
    }
    let containers = first_by_name(["containers", "initContainers"].iter().flat_map(|list| spec.list_at(&[list])));
    let mut seen = HashSet::new();
    for (i, mapping) in errors.while_room(mappings.iter().enumerate()) {
        let at = at.index(i);
        let text = |field: &str| mapping.str_at(&[field]);
        let (name, resource, request) = (text("containerName"), text("resourceName"), text("requestName"));
        match containers.get(name) {
            None => {
                let why = "must match the name of an entry in spec.initContainers.name or spec.containers.name";
                errors.push(FieldError::invalid(&at.child("containerName"), name, why));
            }
            Some(container) if container.at(&["resources", "requests", resource]).is_none() => {
                let why = "must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests";
                errors.push(FieldError::invalid(&at.child("resourceName"), resource, why));
            }
            Some(_) => {}
        }
        checks::label(&path.child("requestName"), request, errors);
        if !seen.insert((name, resource, request)) {
            for (field, value) in [("containerName", name), ("resourceName", resource), ("requestName", request)] {
                errors.push(FieldError::duplicate(&at.child(field), value));
            }
        }
    }
    match claim.str_at(&["resourceClaimName"]) {
        "" => errors.push(FieldError::required(&path.child("resourceClaimName"), "")),
        name => checks::subdomain(&path.child("resourceClaimName"), name, errors),
    }
}

/// Validates addresses: at most one of each family.
fn addresses<'a>(
    status: &Value,
    old: &'a Value,
    field: &str,
    legacy: Legacy<'a>,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let list = status.list_at(&[field]);
    let legacy = legacy.knowing(old.list_at(&[field]).iter().map(|known| known.str_at(&["ip"])));
    for (i, item) in errors.while_room(list.iter().enumerate()) {
        ip::legacy_ip(&path.child(field).index(i), item.str_at(&["ip"]), &legacy, errors);
    }
    if list.len() < 2 {
        return;
    }
    let parsed: Vec<_> = list.iter().map(|item| ip::parse_ip(item.str_at(&["ip"]))).collect();
    if let Some(bad) = parsed.iter().position(Option::is_none) {
        let why = format!("failed to check for dual stack with error:invalid IP[{bad}]: {}", list[bad].str_at(&["ip"]));
        errors.push(FieldError::internal(&path.child(field), why));
    }
    let v6 = |address: &Option<std::net::IpAddr>| address.is_some_and(|address| address.is_ipv6());
    let dual = parsed.iter().all(Option::is_some) && parsed.iter().any(v6) && !parsed.iter().all(v6);
    if !dual || list.len() > 2 {
        let items = list.iter().map(|item| Object::from_iter([("IP", Value::from(item.str_at(&["ip"])))]).into());
        let all = Value::List(items.collect());
        let why = "may specify no more than one IP for each IP family";
        errors.push(FieldError::invalid(&path.child(field), shown(Some(&all)), why));
    }
}

fn host_addresses<'a>(status: &Value, old: &'a Value, legacy: Legacy<'a>, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(first) = status.list_at(&["hostIPs"]).first().map(|first| first.str_at(&["ip"])) else { return };
    if status.str_at(&["hostIP"]) != first {
        let at = path.child("hostIPs").index(0).child("ip");
        errors.push(FieldError::invalid(&at, first, "must be equal to `hostIP`"));
    }
    addresses(status, old, "hostIPs", legacy, path, errors);
}

fn users(statuses: &[Value], spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let os = member(spec, "os").map_or("linux", |os| os.str_at(&["name"]));
    for (i, status) in errors.while_room(statuses.iter().enumerate()) {
        let Some(user) = status.at(&["user", "linux"]).filter(|user| !user.is_null()) else { continue };
        let at = path.index(i).child("user").child("linux");
        if os == "windows" {
            errors.push(FieldError::forbidden(&at, "cannot be set for a windows pod"));
        }
        if os != "linux" {
            continue;
        }
        let mut id = |at: FieldPath, id: i64| {
            if !(0..=ID_MAX).contains(&id) {
                errors.push(FieldError::invalid(&at, id, inclusive_range_error(0, ID_MAX)));
            }
        };
        for field in ["uid", "gid"] {
            id(at.child(field), user.int_at(&[field]).unwrap_or(0));
        }
        for (j, group) in user.list_at(&["supplementalGroups"]).iter().filter_map(Value::as_i64).enumerate() {
            id(at.child("supplementalGroups").index(j), group);
        }
    }
}

/// Validates the health of devices, which must belong to claims of the container.
fn allocated(statuses: &[Value], containers: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let containers = first_by_name(containers);
    for (i, status) in errors.while_room(statuses.iter().enumerate()) {
        let container = containers.get(status.str_at(&["name"]));
        let claims = container.map(|container| asked_claims(container)).unwrap_or_default();
        for (j, resource) in errors.while_room(status.list_at(&["allocatedResourcesStatus"]).iter().enumerate()) {
            let at = path.index(i).child("allocatedResourcesStatus").index(j);
            if let Some(container) = container {
                asked_for(container, &claims, resource.str_at(&["name"]), &at.child("name"), errors);
            }
            let mut seen = HashSet::new();
            for (k, device) in errors.while_room(resource.list_at(&["resources"]).iter().enumerate()) {
                let at = at.child("resources").index(k);
                let health = device.str_at(&["health"]);
                checks::one_of(&at.child("health"), health, &["Healthy", "Unhealthy", "Unknown"], errors);
                match device.get("message").and_then(Value::as_str) {
                    Some("") => {
                        errors.push(FieldError::required(&at.child("message"), "must be non-empty if specified"));
                    }
                    Some(text) if text.len() > HEALTH_MESSAGE_MAX => {
                        errors.push(FieldError::too_long(&at.child("message"), HEALTH_MESSAGE_MAX));
                    }
                    _ => {}
                }
                let id = device.str_at(&["resourceID"]);
                if !seen.insert(id) {
                    errors.push(FieldError::duplicate(&at.child("resourceID"), id));
                }
            }
        }
    }
}

/// Returns the claims of a container as statuses name them: `claim` or `claim/request`.
fn asked_claims(container: &Value) -> HashSet<Cow<'_, str>> {
    let claims = container.list_at(&["resources", "claims"]).iter();
    let named = claims.map(|claim| match (claim.str_at(&["name"]), claim.str_at(&["request"])) {
        (name, "") => Cow::Borrowed(name),
        (name, request) => Cow::Owned(format!("{name}/{request}")),
    });
    named.collect()
}

fn asked_for(
    container: &Value,
    claims: &HashSet<Cow<'_, str>>,
    name: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let (found, why) = match name.strip_prefix("claim:") {
        Some(claim) => (
            claims.contains(claim),
            "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty",
        ),
        None => {
            let asked = container.at(&["resources", "requests", name]).is_some();
            (asked, "must match one of the container's resource requests")
        }
    };
    if !found {
        errors.push(FieldError::invalid(path, name, why));
    }
}
