//! Lists of resource quantities: rounding, sums over the containers of a pod, and the resulting QoS class.

use std::collections::HashMap;

use binnacle_meta::{Quantity, Text};
use binnacle_schema::{Object, Value};

const MILLI: i32 = -3;

const LISTS: [&str; 2] = ["limits", "requests"];

/// Rounds quantities up to thousandths.
pub fn round_up(list: &mut Object) {
    for (_, value) in list.iter_mut() {
        let Some(mut quantity) = quantity(value) else { continue };
        if !quantity.round_up(MILLI) {
            *value = quantity.to_string().into();
        }
    }
}

/// Rounds `limits` and `requests`.
pub fn round_up_requirements(requirements: &mut Object) {
    for name in LISTS {
        if let Some(list) = requirements.get_mut(name).and_then(Value::as_object_mut) {
            round_up(list);
        }
    }
}

/// Sets absent requests of containers to their limits. For pods only, not for templates.
pub fn default_requests_to_limits(spec: &mut Object) {
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_list_mut).into_iter().flatten();
        for container in containers.filter_map(Value::as_object_mut) {
            let Some(requirements) = container.get_mut("resources").and_then(Value::as_object_mut) else { continue };
            let Some(limits) = requirements.get("limits").and_then(Value::as_object).cloned() else { continue };
            // An empty list is not part of the object, and has no owner.
            if limits.is_empty() {
                continue;
            }
            let requests = requirements.object_entry("requests");
            for (name, limit) in limits {
                requests.entry(&name, || limit);
            }
        }
    }
}

/// Sets absent pod-level limits and requests, if the pod has pod-level resources: limits of huge pages are the totals
/// of the containers; requests are their totals too, or else the limits (KEP-2837).
pub fn default_pod_resources(spec: &mut Object) {
    if spec.get("resources").and_then(Value::as_object).is_none() {
        return;
    }
    default_huge_page_limits(spec);
    let Some(limits) = spec_list(spec, "limits").filter(|limits| !limits.is_empty()).cloned() else { return };
    let mut requests = spec_list(spec, "requests").cloned().unwrap_or_default();
    for (name, sum) in aggregate(spec, "requests") {
        if is_pod_level(&name) && !is_huge_page(&name) {
            requests.entry(&name, || sum.to_string().into());
        }
    }
    for (name, limit) in limits {
        if is_pod_level(&name) {
            requests.entry(&name, || limit);
        }
    }
    set_spec_list(spec, "requests", requests);
}

/// Returns [`qos_class`] of a whole pod.
pub fn qos_class_of_pod(pod: &Value) -> &'static str {
    pod.object_at(&["spec"]).map_or("BestEffort", qos_class)
}

/// Returns the QoS class of a pod: `BestEffort` without requests and limits, `Guaranteed` if requests equal limits.
pub fn qos_class(spec: &Object) -> &'static str {
    let mut sums = [Sums::default(), Sums::default()];
    let mut limited = true;
    let mut count = |requirements: Option<&Value>| {
        for (sums, name) in sums.iter_mut().zip(LISTS) {
            let list = requirements.and_then(|r| r.get(name)).and_then(Value::as_object);
            let mut positive = 0;
            for (name, quantity) in quantities(list).filter(|(name, q)| is_compute(name) && q.sign() > 0) {
                positive += 1;
                sums.add(name, &quantity);
            }
            limited &= name != "limits" || positive == 2;
        }
    };
    match spec.get("resources").filter(|resources| !resources.is_null()) {
        Some(resources) => count(Some(resources)),
        None => {
            for list in ["containers", "initContainers"] {
                let containers = spec.get(list).and_then(Value::as_list).unwrap_or(&[]);
                containers.iter().for_each(|container| count(container.get("resources")));
            }
        }
    }
    let [limits, requests] = sums.map(|sums| sums.list);
    if limits.is_empty() && requests.is_empty() {
        return "BestEffort";
    }
    let same = requests.len() == limits.len() && requests.iter().all(|request| limits.contains(request));
    if limited && same { "Guaranteed" } else { "Burstable" }
}

