//! Validation of a ResourceSlice.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Quantity, SemanticVersion};
use binnacle_schema::{Object, Value};
use binnacle_validation::metadata::shown;
use binnacle_validation::{checks, names, resource_names};

use super::capacity_validation::request_policy;
use super::claim_validation::EFFECTS;
use super::names::{binding_conditions, bounded, duplicates, pool_name, qualified_name};
use crate::checks::{immutable_value, invalid_each, items, member, one_of, present, spec_path};
use crate::internal;
use crate::prepare::semantically_equal;
use crate::storage::driver_name;

const DEVICES_MAX: usize = 128;
const ADVANCED_DEVICES_MAX: usize = 64;
const COUNTER_SETS_MAX: usize = 8;
const COUNTERS_MAX: usize = 32;
const CONSUMPTIONS_MAX: usize = 2;
const VALUES_MAX: usize = 32;
const ATTRIBUTE_VALUES_MAX: usize = 48;
const ATTRIBUTE_MAX: usize = 64;
const TAINTS_MAX: usize = 16;
const KEY_MAX: usize = 63 + 1 + 32;
const LABEL_MAX: usize = 63;

/// Validates a slice; devices that `old` has too may keep their taints.
pub(super) fn slice(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(object, "spec"), spec_path());
    let old_spec = old.map(|old| member(old, "spec"));
    driver_name(spec.str_at(&["driver"]), &path.child("driver"), &mut errors);
    pool(member(spec, "pool"), &path.child("pool"), &mut errors);
    if let Some(old) = old_spec {
        let pool = path.child("pool").child("name");
        immutable_value(&pool, spec.at(&["pool", "name"]), old.at(&["pool", "name"]), &mut errors);
        for name in ["driver", "nodeName"] {
            immutable_value(&path.child(name), spec.get(name), old.get(name), &mut errors);
        }
    }
    nodes(spec, &path, &mut errors);
    if present(spec, "sharedCounters").is_some() && present(spec, "devices").is_some() {
        errors.push(FieldError::invalid(&path, "", "only one of `sharedCounters` or `devices` is allowed"));
    }
    devices(spec, old_spec, &path, &mut errors);
    let counter_sets = bounded(spec, "sharedCounters", COUNTER_SETS_MAX, &path, &mut errors);
    for (at, set) in errors.while_room(&counter_sets) {
        counters(set, "name", at, &mut errors);
    }
    duplicates(&counter_sets, |set| set.str_at(&["name"]).to_owned(), &mut errors);
    errors
}

fn pool(pool: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    pool_name(&path.child("name"), pool.str_at(&["name"]), errors);
    let count = pool.int_at(&["resourceSliceCount"]).unwrap_or(0);
    if count <= 0 {
        errors.push(FieldError::invalid(&path.child("resourceSliceCount"), count, "must be greater than zero"));
    }
    let generation = pool.int_at(&["generation"]).unwrap_or(0);
    if generation < 0 {
        let detail = "must be greater than or equal to zero";
        errors.push(FieldError::invalid(&path.child("generation"), generation, detail));
    }
}

/// Validates the nodes of the devices, which are given by exactly one of four members.
fn nodes(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let mut set = node_fields(spec, "must be either unset or set to a non-empty string", true, path, errors);
    match present(spec, "perDeviceNodeSelection").and_then(Value::as_bool) {
        Some(true) => set.push("`perDeviceNodeSelection`"),
        Some(false) => {
            let at = path.child("perDeviceNodeSelection");
            errors.push(FieldError::invalid(&at, false, "must be either unset or set to true"));
        }
        None => {}
    }
    match set.len() {
        0 => errors.push(FieldError::required(path, ONE)),
        1 => {}
        _ => {
            let detail = format!("{ONE}, but multiple fields are set");
            errors.push(FieldError::invalid(path, &format!("{{{}}}", set.join(", ")), detail));
        }
    }
}

/// Returns the node fields of a slice or a device that are set.
fn node_fields(
    object: &Value,
    empty: &str,
    one_term: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Vec<&'static str> {
    let mut set = Vec::new();
    if let Some(node) = present(object, "nodeName").and_then(Value::as_str) {
        let at = path.child("nodeName");
        if node.is_empty() {
            errors.push(FieldError::invalid(&at, node, empty));
        } else {
            set.push("`nodeName`");
            checks::subdomain(&at, node, errors);
        }
    }
    if let Some(selector) = present(object, "nodeSelector") {
        set.push("`nodeSelector`");
        let at = path.child("nodeSelector");
        super::node_selector(selector, &at, errors);
        let terms = selector.list_at(&["nodeSelectorTerms"]);
        if one_term && terms.len() != 1 {
            let terms: Vec<Value> =
                terms.iter().map(|t| internal::internal("io.k8s.api.core.v1.NodeSelectorTerm", Some(t))).collect();
            let shown = if terms.is_empty() { shown(None) } else { shown(Some(&Value::List(terms))) };
            let detail = "must have exactly one node selector term";
            errors.push(FieldError::invalid(&at.child("nodeSelectorTerms"), shown, detail));
        }
    }
    match present(object, "allNodes").and_then(Value::as_bool) {
        Some(true) => set.push("`allNodes`"),
        Some(false) => {
            let detail = "must be either unset or set to true";
            errors.push(FieldError::invalid(&path.child("allNodes"), false, detail));
        }
        None => {}
    }
    set
}

