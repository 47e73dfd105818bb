//! The total resources of a pod: the sum of its containers, or the peak during startup if that is more (KEP-753), or
//! the pod-level resources (KEP-2837).

use std::collections::BTreeMap;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Container, PodSpec, ResourceRequirements};
use binnacle_fields::types::{self, Field, Map};
use binnacle_meta::Quantity;

pub(crate) type Resources = BTreeMap<String, Quantity>;

/// Selects requests or limits.
pub(crate) type AmountsField = Field<ResourceRequirements, Map<types::Quantity>>;

pub(crate) const REQUESTS: AmountsField = ResourceRequirements::REQUESTS;
pub(crate) const LIMITS: AmountsField = ResourceRequirements::LIMITS;

/// Returns the quantities of a resource list.
pub(crate) fn amounts(list: FieldRef<Map<types::Quantity>>) -> Resources {
    list.entries().filter_map(|(name, amount)| Some((name.to_owned(), amount.get_str()?.parse().ok()?))).collect()
}

/// Returns the requests or limits of a container.
pub(crate) fn of_container(container: FieldRef<Container>, field: AmountsField) -> Resources {
    amounts(container.at(Container::RESOURCES).at(field))
}

/// Returns the pod's total requests or limits.
pub(crate) fn of_pod(spec: FieldRef<PodSpec>, field: AmountsField) -> Resources {
    let mut sum = Resources::new();
    for container in spec.at(PodSpec::CONTAINERS).values() {
        add(&mut sum, &of_container(container, field));
    }
    // Sidecars are added to all init containers that start after them, and to the containers.
    let mut running = Resources::new();
    let mut start = Resources::new();
    for container in spec.at(PodSpec::INIT_CONTAINERS).values() {
        let own = of_container(container, field);
        let at_once = if container.at(Container::RESTART_POLICY).str() == "Always" {
            add(&mut sum, &own);
            add(&mut running, &own);
            running.clone()
        } else {
            let mut at_once = own;
            add(&mut at_once, &running);
            at_once
        };
        take_max(&mut start, &at_once);
    }
    take_max(&mut sum, &start);
    for (name, amount) in amounts(spec.at(PodSpec::RESOURCES).at(field)) {
        if ["cpu", "memory"].contains(&name.as_str()) {
            sum.insert(name, amount);
        }
    }
    sum
}

/// Returns [`of_pod`] plus the overhead of the pod's runtime class, which is only added to limits that are set.
pub(crate) fn of_pod_with_overhead(spec: FieldRef<PodSpec>, field: AmountsField) -> Resources {
    let mut sum = of_pod(spec, field);
    for (name, amount) in amounts(spec.at(PodSpec::RESOURCES).at(field)) {
        if name.starts_with("hugepages-") {
            sum.insert(name, amount);
        }
    }
    let mut overhead = amounts(spec.at(PodSpec::OVERHEAD));
    if field.name() == LIMITS.name() {
        overhead.retain(|name, _| sum.get(name).is_some_and(|limit| !limit.is_zero()));
    }
    add(&mut sum, &overhead);
    sum
}

pub(crate) fn add(sum: &mut Resources, more: &Resources) {
    for (name, amount) in more {
        match sum.get_mut(name) {
            Some(present) => present.add(amount),
            None => drop(sum.insert(name.clone(), amount.clone())),
        }
    }
}

fn take_max(sum: &mut Resources, other: &Resources) {
    for (name, amount) in other {
        if sum.get(name).is_none_or(|present| amount > present) {
            sum.insert(name.clone(), amount.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn takes_the_peak_of_startup_and_running() {
        let container = |cpu: &str| value!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| value!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        for (init, containers, own, want) in [
            (vec![], vec![container("1"), container("500m")], value!({}), "1500m"),
            (vec![container("2")], vec![container("1")], value!({}), "2"),
            (vec![sidecar("1"), container("2")], vec![container("1")], value!({}), "3"),
            (vec![container("2"), sidecar("1")], vec![container("3")], value!({}), "4"),
            (vec![], vec![container("1")], value!({"requests": {"cpu": "5"}}), "5"),
        ] {
            let pod = value!({"spec": {"initContainers": init, "containers": containers, "resources": own}});
            assert_eq!(of_pod(crate::plugins::pod::spec(&pod), REQUESTS)["cpu"].to_string(), want);
        }
    }
}
