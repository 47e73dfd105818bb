//! The usage of pods: their number and resources.

use std::collections::{BTreeMap, BTreeSet};

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Affinity, Container, Pod, PodAffinity, PodAffinityTerm as Term, PodSpec, PodStatus, ResourceRequirements,
    WeightedPodAffinityTerm,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::{Quantity, Time};
use binnacle_schema::Value;

use super::counts::count_of;
use super::evaluator::{Evaluator, Selector, number, selects};
use crate::plugin::Request;
use crate::plugins::pod;
use crate::plugins::pod_resources::{LIMITS, REQUESTS, Resources, amounts, of_container, of_pod_with_overhead};

pub(super) struct Pods;

const PODS: &str = "pods";
/// Resources that quotas limit as `requests.NAME`, `limits.NAME` and `NAME`, which is the same as `requests.NAME`.
const MEASURED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// The resources that every container must set if a quota limits them.
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const REQUESTED: &str = "requests.";
const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

impl Evaluator for Pods {
    fn handles(&self, request: Request<'_>, pod: &Value) -> bool {
        match request.attributes.subresource.as_str() {
            "" => request.old.is_none_or(|old| is_terminating(pod::spec(old)) != is_terminating(pod::spec(pod))),
            "resize" => request.is_update(),
            _ => false,
        }
    }

    fn counts(&self, name: &str) -> bool {
        let measured = |name: &str| MEASURED.contains(&name);
        let requested = name.strip_prefix(REQUESTED);
        name == PODS
            || name == count_of("", PODS)
            || measured(name)
            || name.strip_prefix("limits.").is_some_and(measured)
            || name.starts_with(HUGE_PAGES)
            || requested.is_some_and(|name| measured(name) || name.starts_with(HUGE_PAGES) || is_extended(name))
    }

    fn usage(&self, pod: &Value) -> Resources {
        let mut usage = Resources::from([(count_of("", PODS), number(1))]);
        let pod = FieldRef::<Pod>::root(pod);
        if is_counted(pod) {
            let spec = pod.at(Pod::SPEC);
            let [requests, limits] = [REQUESTS, LIMITS].map(|field| of_pod_with_overhead(spec, field));
            usage.insert(PODS.to_owned(), number(1));
            usage.extend(measured(&requests, &limits));
        }
        usage
    }

    fn constraints(&self, required: &[&str], pod: &Value) -> Result<(), String> {
        let spec = pod::spec(pod);
        let of_pod = |field| amounts(spec.at(PodSpec::RESOURCES).at(field));
        // Resources that are set for the whole pod need not be set by its containers.
        let supported = |name: &String| MEASURED[..2].contains(&name.as_str()) || name.starts_with(HUGE_PAGES);
        if of_pod(REQUESTS).keys().any(supported) || of_pod(LIMITS).keys().any(supported) {
            return Ok(());
        }
        let required: BTreeSet<&str> = required.iter().copied().filter(|name| REQUIRED.contains(name)).collect();
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for container in containers(spec) {
            let amounts_set = measured(&of_container(container, REQUESTS), &of_container(container, LIMITS));
            for name in required.iter().filter(|name| !amounts_set.contains_key(**name)) {
                missing.entry(name).or_default().insert(container.at(Container::NAME).str());
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let joined = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(",");
        let each: Vec<String> =
            missing.into_iter().map(|(name, containers)| format!("{name} for: {}", joined(containers))).collect();
        Err(format!("must specify {}", each.join("; ")))
    }

    fn in_scope(&self, selector: FieldRef<Selector>, pod: &Value) -> bool {
        let pod = FieldRef::<Pod>::root(pod);
        let spec = pod.at(Pod::SPEC);
        match selector.at(Selector::SCOPE_NAME).str() {
            "Terminating" => is_terminating(spec),
            "NotTerminating" => !is_terminating(spec),
            "BestEffort" => is_best_effort(pod),
            "NotBestEffort" => !is_best_effort(pod),
            "PriorityClass" => {
                let name = spec.at(PodSpec::PRIORITY_CLASS_NAME).str();
                selects(selector, if name.is_empty() { &[] } else { std::slice::from_ref(&name) })
            }
            "CrossNamespacePodAffinity" => has_cross_namespace_affinity(spec),
            _ => false,
        }
    }

    fn scoping<'v>(&self, pod: &'v Value) -> Vec<&'v str> {
        let pod = FieldRef::<Pod>::root(pod);
        let spec = pod.at(Pod::SPEC).detached();
        let held = [
            (is_terminating(spec), "Terminating"),
            (is_best_effort(pod), "BestEffort"),
            (has_cross_namespace_affinity(spec), "CrossNamespacePodAffinity"),
        ];
        let class = spec.at(PodSpec::PRIORITY_CLASS_NAME).str();
        held.into_iter().filter(|(holds, _)| *holds).map(|(_, scope)| scope).chain([class]).collect()
    }
}

