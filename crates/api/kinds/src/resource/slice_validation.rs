//! Validation of a ResourceSlice.

use std::borrow::Cow;

use binnacle_fields::core::v1::{NodeSelector, NodeSelectorTerm};
use binnacle_fields::resource::v1::{
    Counter, CounterSet, Device, DeviceAttribute, DeviceCapacity, DeviceCounterConsumption, DeviceTaint,
    NodeAllocatableResourceMapping as Mapping, ResourcePool as Pool, ResourceSlice, ResourceSliceSpec as Spec,
};
use binnacle_fields::types::{Bool, List, Map, Str};
use binnacle_fields::{FieldRef, Message};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, Quantity, SemanticVersion};
use binnacle_schema::Value;
use binnacle_validation::{checks, names, resource_names};

use super::capacity_validation::request_policy;
use super::claim_validation::EFFECTS;
use super::names::{binding_conditions, bounded, duplicates, pool_name, qualified_name};
use super::{driver_name, node_selector};
use crate::checks::{immutable, immutable_enum};
use crate::internal;
use crate::prepare::semantically_equal;

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
pub(super) fn slice(slice: FieldRef<ResourceSlice>, old: Option<FieldRef<ResourceSlice>>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = slice.at(ResourceSlice::SPEC);
    let old_spec = old.as_ref().map(|old| old.at(ResourceSlice::SPEC));
    let (driver, pool) = (spec.at(Spec::DRIVER), spec.at(Spec::POOL));
    driver_name(driver, &mut errors);
    pool_rules(pool, &mut errors);
    if let Some(old) = old_spec {
        immutable(pool.at(Pool::NAME), old.at(Spec::POOL).at(Pool::NAME), &mut errors);
        immutable(driver, old.at(Spec::DRIVER), &mut errors);
        // A pointer in Go, which the message shows as JSON.
        immutable_enum(spec.at(Spec::NODE_NAME), old.at(Spec::NODE_NAME), &mut errors);
    }
    nodes(spec, &mut errors);
    if spec.at(Spec::SHARED_COUNTERS).is_set() && spec.at(Spec::DEVICES).is_set() {
        errors.push(spec.invalid_as("", "only one of `sharedCounters` or `devices` is allowed"));
    }
    devices(spec, old_spec, &mut errors);
    let counter_sets = bounded(spec.at(Spec::SHARED_COUNTERS), COUNTER_SETS_MAX, &mut errors);
    for set in errors.while_room(counter_sets.items()) {
        counters(set.at(CounterSet::NAME), set.at(CounterSet::COUNTERS), &mut errors);
    }
    duplicates(counter_sets, |set| set.at(CounterSet::NAME).str(), &mut errors);
    errors
}

