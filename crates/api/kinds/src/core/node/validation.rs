//! Validation of nodes, and of changes to them.

use binnacle_validation::repeated;
use std::collections::BTreeSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Limits, Value, json};
use binnacle_validation::ip::Legacy;
use binnacle_validation::metadata::shown;
use binnacle_validation::{checks, ip, names, resource_names};

use super::config_source;
use crate::Features;
use crate::internal;
use crate::tree_names::member;

const TAINTS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOID_PODS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
const FEATURE_NAME_MAX: usize = 253;
const CIDRS_ARE_KEPT: &str = "node updates may not change podCIDR except from \"\" to valid";
const PROVIDER_IS_KEPT: &str = "node updates may not change providerID except from \"\" to valid";

/// Validates any node. The paths of taints and swap are those that kube-apiserver reports.
pub(super) fn node(features: &Features, object: &Value, errors: &mut FieldErrors) {
    let metadata = FieldPath::new("metadata");
    annotations(object, &metadata.child("annotations"), errors);
    taints(object.list_at(&["spec", "taints"]), &metadata.child("taints"), errors);
    resources(object, errors);
    if let Some(capacity) = object.int_at(&["status", "nodeInfo", "swap", "capacity"])
        && capacity <= 0
    {
        let at = metadata.child("nodeSwapStatus").child("capacity");
        errors.push(FieldError::invalid(&at, capacity, "must be greater than zero"));
    }
    declared_features(object, errors);
    pod_cidrs(features, object, errors);
}

/// Validates an update, which includes many of the rules for new nodes.
pub(super) fn update(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let (metadata, spec, status) = (FieldPath::new("metadata"), FieldPath::new("spec"), FieldPath::new("status"));
    annotations(object, &metadata.child("annotations"), errors);
    resources(object, errors);
    declared_features(object, errors);
    let addresses = object.list_at(&["status", "addresses"]);
    let repeated = repeated(addresses, |address| ["type", "address"].map(|name| address.str_at(&[name])));
    for (i, address) in errors.while_room(addresses.iter().enumerate()) {
        if repeated[i] {
            let shown = internal::shown_as("io.k8s.api.core.v1.NodeAddress", Some(address));
            errors.push(FieldError::duplicate(&status.child("addresses").index(i), shown));
        }
    }
    let (cidrs, before) = (object.list_at(&["spec", "podCIDRs"]), old.list_at(&["spec", "podCIDRs"]));
    if !before.is_empty() {
        let changes = if cidrs.len() == before.len() {
            cidrs.iter().zip(before).filter(|(new, old)| new != old).count()
        } else {
            1
        };
        let at = spec.child("podCIDRs");
        errors.extend((0..changes).map(|_| FieldError::forbidden(&at, CIDRS_ARE_KEPT)));
    }
    let provider = old.str_at(&["spec", "providerID"]);
    if !provider.is_empty() && provider != object.str_at(&["spec", "providerID"]) {
        errors.push(FieldError::forbidden(&spec.child("providerID"), PROVIDER_IS_KEPT));
    }
    config_source::spec(object, &spec.child("configSource"), errors);
    config_source::status(object, &status.child("config"), errors);
    taints(object.list_at(&["spec", "taints"]), &metadata.child("taints"), errors);
    if object.str_at(&["spec", "externalID"]) != old.str_at(&["spec", "externalID"]) {
        errors.push(FieldError::forbidden(&spec.child("externalID"), "may not be updated"));
    }
}