/// Returns the quantities by the names that quotas use.
fn measured(requests: &Resources, limits: &Resources) -> Resources {
    let mut measured: BTreeMap<String, Quantity> = BTreeMap::new();
    for (name, amount) in requests {
        let named = MEASURED.contains(&name.as_str()) || name.starts_with(HUGE_PAGES);
        if named {
            measured.insert(name.clone(), amount.clone());
        }
        if named || is_extended(name) {
            measured.insert(format!("{REQUESTED}{name}"), amount.clone());
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| MEASURED.contains(&name.as_str())) {
        measured.insert(format!("limits.{name}"), amount.clone());
    }
    measured
}

/// Returns true for extended resources and for the resources of device classes.
fn is_extended(name: &str) -> bool {
    (name.contains('/') && !name.contains("kubernetes.io/")) || name.starts_with(DEVICE_CLASS)
}

fn containers<'v>(spec: FieldRef<'_, 'v, PodSpec>) -> impl Iterator<Item = FieldRef<'static, 'v, Container>> {
    [PodSpec::CONTAINERS, PodSpec::INIT_CONTAINERS].into_iter().flat_map(move |list| spec.at(list).values())
}

fn is_terminating(spec: FieldRef<PodSpec>) -> bool {
    spec.at(PodSpec::ACTIVE_DEADLINE_SECONDS).int().is_some_and(|seconds| seconds >= 0)
}

/// Returns true if a pod is charged: it is not terminal and not past its deletion grace period.
fn is_counted(pod: FieldRef<Pod>) -> bool {
    if ["Failed", "Succeeded"].contains(&pod.at(Pod::STATUS).at(PodStatus::PHASE).str()) {
        return false;
    }
    let metadata = pod.at(Pod::METADATA);
    let deleted = Time::parse(metadata.at(ObjectMeta::DELETION_TIMESTAMP).str()).ok();
    let grace = metadata.at(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS).int();
    match (deleted, grace) {
        (Some(deleted), Some(grace)) => {
            binnacle_registry::Context::internal("").now_seconds() <= deleted.unix_seconds().saturating_add(grace)
        }
        _ => true,
    }
}

fn is_best_effort(pod: FieldRef<Pod>) -> bool {
    let class = pod.at(Pod::STATUS).at(PodStatus::QOS_CLASS).str();
    if !class.is_empty() {
        return class == "BestEffort";
    }
    let has_amounts = |requirements: FieldRef<ResourceRequirements>| {
        let is_positive =
            |(name, amount): (&String, &Quantity)| MEASURED[..2].contains(&name.as_str()) && amount.sign() > 0;
        [REQUESTS, LIMITS].into_iter().any(|field| amounts(requirements.at(field)).iter().any(is_positive))
    };
    let spec = pod.at(Pod::SPEC);
    !has_amounts(spec.at(PodSpec::RESOURCES))
        && !containers(spec).any(|container| has_amounts(container.at(Container::RESOURCES)))
}

fn has_cross_namespace_affinity(spec: FieldRef<PodSpec>) -> bool {
    let crosses =
        |term: FieldRef<Term>| !term.at(Term::NAMESPACES).is_empty() || term.at(Term::NAMESPACE_SELECTOR).is_set();
    let affinity = spec.at(PodSpec::AFFINITY);
    // Both have the same fields.
    [affinity.at(Affinity::POD_AFFINITY), affinity.at(Affinity::POD_ANTI_AFFINITY).cast()].iter().any(|kind| {
        let mut preferred = kind.at(PodAffinity::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION).values();
        kind.at(PodAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION).values().any(crosses)
            || preferred.any(|weighted| crosses(weighted.at(WeightedPodAffinityTerm::POD_AFFINITY_TERM)))
    })
}