fn devices(spec: &Value, old: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];
    let advanced = spec.list_at(&["devices"]).iter().any(|device| {
        ["taints", "consumesCounters"].iter().any(|list| !device.list_at(&[list]).is_empty())
            || attributes(device).any(|(_, attribute)| LISTS.iter().any(|list| present(attribute, list).is_some()))
    });
    let max = if advanced { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    let per_device = spec.bool_at(&["perDeviceNodeSelection"]);
    let devices = bounded(spec, "devices", max, path, errors);
    for (at, device) in errors.while_room(&devices) {
        let name = device.str_at(&["name"]);
        let old_devices = old.map(|old| old.list_at(&["devices"])).unwrap_or_default();
        let old_device = old_devices.iter().find(|old| old.str_at(&["name"]) == name);
        validate_device(device, old_device, per_device, at, errors);
    }
    duplicates(&devices, |device| device.str_at(&["name"]).to_owned(), errors);
}

fn attributes(device: &Value) -> impl Iterator<Item = (&str, &Value)> {
    members(device, "attributes")
}

fn members<'a>(object: &'a Value, name: &str) -> impl Iterator<Item = (&'a str, &'a Value)> + use<'a> {
    let members = object.object_at(&[name]).into_iter().flat_map(Object::iter);
    members.map(|(name, value)| (name.as_str(), value))
}

fn validate_device(device: &Value, old: Option<&Value>, per_device: bool, path: &FieldPath, errors: &mut FieldErrors) {
    checks::label(&path.child("name"), device.str_at(&["name"]), errors);
    let values = attributes(device).count() + members(device, "capacity").count();
    if values > VALUES_MAX {
        let detail = format!("the total number of attributes and capacities must not exceed {VALUES_MAX}");
        errors.push(FieldError::invalid(path, values, detail));
    }
    let values: usize = attributes(device).map(|(_, attribute)| value_count(attribute)).sum();
    if values > ATTRIBUTE_VALUES_MAX {
        let detail = format!("the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}");
        errors.push(FieldError::invalid(path, values, detail));
    }
    let at = path.child("attributes");
    for (name, attribute) in errors.while_room(attributes(device)) {
        qualified_name(&at, name, errors);
        validate_attribute(attribute, &at.key(&shortened(name, KEY_MAX)), errors);
    }
    let shared = device.bool_at(&["allowMultipleAllocations"]);
    let at = path.child("capacity");
    for (name, capacity) in errors.while_room(members(device, "capacity")) {
        qualified_name(&at, name, errors);
        if let Some(policy) = present(capacity, "requestPolicy") {
            let at = at.key(&shortened(name, KEY_MAX)).child("requestPolicy");
            if shared {
                request_policy(policy, capacity.str_at(&["value"]), &at, errors);
            } else {
                errors.push(FieldError::forbidden(&at, "allowMultipleAllocations must be true"));
            }
        }
    }
    if !old.is_some_and(|old| semantically_equal(old.get("taints"), device.get("taints"))) {
        for (at, taint) in bounded(device, "taints", TAINTS_MAX, path, errors) {
            validate_taint(taint, None, &at, errors);
        }
    }
    let consumptions = bounded(device, "consumesCounters", CONSUMPTIONS_MAX, path, errors);
    for (at, consumption) in errors.while_room(&consumptions) {
        counters(consumption, "counterSet", at, errors);
    }
    duplicates(&consumptions, |consumption| consumption.str_at(&["counterSet"]).to_owned(), errors);
    device_nodes(device, per_device, path, errors);
    binding_conditions(device, path, errors);
    mappings(device, &path.child("nodeAllocatableResourceMappings"), errors);
}

fn device_nodes(device: &Value, per_device: bool, path: &FieldPath, errors: &mut FieldErrors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    if per_device {
        let set = node_fields(device, "must not be empty", false, path, errors);
        match set.len() {
            0 => errors.push(FieldError::required(path, ONE)),
            1 => {}
            _ => errors.push(FieldError::invalid(path, &format!("{{{}}}", set.join(", ")), ONE)),
        }
    } else if ["nodeName", "nodeSelector", "allNodes"].iter().any(|name| present(device, name).is_some()) {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.push(FieldError::invalid(path, shown(None), detail));
    }
}