fn taints(taints: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (i, taint) in errors.while_room(taints.iter().enumerate()) {
        let at = path.index(i);
        let [key, value, effect] = ["key", "value", "effect"].map(|name| taint.str_at(&[name]));
        checks::qualified_name(&at.child("key"), key, errors);
        let messages = names::label_value(value);
        if !messages.is_empty() {
            errors.push(FieldError::invalid(&at.child("value"), value, messages.join(";")));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        checks::required_one_of(&at.child("effect"), effect, &effects, errors);
        if !seen.insert((effect, key)) {
            let shown = internal::shown_as("io.k8s.api.core.v1.Taint", Some(taint));
            let why = "taints must be unique by key and effect pair";
            errors.push(FieldError::duplicate_because(&at, shown, why));
        }
    }
}

/// Validates annotations that fields have replaced.
fn annotations(object: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let annotation = |name: &str| object.str_at(&["metadata", "annotations", name]);
    let parse = |text: &str| json::parse(text.as_bytes(), &Limits::default()).map_err(|error| error.to_string());
    let text = annotation(TAINTS_ANNOTATION);
    if !text.is_empty() {
        match parse(text) {
            Ok(list) => taints(list.as_list().unwrap_or(&[]), &path.child(TAINTS_ANNOTATION), errors),
            Err(why) => errors.push(FieldError::invalid(path, TAINTS_ANNOTATION, why)),
        }
    }
    let text = annotation(AVOID_PODS_ANNOTATION);
    if text.is_empty() {
        return;
    }
    let avoid = match parse(text) {
        Ok(avoid) => avoid,
        Err(why) => {
            return errors.push(FieldError::invalid(&path.child("AvoidPods"), AVOID_PODS_ANNOTATION, why));
        }
    };
    for (i, entry) in errors.while_room(avoid.list_at(&["preferAvoidPods"]).iter().enumerate()) {
        let at = path.child(AVOID_PODS_ANNOTATION).index(i).child("PodSignature");
        match entry.get("podSignature").and_then(|signature| member(signature, "podController")) {
            None => errors.push(FieldError::required(&at, "")),
            Some(controller) if !controller.bool_at(&["controller"]) => {
                let at = at.child("PodController").child("Controller");
                errors.push(FieldError::invalid(&at, false, "must point to a controller"));
            }
            Some(_) => {}
        }
    }
}

fn resources(object: &Value, errors: &mut FieldErrors) {
    for list in ["capacity", "allocatable"] {
        let members = object.object_at(&["status", list]).into_iter().flat_map(|members| members.iter());
        for (name, value) in errors.while_room(members) {
            let at = FieldPath::new("status").child(list).child(name);
            resource_names::amount(&at, name, value.as_str().unwrap_or(""), errors);
        }
    }
}

/// Validates the features that the node declares, which are sorted and unique (KEP-5328).
fn declared_features(object: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("status").child("declaredFeatures");
    let list = object.list_at(&["status", "declaredFeatures"]);
    let texts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    for (i, name) in errors.while_room(texts.iter().enumerate()) {
        if name.len() > FEATURE_NAME_MAX {
            let why = format!("invalid feature name {name:?}: must be no more than {FEATURE_NAME_MAX} characters");
            errors.push(FieldError::invalid(&path.index(i), *name, why));
        } else if !is_feature_name(name) {
            let why = format!(
                "invalid feature name {name:?}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            errors.push(FieldError::invalid(&path.index(i), *name, why));
        }
        let Some(next) = texts.get(i + 1) else { continue };
        let at = path.index(i + 1);
        if name == next {
            errors.push(FieldError::duplicate(&at, *next));
        } else if name > next {
            errors.push(FieldError::invalid(&at, *next, "list must be sorted alphabetically"));
        }
    }
}

fn is_feature_name(name: &str) -> bool {
    name.split('/').enumerate().all(|(i, segment)| {
        let first = segment.bytes().next();
        let begins = first.is_some_and(|c| c.is_ascii_uppercase() || (i > 0 && c.is_ascii_lowercase()));
        begins && segment.bytes().all(|c| c.is_ascii_alphanumeric())
    })
}

fn pod_cidrs(features: &Features, object: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec").child("podCIDRs");
    let list = object.list_at(&["spec", "podCIDRs"]);
    let texts: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
    let legacy = Legacy::of(features);
    for (i, cidr) in errors.while_room(texts.iter().enumerate()) {
        ip::legacy_cidr(&path.index(i), cidr, &legacy, errors);
    }
    if texts.len() < 2 {
        return;
    }
    let parsed: Vec<_> = texts.iter().map(|cidr| ip::parse_cidr(cidr)).collect();
    if let Some(bad) = parsed.iter().position(Option::is_none) {
        let why = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR address: {}",
            texts[bad]
        );
        errors.push(FieldError::internal(&path, why));
    }
    let v6 = |cidr: &Option<ip::Cidr>| cidr.is_some_and(|cidr| cidr.is_ipv6());
    let dual = parsed.iter().all(Option::is_some) && parsed.iter().any(v6) && !parsed.iter().all(v6);
    if !dual || texts.len() > 2 {
        let why = "may specify no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(&path, shown(object.at(&["spec", "podCIDRs"])), why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules() {
        for (object, want) in [
            (
                value!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]}}),
                vec![],
            ),
            (value!({"spec": {"taints": [{"key": "a"}]}}), vec!["metadata.taints[0].effect: Required value"]),
            (
                value!({"status": {"capacity": {"cpu": "-1", "pods": "1500m"}}}),
                vec![
                    "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                    "status.capacity.pods: Invalid value: \"1500m\": must be an integer",
                ],
            ),
            (
                value!({"status": {"nodeInfo": {"swap": {"capacity": 0i64}}}}),
                vec!["metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"],
            ),
            (value!({"status": {"declaredFeatures": ["A", "B/c", "B/d"]}}), vec![]),
            (
                value!({"status": {"declaredFeatures": ["B", "A", "A"]}}),
                vec![
                    "status.declaredFeatures[1]: Invalid value: \"A\": list must be sorted alphabetically",
                    "status.declaredFeatures[2]: Duplicate value: \"A\"",
                ],
            ),
            (
                value!({"status": {"declaredFeatures": ["a"]}}),
                vec![
                    "status.declaredFeatures[0]: Invalid value: \"a\": invalid feature name \"a\": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
                ],
            ),
            (value!({"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}), vec![]),
            (
                value!({"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}}),
                vec![
                    "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one CIDR for each IP family",
                ],
            ),
            (
                value!({"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/preferAvoidPods":
                    "{\"preferAvoidPods\": [{}, {\"podSignature\": {\"podController\": {\"controller\": false}}}]}"}}}),
                vec![
                    "metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature: Required value",
                    "metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[1].PodSignature.PodController.Controller: Invalid value: false: must point to a controller",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            node(&Features::default(), &object, &mut errors);
            assert_eq!(texts(&errors), want, "{object:?}");
        }
    }

    #[test]
    fn changes() {
        let old = value!({"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "p"}});
        for (new, want) in [
            (value!({"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "p", "unschedulable": true}}), vec![]),
            (
                value!({"spec": {"podCIDRs": ["10.0.1.0/24"], "providerID": "q", "externalID": "x"}}),
                vec![
                    "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
                    "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
                    "spec.externalID: Forbidden: may not be updated",
                ],
            ),
            (
                value!({"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "p"},
                    "status": {"addresses": [{"type": "InternalIP", "address": "1"}, {"type": "InternalIP", "address": "1"}]}}),
                vec!["status.addresses[1]: Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"1\"}"],
            ),
        ] {
            let mut errors = FieldErrors::new();
            update(&new, &old, &mut errors);
            assert_eq!(texts(&errors), want, "{new:?}");
        }
    }
}