fn pool_rules(pool: FieldRef<Pool>, errors: &mut FieldErrors) {
    pool_name(pool.at(Pool::NAME), errors);
    let count = pool.at(Pool::RESOURCE_SLICE_COUNT);
    if count.int_or_zero() <= 0 {
        errors.push(count.invalid_as(count.int_or_zero(), "must be greater than zero"));
    }
    let generation = pool.at(Pool::GENERATION);
    if generation.int_or_zero() < 0 {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
}

/// Validates the nodes of the devices, which are given by exactly one of four members.
fn nodes(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    let (name, selector) = (spec.at(Spec::NODE_NAME), spec.at(Spec::NODE_SELECTOR));
    let mut set = Vec::new();
    node_name(name, "must be either unset or set to a non-empty string", &mut set, errors);
    if selector.is_set() {
        set.push("`nodeSelector`");
        node_selector(selector, errors);
        one_term(selector.at(NodeSelector::NODE_SELECTOR_TERMS), errors);
    }
    unset_or_true(spec.at(Spec::ALL_NODES), "`allNodes`", &mut set, errors);
    unset_or_true(spec.at(Spec::PER_DEVICE_NODE_SELECTION), "`perDeviceNodeSelection`", &mut set, errors);
    match set.len() {
        0 => errors.push(spec.required(ONE)),
        1 => {}
        _ => {
            let detail = format!("{ONE}, but multiple fields are set");
            errors.push(spec.invalid_as(&format!("{{{}}}", set.join(", ")), detail));
        }
    }
}

fn node_name(name: FieldRef<Str>, empty: &str, set: &mut Vec<&'static str>, errors: &mut FieldErrors) {
    match name.get_str() {
        None => {}
        Some("") => errors.push(name.invalid(empty)),
        Some(node) => {
            set.push("`nodeName`");
            checks::subdomain(&name, node, errors);
        }
    }
}

fn one_term(terms: FieldRef<List<NodeSelectorTerm>>, errors: &mut FieldErrors) {
    if terms.len() != 1 {
        let internal = |term| internal::internal(NodeSelectorTerm::DEFINITION, Some(term));
        let internal: Vec<Value> = terms.list().iter().map(internal).collect();
        let shown = if internal.is_empty() { Value::Null } else { Value::List(internal) };
        errors.push(terms.invalid_as(&shown, "must have exactly one node selector term"));
    }
}

fn unset_or_true(field: FieldRef<Bool>, name: &'static str, set: &mut Vec<&'static str>, errors: &mut FieldErrors) {
    match field.get_bool() {
        Some(true) => set.push(name),
        Some(false) => errors.push(field.invalid("must be either unset or set to true")),
        None => {}
    }
}

fn devices(spec: FieldRef<Spec>, old: Option<FieldRef<Spec>>, errors: &mut FieldErrors) {
    let devices = spec.at(Spec::DEVICES);
    let is_advanced = devices.items().any(|device| {
        !device.at(Device::TAINTS).is_empty()
            || !device.at(Device::CONSUMES_COUNTERS).is_empty()
            || device.at(Device::ATTRIBUTES).entries().any(|(_, attribute)| has_lists(attribute))
    });
    let max = if is_advanced { ADVANCED_DEVICES_MAX } else { DEVICES_MAX };
    let per_device = spec.at(Spec::PER_DEVICE_NODE_SELECTION).bool();
    let old_devices = old.as_ref().map(|old| old.at(Spec::DEVICES));
    let devices = bounded(devices, max, errors);
    for device in errors.while_room(devices.items()) {
        let name = device.at(Device::NAME).str();
        let old_device =
            old_devices.as_ref().and_then(|old| old.items().find(|old| old.at(Device::NAME).str() == name));
        validate_device(device, old_device, per_device, errors);
    }
    duplicates(devices, |device| device.at(Device::NAME).str(), errors);
}

fn has_lists(attribute: FieldRef<DeviceAttribute>) -> bool {
    attribute.at(DeviceAttribute::BOOLS).is_set()
        || attribute.at(DeviceAttribute::INTS).is_set()
        || attribute.at(DeviceAttribute::STRINGS).is_set()
        || attribute.at(DeviceAttribute::VERSIONS).is_set()
}

fn validate_device(
    device: FieldRef<Device>,
    old: Option<FieldRef<Device>>,
    per_device: bool,
    errors: &mut FieldErrors,
) {
    let name = device.at(Device::NAME);
    checks::label(&name, name.str(), errors);
    attributes_and_capacities(device, errors);
    let taints = device.at(Device::TAINTS);
    if !old.is_some_and(|old| semantically_equal(old.at(Device::TAINTS).get(), taints.get())) {
        for taint in bounded(taints, TAINTS_MAX, errors).items() {
            validate_taint(taint, None, errors);
        }
    }
    let consumptions = bounded(device.at(Device::CONSUMES_COUNTERS), CONSUMPTIONS_MAX, errors);
    for consumption in errors.while_room(consumptions.items()) {
        let set = consumption.at(DeviceCounterConsumption::COUNTER_SET);
        counters(set, consumption.at(DeviceCounterConsumption::COUNTERS), errors);
    }
    duplicates(consumptions, |consumption| consumption.at(DeviceCounterConsumption::COUNTER_SET).str(), errors);
    device_nodes(device, per_device, errors);
    binding_conditions(device.at(Device::BINDING_CONDITIONS), device.at(Device::BINDING_FAILURE_CONDITIONS), errors);
    mappings(device, errors);
}

fn attributes_and_capacities(device: FieldRef<Device>, errors: &mut FieldErrors) {
    let (attributes, capacities) = (device.at(Device::ATTRIBUTES), device.at(Device::CAPACITY));
    let values = attributes.len() + capacities.len();
    if values > VALUES_MAX {
        let detail = format!("the total number of attributes and capacities must not exceed {VALUES_MAX}");
        errors.push(device.invalid_as(values, detail));
    }
    let values: usize = attributes.entries().map(|(_, attribute)| value_count(attribute)).sum();
    if values > ATTRIBUTE_VALUES_MAX {
        let detail = format!("the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}");
        errors.push(device.invalid_as(values, detail));
    }
    for (name, attribute) in errors.while_room(attributes.entries()) {
        qualified_name(&attributes, name, errors);
        let shown = shortened(name, KEY_MAX);
        validate_attribute(attribute.located_at(&attributes.key(&shown)), errors);
    }
    let is_shared = device.at(Device::ALLOW_MULTIPLE_ALLOCATIONS).bool();
    for (name, capacity) in errors.while_room(capacities.entries()) {
        qualified_name(&capacities, name, errors);
        let shown = shortened(name, KEY_MAX);
        let capacity = capacity.located_at(&capacities.key(&shown));
        let policy = capacity.at(DeviceCapacity::REQUEST_POLICY);
        if policy.is_set() && is_shared {
            request_policy(policy, capacity.at(DeviceCapacity::VALUE).str(), errors);
        } else if policy.is_set() {
            errors.push(policy.forbidden("allowMultipleAllocations must be true"));
        }
    }
}

fn device_nodes(device: FieldRef<Device>, per_device: bool, errors: &mut FieldErrors) {
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let (name, selector) = (device.at(Device::NODE_NAME), device.at(Device::NODE_SELECTOR));
    let all = device.at(Device::ALL_NODES);
    if per_device {
        let mut set = Vec::new();
        node_name(name, "must not be empty", &mut set, errors);
        if selector.is_set() {
            set.push("`nodeSelector`");
            node_selector(selector, errors);
        }
        unset_or_true(all, "`allNodes`", &mut set, errors);
        match set.len() {
            0 => errors.push(device.required(ONE)),
            1 => {}
            _ => errors.push(device.invalid_as(&format!("{{{}}}", set.join(", ")), ONE)),
        }
    } else if name.is_set() || selector.is_set() || all.is_set() {
        let detail = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
        errors.push(device.invalid_as(ErrorValue::raw("null"), detail));
    }
}

fn value_count(attribute: FieldRef<DeviceAttribute>) -> usize {
    let scalars = attribute.at(DeviceAttribute::BOOLS).len() + attribute.at(DeviceAttribute::INTS).len();
    let texts = attribute.at(DeviceAttribute::STRINGS).len() + attribute.at(DeviceAttribute::VERSIONS).len();
    (scalars + texts).max(1)
}

fn validate_attribute(attribute: FieldRef<DeviceAttribute>, errors: &mut FieldErrors) {
    let given = [
        attribute.at(DeviceAttribute::BOOL).is_set(),
        attribute.at(DeviceAttribute::INT).is_set(),
        one_value(attribute.at(DeviceAttribute::STRING), text, errors),
        one_value(attribute.at(DeviceAttribute::VERSION), version, errors),
        values(attribute.at(DeviceAttribute::BOOLS), |_, _| {}, errors),
        values(attribute.at(DeviceAttribute::INTS), |_, _| {}, errors),
        values(attribute.at(DeviceAttribute::STRINGS), text, errors),
        values(attribute.at(DeviceAttribute::VERSIONS), version, errors),
    ];
    let detail = "exactly one value must be specified";
    match given.iter().filter(|is_given| **is_given).count() {
        0 => errors.push(attribute.invalid_as("", detail)),
        1 => {}
        _ => errors.push(attribute.invalid_as(internal::shown(attribute), detail)),
    }
}

/// Validates a value by a rule. Returns true if there is one.
fn one_value(value: FieldRef<Str>, rule: fn(FieldRef<Str>, &mut FieldErrors), errors: &mut FieldErrors) -> bool {
    if value.is_set() {
        rule(value, errors);
    }
    value.is_set()
}

/// Validates each value of a list by a rule. Returns true if there is a list.
fn values<T>(list: FieldRef<List<T>>, rule: fn(FieldRef<T>, &mut FieldErrors), errors: &mut FieldErrors) -> bool {
    if list.is_set() && list.is_empty() {
        errors.push(list.invalid("must not be empty if specified"));
    }
    for value in errors.while_room(list.items()) {
        rule(value, errors);
    }
    list.is_set()
}

fn text(value: FieldRef<Str>, errors: &mut FieldErrors) {
    if value.str().len() > ATTRIBUTE_MAX {
        errors.push(value.too_long(ATTRIBUTE_MAX));
    }
}

fn version(value: FieldRef<Str>, errors: &mut FieldErrors) {
    if SemanticVersion::parse(value.str()).is_err() {
        errors.push(value.invalid("must be a string compatible with semver.org spec 2.0.0"));
    }
    text(value, errors);
}

/// Validates a taint; an unchanged effect may be unknown.
pub(super) fn validate_taint(
    taint: FieldRef<DeviceTaint>,
    old: Option<FieldRef<DeviceTaint>>,
    errors: &mut FieldErrors,
) {
    let (key, value) = (taint.at(DeviceTaint::KEY), taint.at(DeviceTaint::VALUE));
    checks::qualified_name(&key, key.str(), errors);
    checks::invalid_for(&value, value.str(), names::label_value(value.str()), errors);
    let effect = taint.at(DeviceTaint::EFFECT);
    if old.is_none_or(|old| old.at(DeviceTaint::EFFECT).str() != effect.str()) {
        checks::required_one_of(&effect, effect.str(), &EFFECTS, errors);
    }
}

/// Validates the name of a set of counters, and the counters.
fn counters(name: FieldRef<Str>, counters: FieldRef<Map<Counter>>, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        checks::label(&name, name.str(), errors);
    }
    match counters.len() {
        0 => errors.push(counters.required("")),
        count if count > COUNTERS_MAX => errors.push(FieldError::too_many(&counters, count, COUNTERS_MAX)),
        _ => counters.entries().for_each(|(counter, _)| checks::label(&counters, counter, errors)),
    }
}

