//! Validation of resource requirements: names, amounts, and the agreement of requests and limits.

use std::collections::BTreeSet;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Container, PodOS, PodSpec, ResourceClaim, ResourceRequirements as Requirements};
use binnacle_fields::types::{self, List, Map};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, Location, Quantity};
use binnacle_validation::{checks, resource_names};

use super::PodValidationOptions;
use binnacle_validation::pod_resources::{aggregate, is_huge_page, is_pod_level, quantity};

/// The owner of resource requirements.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holder {
    Container,
    Pod,
}

pub(super) fn requirements(
    requirements: FieldRef<Requirements>,
    holder: Holder,
    claims: &BTreeSet<&str>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let mut seen = ResourceSummary::default();
    let (limits, requests) = (requirements.at(Requirements::LIMITS), requirements.at(Requirements::REQUESTS));
    for (name, limit) in errors.while_room(limits.entries()) {
        let Some(given) = amount(name, limit, holder, errors) else { continue };
        seen.record(name, limit, &given, options, errors);
    }
    for (name, request) in errors.while_room(requests.entries()) {
        let Some(given) = amount(name, request, holder, errors) else { continue };
        let overcommit = resource_names::is_native(name) && !is_huge_page(name);
        match quantity(limits.key(name).value()) {
            Some(limit) if given != limit && !overcommit => {
                let why = format!("must be equal to {name} limit of {limit}");
                errors.push(requests.invalid_as(shown(&given), why));
            }
            Some(limit) if given > limit => {
                let why = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(requests.invalid_as(shown(&given), why));
            }
            None if !overcommit => {
                errors.push(limits.required("Limit must be set for non overcommitable resources"));
            }
            _ => {}
        }
        seen.record(name, request, &given, options, errors);
    }
    if seen.huge_pages && !seen.compute {
        errors.push(requirements.forbidden("HugePages require cpu or memory"));
    }
    claim_names(requirements.at(Requirements::CLAIMS), claims, errors);
}

/// Validates the resources of the pod as a whole, which must not be below the sum of its containers.
pub(super) fn pod_requirements(
    spec: FieldRef<PodSpec>,
    claims: &BTreeSet<&str>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let of_pod = spec.at(PodSpec::RESOURCES);
    if !of_pod.is_set() {
        return;
    }
    if spec.at(PodSpec::OS).at(PodOS::NAME).str() == "windows" {
        return errors.push(of_pod.forbidden("may not be set for a windows pod"));
    }
    let own_claims = of_pod.at(Requirements::CLAIMS);
    if own_claims.is_set() {
        errors.push(own_claims.forbidden("claims may not be set for Resources at pod-level"));
    }
    requirements(of_pod, Holder::Pod, claims, options, errors);

    let Some(object) = spec.object() else { return };
    let (limits, requests) = (of_pod.at(Requirements::LIMITS), of_pod.at(Requirements::REQUESTS));
    let less = |own: FieldRef<types::Quantity>, than: &Quantity| quantity(own.value()).filter(|own| than > own);
    for (name, sum) in errors.while_room(aggregate(object, Requirements::REQUESTS.name())) {
        let own = requests.key(&name);
        let Some(request) = less(own, &sum) else { continue };
        let why = format!("must be greater than or equal to aggregate container requests of {sum}");
        errors.push(own.invalid_as(shown(&request), why));
    }
    let sums = aggregate(object, Requirements::LIMITS.name());
    for (name, sum) in errors.while_room(sums.into_iter().filter(|(name, _)| is_huge_page(name))) {
        let own = limits.key(&name);
        let Some(limit) = less(own, &sum) else { continue };
        let why = format!("must be greater than or equal to aggregate container limits of {sum}");
        errors.push(own.invalid_as(shown(&limit), why));
    }
    containers_within(spec, limits, errors);
}

