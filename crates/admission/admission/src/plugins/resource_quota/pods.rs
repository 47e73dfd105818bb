//! Usage of pods: their number and the resources that they request.

use std::collections::{BTreeMap, BTreeSet};

use binnacle_meta::{Quantity, Time};
use binnacle_schema::Value;

use super::counts::count_of;
use super::evaluator::{Evaluator, number, selects};
use crate::plugin::Request;
use crate::plugins::pod_resources::{Resources, amounts, of_pod_with_overhead};

pub(super) struct Pods;

const PODS: &str = "pods";
/// Resources for which quotas limit `requests.NAME`, `limits.NAME` and NAME, which means requests.
const MEASURED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// The resources that each container must set where a quota limits them.
const REQUIRED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];
const REQUESTS: &str = "requests.";
const HUGE_PAGES: &str = "hugepages-";
const DEVICE_CLASS: &str = "deviceclass.resource.kubernetes.io/";

impl Evaluator for Pods {
    fn handles(&self, request: Request<'_>, pod: &Value) -> bool {
        match request.attributes.subresource.as_str() {
            "" => request.old.is_none_or(|old| is_terminating(old) != is_terminating(pod)),
            "resize" => request.is_update(),
            _ => false,
        }
    }

    fn counts(&self, name: &str) -> bool {
        let measured = |name: &str| MEASURED.contains(&name);
        let requested = name.strip_prefix(REQUESTS);
        name == PODS
            || name == count_of("", PODS)
            || measured(name)
            || name.strip_prefix("limits.").is_some_and(measured)
            || name.starts_with(HUGE_PAGES)
            || requested.is_some_and(|name| measured(name) || name.starts_with(HUGE_PAGES) || is_extended(name))
    }

    fn usage(&self, pod: &Value) -> Resources {
        let mut usage = Resources::from([(count_of("", PODS), number(1))]);
        if is_counted(pod) {
            let (requests, limits) = (of_pod_with_overhead(pod, "requests"), of_pod_with_overhead(pod, "limits"));
            usage.insert(PODS.to_owned(), number(1));
            usage.extend(measured(&requests, &limits));
        }
        usage
    }

    fn constraints(&self, required: &[&str], pod: &Value) -> Result<(), String> {
        let of_pod = |member| amounts(pod, &["spec", "resources", member]);
        // Resources that are set for the whole pod need not be set by its containers.
        let supported = |name: &String| MEASURED[..2].contains(&name.as_str()) || name.starts_with(HUGE_PAGES);
        if of_pod("requests").keys().any(supported) || of_pod("limits").keys().any(supported) {
            return Ok(());
        }
        let required: BTreeSet<&str> = required.iter().copied().filter(|name| REQUIRED.contains(name)).collect();
        let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for container in ["containers", "initContainers"].into_iter().flat_map(|m| pod.list_at(&["spec", m])) {
            let said = |member| amounts(container, &["resources", member]);
            let said = measured(&said("requests"), &said("limits"));
            for name in required.iter().filter(|name| !said.contains_key(**name)) {
                missing.entry(name).or_default().insert(container.str_at(&["name"]));
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

    fn in_scope(&self, selector: &Value, pod: &Value) -> bool {
        match selector.str_at(&["scopeName"]) {
            "Terminating" => is_terminating(pod),
            "NotTerminating" => !is_terminating(pod),
            "BestEffort" => is_best_effort(pod),
            "NotBestEffort" => !is_best_effort(pod),
            "PriorityClass" => {
                let name = pod.str_at(&["spec", "priorityClassName"]);
                selects(selector, if name.is_empty() { &[] } else { std::slice::from_ref(&name) })
            }
            "CrossNamespacePodAffinity" => minds_other_namespaces(pod),
            _ => false,
        }
    }
}

/// Returns the amounts under the names by which quotas limit them.
fn measured(requests: &Resources, limits: &Resources) -> Resources {
    let mut measured: BTreeMap<String, Quantity> = BTreeMap::new();
    for (name, amount) in requests {
        let named = MEASURED.contains(&name.as_str()) || name.starts_with(HUGE_PAGES);
        if named {
            measured.insert(name.clone(), amount.clone());
        }
        if named || is_extended(name) {
            measured.insert(format!("{REQUESTS}{name}"), amount.clone());
        }
    }
    for (name, amount) in limits.iter().filter(|(name, _)| MEASURED.contains(&name.as_str())) {
        measured.insert(format!("limits.{name}"), amount.clone());
    }
    measured
}

/// Returns true for extended resources and for resources of device classes.
fn is_extended(name: &str) -> bool {
    (name.contains('/') && !name.contains("kubernetes.io/")) || name.starts_with(DEVICE_CLASS)
}

fn is_terminating(pod: &Value) -> bool {
    pod.int_at(&["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0)
}

/// Returns true if a pod counts: it has not finished, and is not past its deletion grace period.
fn is_counted(pod: &Value) -> bool {
    if ["Failed", "Succeeded"].contains(&pod.str_at(&["status", "phase"])) {
        return false;
    }
    let deleted = Time::parse(pod.str_at(&["metadata", "deletionTimestamp"])).ok();
    let grace = pod.int_at(&["metadata", "deletionGracePeriodSeconds"]);
    match (deleted, grace) {
        (Some(deleted), Some(grace)) => {
            binnacle_registry::Context::internal("").now_seconds() <= deleted.unix_seconds().saturating_add(grace)
        }
        _ => true,
    }
}

fn is_best_effort(pod: &Value) -> bool {
    let class = pod.str_at(&["status", "qosClass"]);
    if !class.is_empty() {
        return class == "BestEffort";
    }
    let asks = |object: &Value, path: &[&str]| {
        amounts(object, path).iter().any(|(name, amount)| MEASURED[..2].contains(&name.as_str()) && amount.sign() > 0)
    };
    let of_pod = ["requests", "limits"].iter().any(|member| asks(pod, &["spec", "resources", member]));
    let containers = ["containers", "initContainers"].into_iter().flat_map(|member| pod.list_at(&["spec", member]));
    let mut containers =
        containers.map(|c| ["requests", "limits"].iter().any(|member| asks(c, &["resources", member])));
    !of_pod && !containers.any(|asks| asks)
}

fn minds_other_namespaces(pod: &Value) -> bool {
    let crosses = |term: &Value| {
        !term.list_at(&["namespaces"]).is_empty() || term.get("namespaceSelector").is_some_and(|s| !s.is_null())
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms = |member| pod.list_at(&["spec", "affinity", kind, member]).iter();
        let preferred = terms("preferredDuringSchedulingIgnoredDuringExecution");
        terms("requiredDuringSchedulingIgnoredDuringExecution").any(crosses)
            || preferred.filter_map(|weighted| weighted.get("podAffinityTerm")).any(crosses)
    })
}