fn value_count(attribute: &Value) -> usize {
    let lists: usize =
        ["bools", "ints", "strings", "versions"].iter().map(|list| attribute.list_at(&[list]).len()).sum();
    lists.max(1)
}

fn validate_attribute(attribute: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mut fields = ["bool", "int"].iter().filter(|name| present(attribute, name).is_some()).count();
    for (name, rule) in [("string", text as fn(&str, &FieldPath, &mut FieldErrors)), ("version", version)] {
        if let Some(value) = present(attribute, name).and_then(Value::as_str) {
            fields += 1;
            rule(value, &path.child(name), errors);
        }
    }
    for name in ["bools", "ints", "strings", "versions"] {
        let Some(list) = present(attribute, name) else { continue };
        fields += 1;
        if list.as_list().is_some_and(<[Value]>::is_empty) {
            errors.push(FieldError::invalid(&path.child(name), shown(Some(list)), "must not be empty if specified"));
        }
        for (at, item) in errors.while_room(items(attribute, name, path)) {
            match (name, item.as_str()) {
                ("strings", Some(value)) => text(value, &at, errors),
                ("versions", Some(value)) => version(value, &at, errors),
                _ => {}
            }
        }
    }
    let detail = "exactly one value must be specified";
    match fields {
        0 => errors.push(FieldError::invalid(path, "", detail)),
        1 => {}
        _ => {
            let shown = internal::shown_as("io.k8s.api.resource.v1.DeviceAttribute", Some(attribute));
            errors.push(FieldError::invalid(path, shown, detail));
        }
    }
}

fn text(value: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if value.len() > ATTRIBUTE_MAX {
        errors.push(FieldError::too_long(path, ATTRIBUTE_MAX));
    }
}

fn version(value: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if SemanticVersion::parse(value).is_err() {
        let detail = "must be a string compatible with semver.org spec 2.0.0";
        errors.push(FieldError::invalid(path, value, detail));
    }
    text(value, path, errors);
}

/// Validates a taint; an unchanged effect may be unknown.
pub(super) fn validate_taint(taint: &Value, old: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    checks::qualified_name(&path.child("key"), taint.str_at(&["key"]), errors);
    let value = taint.str_at(&["value"]);
    invalid_each(&path.child("value"), value, &names::label_value(value), errors);
    let (effect, at) = (taint.str_at(&["effect"]), path.child("effect"));
    if old.is_some_and(|old| old.str_at(&["effect"]) == effect) {
        return;
    }
    if effect.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        one_of(&at, effect, &EFFECTS, errors);
    }
}

/// Validates the name of a set of counters, and the counters.
fn counters(set: &Value, name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let (value, at) = (set.str_at(&[name]), path.child(name));
    if value.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        checks::label(&at, value, errors);
    }
    let at = path.child("counters");
    match members(set, "counters").count() {
        0 => errors.push(FieldError::required(&at, "")),
        count if count > COUNTERS_MAX => errors.push(FieldError::too_many(&at, count, COUNTERS_MAX)),
        _ => members(set, "counters").for_each(|(name, _)| checks::label(&at, name, errors)),
    }
}

fn mappings(device: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    for (name, mapping) in errors.while_room(members(device, "nodeAllocatableResourceMappings")) {
        let path = path.key(name);
        if !resource_names::is_native(name) {
            errors.push(FieldError::invalid(&path, name, "must be a node allocatable resource name"));
        }
        let [multiplier, key] =
            ["allocationMultiplier", "capacityKey"].map(|name| present(mapping, name).and_then(Value::as_str));
        if multiplier.is_none() && key.is_none() {
            let detail = "at least one of allocationMultiplier or capacityKey must be set";
            errors.push(FieldError::invalid(&path, "", detail));
        }
        if let Some(multiplier) = multiplier
            && Quantity::parse(multiplier).is_ok_and(|quantity| quantity.sign() <= 0)
        {
            errors.push(FieldError::invalid(&path.child("allocationMultiplier"), multiplier, "must be positive"));
        }
        let at = path.child("capacityKey");
        match key {
            Some("") => errors.push(FieldError::invalid(&at, "", "capacityKey must not be an empty string")),
            Some(key) if device.at(&["capacity", key]).is_none() => {
                errors.push(FieldError::not_found(&at, key));
            }
            _ => {}
        }
    }
}

/// Returns a key as paths show it: without its middle if it is too long.
fn shortened(key: &str, max: usize) -> String {
    const DOTS: &str = "...";
    if key.len() <= max.max(LABEL_MAX.min(16)) {
        return key.to_owned();
    }
    let remaining = max - DOTS.len();
    let cut = |at: usize| (0..=at).rev().find(|i| key.is_char_boundary(*i)).unwrap_or(0);
    format!("{}{DOTS}{}", &key[..cut(remaining.div_ceil(2))], &key[cut(key.len() - remaining / 2)..])
}
