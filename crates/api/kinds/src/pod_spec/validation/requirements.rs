//! Validation of resource requirements: names, amounts, and the agreement of requests and limits.

use std::collections::BTreeSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Quantity};
use binnacle_schema::Value;
use binnacle_validation::{checks, resource_names};

use super::PodValidationOptions;
use crate::tree_names::member;
use binnacle_validation::pod_resources::{aggregate, is_huge_page, is_pod_level, quantity};

/// The owner of resource requirements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Container,
    Pod,
}

pub(super) fn requirements(
    requirements: &Value,
    holder: Holder,
    claims: &BTreeSet<&str>,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let mut seen = Seen::default();
    let limits = requirements.object_at(&["limits"]);
    for (name, value) in errors.while_room(limits.into_iter().flat_map(|limits| limits.iter())) {
        let at = path.child("limits").key(name);
        let Some(limit) = amount(name, value, holder, &at, errors) else { continue };
        seen.note(name, &limit, &at, options, errors);
    }
    for (name, value) in
        errors.while_room(requirements.object_at(&["requests"]).into_iter().flat_map(|requests| requests.iter()))
    {
        let (list, at) = (path.child("requests"), path.child("requests").key(name));
        let Some(request) = amount(name, value, holder, &at, errors) else { continue };
        let overcommit = resource_names::is_native(name) && !is_huge_page(name);
        match limits.and_then(|limits| limits.get(name)).and_then(quantity) {
            Some(limit) if request != limit && !overcommit => {
                let why = format!("must be equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(&list, request.to_string().as_str(), why));
            }
            Some(limit) if request > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(&list, request.to_string().as_str(), why));
            }
            None if !overcommit => {
                let why = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(&path.child("limits"), why));
            }
            _ => {}
        }
        seen.note(name, &request, &at, options, errors);
    }
    if seen.huge_pages && !seen.compute {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    claim_names(requirements.list_at(&["claims"]), claims, &path.child("claims"), errors);
}

/// Validates the resources of the pod as a whole, which must not be below the sum of its containers.
pub(super) fn pod_requirements(
    spec: &Value,
    claims: &BTreeSet<&str>,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let Some(of_pod) = member(spec, "resources") else { return };
    let path = path.child("resources");
    if spec.str_at(&["os", "name"]) == "windows" {
        return errors.push(FieldError::forbidden(&path, "may not be set for a windows pod"));
    }
    if member(of_pod, "claims").is_some() {
        let why = "claims may not be set for Resources at pod-level";
        errors.push(FieldError::forbidden(&path.child("claims"), why));
    }
    requirements(of_pod, Holder::Pod, claims, &path, options, errors);

    let Some(spec) = spec.as_object() else { return };
    let own = |list: &str, name: &str| of_pod.at(&[list, name]).and_then(quantity);
    for (name, sum) in errors.while_room(aggregate(spec, "requests")) {
        let Some(request) = own("requests", &name).filter(|request| sum > *request) else { continue };
        let why = format!("must be greater than or equal to aggregate container requests of {sum}");
        errors.push(FieldError::invalid(&path.child("requests").key(&name), request.to_string().as_str(), why));
    }
    // kube-apiserver's path has no separate `limits` here.
    for (name, sum) in errors.while_room(aggregate(spec, "limits").into_iter().filter(|(name, _)| is_huge_page(name))) {
        let Some(limit) = own("limits", &name).filter(|limit| sum > *limit) else { continue };
        let why = format!("must be greater than or equal to aggregate container limits of {sum}");
        errors.push(FieldError::invalid(&path.child("limits").key(&name), limit.to_string().as_str(), why));
    }
    for (i, container) in
        errors.while_room(spec.get("containers").and_then(Value::as_list).unwrap_or(&[]).iter().enumerate())
    {
        for (name, value) in
            errors.while_room(container.object_at(&["resources", "limits"]).into_iter().flat_map(|l| l.iter()))
        {
            let (Some(limit), Some(max)) = (quantity(value), own("limits", name)) else { continue };
            if limit > max {
                let at = path.child("containers").index(i).key(name).child("limits");
                let why = format!("must be less than or equal to pod limits of {max}");
                errors.push(FieldError::invalid(&at, limit.to_string().as_str(), why));
            }
        }
    }
}

/// Facts about requirements for the rules that concern all resources together.
#[derive(Default)]
struct Seen {
    compute: bool,
    huge_pages: bool,
}

impl Seen {
    fn note(
        &mut self,
        name: &str,
        value: &Quantity,
        path: &FieldPath,
        options: &PodValidationOptions<'_>,
        errors: &mut FieldErrors,
    ) {
        self.compute |= name == "cpu" || name == "memory";
        if is_huge_page(name) {
            self.huge_pages = true;
            if !options.any_huge_pages && !is_divisible(name, value) {
                let why = format!("{value} is not positive integer multiple of {name}");
                errors.push(FieldError::invalid(path, value.to_string().as_str(), why));
            }
        }
    }
}

fn amount(name: &str, value: &Value, holder: Holder, path: &FieldPath, errors: &mut FieldErrors) -> Option<Quantity> {
    match holder {
        Holder::Container => resource_names::of_containers(path, name, errors),
        Holder::Pod => pod_resource_name(name, path, errors),
    }
    let amount = quantity(value)?;
    resource_names::amount(path, name, value.as_str()?, errors);
    Some(amount)
}

fn pod_resource_name(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let before = errors.len();
    resource_names::any(path, name, errors);
    if errors.len() == before && !is_pod_level(name) {
        errors.push(FieldError::not_supported(path, name, &["cpu", "hugepages-", "memory"]));
    }
}

/// Requires that a container uses a claim as a whole or some of its requests, each once.
fn claim_names(list: &[Value], known: &BTreeSet<&str>, path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut all_names = None;
    for (i, claim) in errors.while_room(list.iter().enumerate()) {
        let at = path.index(i);
        let (name, request) = (claim.str_at(&["name"]), claim.str_at(&["request"]));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        if seen.contains(name) {
            errors.push(FieldError::duplicate(&at, name));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                checks::label(&at.child("request"), request, errors);
                key = format!("{name}/{request}");
            }
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(&at, key.as_str()));
            } else if request.is_empty() {
                let own = format!("{name}/");
                let parts = seen.range(own.clone()..).take_while(|seen| seen.starts_with(&own));
                let parts = parts.filter(|seen| seen.split_once('/').is_some_and(|(first, _)| first == name));
                errors.extend(parts.map(|_| FieldError::duplicate(&at, name)));
            }
            seen.insert(key);
        }
        if !known.contains(name) {
            let which = all_names.get_or_insert_with(|| {
                let names: Vec<&str> = known.iter().copied().collect();
                if names.is_empty() { " which is empty".to_owned() } else { format!(": {}", names.join(", ")) }
            });
            let why = format!("must be one of the names in pod.spec.resourceClaims{which}");
            errors.push(FieldError::not_found_because(&at, name, why));
        }
    }
}

pub(super) fn is_divisible(name: &str, amount: &Quantity) -> bool {
    let size = name.strip_prefix("hugepages-").and_then(|size| size.parse::<Quantity>().ok());
    size.is_some_and(|size| size.sign() > 0 && size.milli_value() % 1000 == 0 && amount.value() % size.value() == 0)
}