/// Requires the limits of containers not to exceed those of the pod.
fn containers_within(spec: FieldRef<PodSpec>, of_pod: FieldRef<Map<types::Quantity>>, errors: &mut FieldErrors) {
    // kube-apiserver reports the list in the pod's resources, and the name before the field.
    let resources = spec.at(PodSpec::RESOURCES);
    let containers = spec.at(PodSpec::CONTAINERS);
    for (i, container) in errors.while_room(containers.items().enumerate()) {
        let requirements = container.at(Container::RESOURCES);
        let limits = requirements.at(Requirements::LIMITS);
        for (name, limit) in errors.while_room(limits.entries()) {
            let (Some(limit), Some(max)) = (quantity(limit.value()), quantity(of_pod.key(name).value())) else {
                continue;
            };
            if limit > max {
                let at = resources.path().child("containers").index(i).key(name).child("limits");
                let why = format!("must be less than or equal to pod limits of {max}");
                errors.push(FieldError::invalid(&at, shown(&limit), why));
            }
        }
    }
}

/// Facts about requirements for the rules that concern all resources together.
#[derive(Default)]
struct ResourceSummary {
    compute: bool,
    huge_pages: bool,
}

impl ResourceSummary {
    fn record(
        &mut self,
        name: &str,
        field: FieldRef<types::Quantity>,
        amount: &Quantity,
        options: &PodValidationOptions<'_>,
        errors: &mut FieldErrors,
    ) {
        self.compute |= name == "cpu" || name == "memory";
        if is_huge_page(name) {
            self.huge_pages = true;
            if !options.any_huge_pages && !is_divisible(name, amount) {
                let why = format!("{amount} is not positive integer multiple of {name}");
                errors.push(field.invalid_as(shown(amount), why));
            }
        }
    }
}

fn amount(name: &str, field: FieldRef<types::Quantity>, holder: Holder, errors: &mut FieldErrors) -> Option<Quantity> {
    match holder {
        Holder::Container => resource_names::of_containers(&field, name, errors),
        Holder::Pod => pod_resource_name(&field, name, errors),
    }
    let amount = quantity(field.value())?;
    resource_names::amount(&field, name, field.str(), errors);
    Some(amount)
}

fn pod_resource_name(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    let before = errors.len();
    resource_names::any(path, name, errors);
    if errors.len() == before && !is_pod_level(name) {
        errors.push(FieldError::not_supported(path, checks::of_named_type(name), &["cpu", "hugepages-", "memory"]));
    }
}

fn shown(amount: &Quantity) -> ErrorValue {
    ErrorValue::from(amount.to_string().as_str())
}

/// Requires that a container uses a claim as a whole or some of its requests, each once.
fn claim_names(list: FieldRef<List<ResourceClaim>>, known: &BTreeSet<&str>, errors: &mut FieldErrors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    let mut all_names = None;
    for claim in errors.while_room(list.items()) {
        let (name, request) = (claim.at(ResourceClaim::NAME).str(), claim.at(ResourceClaim::REQUEST));
        if name.is_empty() {
            errors.push(claim.required(""));
            continue;
        }
        if seen.contains(name) {
            errors.push(FieldError::duplicate(&claim, name));
        } else {
            let mut key = name.to_owned();
            if !request.is_empty() {
                checks::label(&request, request.str(), errors);
                key = format!("{name}/{}", request.str());
            }
            if seen.contains(&key) {
                errors.push(FieldError::duplicate(&claim, key.as_str()));
            } else if request.is_empty() {
                let own = format!("{name}/");
                let parts = seen.range(own.clone()..).take_while(|seen| seen.starts_with(&own));
                let parts = parts.filter(|seen| seen.split_once('/').is_some_and(|(first, _)| first == name));
                errors.extend(parts.map(|_| FieldError::duplicate(&claim, name)));
            }
            seen.insert(key);
        }
        if !known.contains(name) {
            let which = all_names.get_or_insert_with(|| {
                let names: Vec<&str> = known.iter().copied().collect();
                if names.is_empty() { " which is empty".to_owned() } else { format!(": {}", names.join(", ")) }
            });
            let why = format!("must be one of the names in pod.spec.resourceClaims{which}");
            errors.push(FieldError::not_found_because(&claim, name, why));
        }
    }
}

pub(super) fn is_divisible(name: &str, amount: &Quantity) -> bool {
    let size = name.strip_prefix("hugepages-").and_then(|size| size.parse::<Quantity>().ok());
    size.is_some_and(|size| size.sign() > 0 && size.milli_value() % 1000 == 0 && amount.value() % size.value() == 0)
}
