//! Merging of a configuration into an object, and removal of fields.

use std::collections::BTreeMap;

use binnacle_schema::{Object, Ty, Value, json};
use binnacle_work::pace;

use super::element::PathElement;
use super::schema_error::SchemaErrors;
use super::set::Set;
use super::shape::{Relation, Shape, ValueShape};

/// Merges the values of `config` into `live`; `None` if nothing is left.
pub(super) fn merge(
    shape: Shape<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
) -> Result<Option<Value>, SchemaErrors> {
    // Without a schema, the configuration's value decides; lists and scalars replace.
    let leaf = match shape {
        _ if shape.is_deduced() => {
            matches!(config.or(live).map(ValueShape::of), Some(ValueShape::Scalar | ValueShape::List) | None)
        }
        _ => shape.is_leaf(),
    };
    let empty = |value: Option<&Value>| match value {
        Some(Value::Object(object)) => object.is_empty(),
        // A list does not count as the map in the configuration. Null in the configuration means a map as well, and
        // keeps members.
        Some(Value::List(items)) => shape.is_deduced() || items.is_empty(),
        _ => true,
    };
    if leaf || (empty(live) && empty(config)) {
        let mut remaining = config.or(live).cloned();
        // A changed value is stored as a tree, not as its raw text.
        if let (Shape::Opaque, Some(value)) = (shape, &mut remaining) {
            json::unpack(value);
        }
        return Ok(remaining);
    }
    match shape {
        Shape::List { element, relation } => {
            let (live, config) = (live.and_then(Value::as_list), config.and_then(Value::as_list));
            let merged = merge_lists(element, relation, live.unwrap_or_default(), config.unwrap_or_default())?;
            Ok((!merged.is_empty()).then_some(Value::List(merged)))
        }
        _ => {
            let merged = merge_members(shape, live.and_then(Value::as_object), config.and_then(Value::as_object))?;
            Ok((!merged.is_empty()).then_some(Value::Object(merged)))
        }
    }
}

fn merge_members(shape: Shape<'_>, live: Option<&Object>, config: Option<&Object>) -> Result<Object, SchemaErrors> {
    pace(8 * (live.map_or(0, Object::len) + config.map_or(0, Object::len)) as u64);
    let mut out = Object::with_capacity(live.map_or(0, Object::len).max(config.map_or(0, Object::len)));
    let member = |name: &str| shape.member(name).unwrap_or(Shape::Deduced);
    let below = |errors: SchemaErrors, name: &str| errors.below(&format!(".{name}"));
    for (name, value) in live.into_iter().flat_map(Object::iter) {
        let change = config.and_then(|config| config.get(name));
        if let Some(merged) = merge(member(name), Some(value), change).map_err(|errors| below(errors, name))? {
            out.push(name.clone(), merged);
        }
    }
    for (name, change) in config.into_iter().flat_map(Object::iter) {
        if live.is_none_or(|live| !live.contains(name))
            && let Some(merged) = merge(member(name), None, Some(change)).map_err(|errors| below(errors, name))?
        {
            out.push(name.clone(), merged);
        }
    }
    Ok(out)
}

/// The elements of a list by their identity. Duplicates, which only the live list may have, are not indexed, and
/// therefore not merged.
struct IndexedList<'v> {
    steps: Vec<PathElement>,
    by_identity: BTreeMap<PathElement, Option<&'v Value>>,
}

impl<'v> IndexedList<'v> {
    fn of(element: &Ty, relation: Relation<'_>, items: &'v [Value], repeats: bool) -> Result<Self, SchemaErrors> {
        let mut errors = SchemaErrors::none();
        let mut indexed = Self { steps: Vec::with_capacity(items.len()), by_identity: BTreeMap::new() };
        for (at, item) in items.iter().enumerate() {
            match relation.identify(element, item) {
                Err(why) => errors.push(&[], format!("element {at}: {why}")),
                Ok(step) if !indexed.by_identity.contains_key(&step) => {
                    indexed.by_identity.insert(step.clone(), Some(item));
                    indexed.steps.push(step);
                }
                Ok(step) if repeats => {
                    indexed.by_identity.insert(step.clone(), None);
                    indexed.steps.push(step);
                }
                Ok(step) => errors.push(&[], format!("duplicate entries for key {step}")),
            }
        }
        errors.into_result().map(|()| indexed)
    }

    fn has(&self, step: &PathElement) -> bool {
        self.by_identity.contains_key(step)
    }

    fn get(&self, step: &PathElement) -> Option<&'v Value> {
        self.by_identity.get(step).copied().flatten()
    }
}