fn mappings(device: FieldRef<Device>, errors: &mut FieldErrors) {
    let mappings = device.at(Device::NODE_ALLOCATABLE_RESOURCE_MAPPINGS);
    for (name, mapping) in errors.while_room(mappings.entries()) {
        if !resource_names::is_native(name) {
            errors.push(mapping.invalid_as(checks::of_named_type(name), "must be a node allocatable resource name"));
        }
        let (multiplier, key) = (mapping.at(Mapping::ALLOCATION_MULTIPLIER), mapping.at(Mapping::CAPACITY_KEY));
        if !multiplier.is_set() && !key.is_set() {
            errors.push(mapping.invalid_as("", "at least one of allocationMultiplier or capacityKey must be set"));
        }
        if multiplier.get_str().and_then(|text| Quantity::parse(text).ok()).is_some_and(|quantity| quantity.sign() <= 0)
        {
            errors.push(multiplier.invalid("must be positive"));
        }
        match key.get_str() {
            Some("") => errors.push(key.invalid("capacityKey must not be an empty string")),
            Some(capacity) if device.at(Device::CAPACITY).object().is_none_or(|list| !list.contains(capacity)) => {
                errors.push(FieldError::not_found(&key, key.shown_as_json()));
            }
            _ => {}
        }
    }
}

/// Returns a key as paths show it: without its middle if it is too long.
fn shortened(key: &str, max: usize) -> Cow<'_, str> {
    const DOTS: &str = "...";
    if key.len() <= max.max(LABEL_MAX.min(16)) {
        return key.into();
    }
    let remaining = max - DOTS.len();
    let cut = |at: usize| (0..=at).rev().find(|i| key.is_char_boundary(*i)).unwrap_or(0);
    format!("{}{DOTS}{}", &key[..cut(remaining.div_ceil(2))], &key[cut(key.len() - remaining / 2)..]).into()
}