/// Returns the total `requests` or `limits` of a pod's containers: init containers run one at a time before the others,
/// and sidecars run alongside all containers that follow them.
pub fn aggregate(spec: &Object, list: &str) -> Vec<(Text, Quantity)> {
    let containers = |name: &str| spec.get(name).and_then(Value::as_list).unwrap_or(&[]);
    let own = |container: &Value| -> Vec<(Text, Quantity)> {
        quantities(container.object_at(&["resources", list])).map(|(name, q)| (name.clone(), q)).collect()
    };
    let mut total = Sums::default();
    for container in containers("containers") {
        own(container).iter().for_each(|(name, q)| total.add(name, q));
    }
    // Only the resources that a container requests can raise the peak: the use of all others is the same as while the
    // container before it ran.
    let (mut running, mut peak) = (Sums::default(), Sums::default());
    for container in containers("initContainers") {
        let own = own(container);
        if container.str_at(&["restartPolicy"]) == "Always" {
            for (name, q) in &own {
                total.add(name, q);
                running.add(name, q);
                peak.raise(name, running.get(name).unwrap_or(q));
            }
        } else {
            for (name, mut now) in own {
                if let Some(beside) = running.get(&name) {
                    now.add(beside);
                }
                peak.raise(&name, &now);
            }
        }
    }
    peak.list.iter().for_each(|(name, least)| total.raise(name, least));
    total.list
}

/// Parses a quantity of a decoded object, which is valid.
pub fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str().and_then(|text| text.parse().ok())
}

pub fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Returns true if a pod as a whole can have requests and limits for this resource.
pub fn is_pod_level(name: &str) -> bool {
    is_compute(name) || is_huge_page(name)
}

fn is_compute(name: &str) -> bool {
    name == "cpu" || name == "memory"
}

fn default_huge_page_limits(spec: &mut Object) {
    let is_empty = |name: &str| spec_list(spec, name).is_none_or(Object::is_empty);
    if is_empty("limits") && is_empty("requests") {
        return;
    }
    let mut limits = spec_list(spec, "limits").cloned().unwrap_or_default();
    for (name, sum) in aggregate(spec, "limits") {
        let requested = spec_list(spec, "requests").is_some_and(|requests| requests.contains(&name));
        if is_huge_page(&name) && !requested {
            limits.entry(&name, || sum.to_string().into());
        }
    }
    set_spec_list(spec, "limits", limits);
}

fn spec_list<'a>(spec: &'a Object, name: &str) -> Option<&'a Object> {
    spec.get("resources").and_then(|resources| resources.object_at(&[name]))
}

fn set_spec_list(spec: &mut Object, name: &str, list: Object) {
    if !list.is_empty() {
        spec.object_entry("resources").insert(name, list);
    }
}

fn quantities(list: Option<&Object>) -> impl Iterator<Item = (&Text, Quantity)> {
    list.into_iter().flat_map(Object::iter).filter_map(|(name, value)| Some((name, quantity(value)?)))
}

/// Quantities by resource name, in the order of first occurrence.
#[derive(Default)]
struct Sums {
    list: Vec<(Text, Quantity)>,
    positions: HashMap<Text, usize>,
}

impl Sums {
    fn add(&mut self, name: &Text, quantity: &Quantity) {
        match self.positions.get(name) {
            Some(at) => self.list[*at].1.add(quantity),
            None => self.push(name, quantity),
        }
    }

    /// Raises a sum to at least this quantity.
    fn raise(&mut self, name: &Text, least: &Quantity) {
        match self.positions.get(name) {
            Some(at) if self.list[*at].1 < *least => self.list[*at].1 = least.clone(),
            Some(_) => {}
            None => self.push(name, least),
        }
    }

    fn push(&mut self, name: &Text, quantity: &Quantity) {
        self.positions.insert(name.clone(), self.list.len());
        self.list.push((name.clone(), quantity.clone()));
    }

    fn get(&self, name: &Text) -> Option<&Quantity> {
        self.positions.get(name).map(|at| &self.list[*at].1)
    }
}