/// Merges lists: elements of the configuration keep their order; elements that are only in the live list stay near
/// their position.
fn merge_lists(
    element: &Ty,
    relation: Relation<'_>,
    live: &[Value],
    config: &[Value],
) -> Result<Vec<Value>, SchemaErrors> {
    pace(40 * (live.len() + config.len()) as u64);
    let config_items = IndexedList::of(element, relation, config, false)?;
    let live_items = IndexedList::of(element, relation, live, true)?;
    let shape = Shape::of_type(element);
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let put = |step: &PathElement, live: Option<&Value>, config: Option<&Value>, out: &mut Vec<Value>| {
        let merged = merge(shape, live, config).map_err(|errors| errors.below(&step.to_string()))?;
        out.extend(merged);
        Ok::<(), SchemaErrors>(())
    };
    // Elements of both lists, in the configuration's order: live elements are skipped up to the next one.
    let mut shared = config_items.steps.iter().filter(|step| live_items.has(step));
    let mut next = shared.next();
    let mut merged = std::collections::BTreeSet::new();
    let (mut l, mut r) = (0, 0);
    while l < live_items.steps.len() || r < config_items.steps.len() {
        if let (Some(live_step), Some(config_step)) = (live_items.steps.get(l), config_items.steps.get(r)) {
            if live_step == config_step {
                merged.insert(live_step);
                put(live_step, live_items.get(live_step), config_items.get(live_step), &mut out)?;
                (l, r) = (l + 1, r + 1);
                next = shared.next();
                continue;
            }
            if config_items.has(live_step) && next.is_some_and(|next| next != live_step) {
                l += 1;
                continue;
            }
        }
        if let Some(live_step) = live_items.steps.get(l) {
            if !config_items.has(live_step) {
                put(live_step, Some(&live[l]), None, &mut out)?;
                l += 1;
                continue;
            }
            if merged.contains(live_step) {
                l += 1;
            }
        }
        if let Some(config_step) = config_items.steps.get(r) {
            merged.insert(config_step);
            put(config_step, live_items.get(config_step), config_items.get(config_step), &mut out)?;
            r += 1;
            if next == Some(config_step) {
                next = shared.next();
            }
        }
    }
    Ok(out)
}

/// Returns the value without `fields`. Values that become empty are kept as empty; `None` means null.
pub(super) fn remove(shape: Shape<'_>, value: &Value, fields: &Set) -> Option<Value> {
    match (shape, value) {
        (Shape::Scalar(_), value) => Some(value.clone()),
        (shape, Value::List(_) | Value::Null) if shape.is_deduced() => None,
        (shape, value) if shape.is_deduced() && !matches!(value, Value::Object(_)) => Some(value.clone()),
        (shape, _) if shape.is_leaf() => None,
        (Shape::List { element, relation }, Value::List(items)) => remove_elements(element, relation, items, fields),
        (_, Value::Object(object)) => remove_members(shape, object, fields),
        _ => None,
    }
}

fn remove_members(shape: Shape<'_>, object: &Object, fields: &Set) -> Option<Value> {
    let mut remaining = Object::with_capacity(object.len());
    let mut touched = false;
    for (name, value) in object.iter() {
        match fields.node(&PathElement::Field(name.clone())) {
            None => remaining.push(name.clone(), value.clone()),
            Some(node) if node.member => {}
            Some(node) => {
                touched = true;
                let below = shape.member(name).unwrap_or(Shape::Deduced);
                remaining.push(name.clone(), remove_below(below, value, &node.children));
            }
        }
    }
    (touched || !remaining.is_empty()).then_some(Value::Object(remaining))
}

fn remove_elements(element: &Ty, relation: Relation<'_>, items: &[Value], fields: &Set) -> Option<Value> {
    let shape = Shape::of_type(element);
    let mut remaining = Vec::with_capacity(items.len());
    let mut touched = false;
    for item in items {
        match relation.identify(element, item).ok().and_then(|step| fields.node(&step)) {
            None => remaining.push(item.clone()),
            Some(node) if node.member => {}
            Some(node) => {
                touched = true;
                remaining.push(remove_below(shape, item, &node.children));
            }
        }
    }
    (touched || !remaining.is_empty()).then_some(Value::List(remaining))
}

fn remove_below(shape: Shape<'_>, value: &Value, fields: &Set) -> Value {
    remove(shape, value, fields).unwrap_or_else(|| match value {
        Value::Object(_) => Value::Object(Object::new()),
        Value::List(_) => Value::List(Vec::new()),
        _ => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn merges_untyped_values() {
        for (live, config, want, why) in [
            (value!([1i64]), value!(null), value!(null), "a null replaces a list"),
            (value!(1i64), value!(null), value!(null), "and a scalar"),
            (value!({}), value!(null), value!(null), "and an empty map"),
            (value!({"a": 1i64}), value!(null), value!({"a": 1i64}), "but keeps members"),
            (value!([1i64]), value!({}), value!({}), "an empty map replaces a list"),
            (value!({"a": 1i64}), value!({}), value!({"a": 1i64}), "but keeps members"),
            (value!([1i64]), value!({"a": null}), value!({"a": null}), "a map replaces a list"),
            (
                value!({"a": [1i64], "b": {"c": 1i64}}),
                value!({"a": null, "b": null}),
                value!({"a": null, "b": {"c": 1i64}}),
                "below",
            ),
            (value!({"a": 1i64}), value!([]), value!([]), "a list replaces members"),
            (value!(null), value!({"a": {}}), value!({"a": {}}), "nothing was there"),
        ] {
            let merged = merge(Shape::Deduced, Some(&live), Some(&config));
            assert_eq!(merged.ok().flatten(), Some(want), "{why}");
        }
    }
}
