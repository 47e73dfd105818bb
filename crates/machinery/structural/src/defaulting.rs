//! Defaulting: sets a schema's defaults for absent values.

use binnacle_schema::Value;
use binnacle_work::{allocate, charge};

use crate::structural::Structural;
use crate::weight::pace_lookup;

/// The bytes of a new member besides its value, with the room that the object keeps for more.
const MEMBER: usize = 64;

/// Sets the defaults of the schema in an object, sent by a client or read from the store. A forbidden null counts as
/// absent. Returns true if anything changed. Stops when the work budget is exhausted.
pub fn set_defaults(value: &mut Value, schema: &Structural) -> bool {
    let mut changed = false;
    match value {
        Value::Object(object) => {
            // Each property and each member is looked up.
            if charge(1 + schema.properties().len() as u64 + 2 * object.len() as u64).is_err() {
                return changed;
            }
            for (name, property) in schema.properties().filter(|(_, property)| property.default.is_some()) {
                pace_lookup(object, name);
                match object.get_mut(name) {
                    None => {
                        let Some(default) = property.copied_default() else { return changed };
                        if allocate(MEMBER).is_err() {
                            return changed;
                        }
                        object.push(name.clone(), default);
                    }
                    Some(value @ Value::Null) if !property.nullable => {
                        let Some(default) = property.copied_default() else { return changed };
                        *value = default;
                    }
                    Some(_) => continue,
                }
                changed = true;
            }
            let additional = schema.additional_schema();
            for (name, value) in object.iter_mut() {
                if let Some(property) = schema.property(name) {
                    changed |= set_defaults(value, property);
                } else if let Some(additional) = additional {
                    changed |= replace_null(value, additional);
                    changed |= set_defaults(value, additional);
                }
            }
        }
        Value::List(items) => {
            let Some(schema) = schema.items.as_deref() else { return false };
            if charge(items.len() as u64).is_err() {
                return false;
            }
            for item in items {
                changed |= replace_null(item, schema);
                changed |= set_defaults(item, schema);
            }
        }
        _ => {}
    }
    changed
}

fn replace_null(value: &mut Value, schema: &Structural) -> bool {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = schema.copied_default()
    {
        *value = default;
        return true;
    }
    false
}

/// Removes members that are null although their schema forbids it, unless they have a default.
pub fn prune_nulls(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(object) => {
            if charge(1 + 3 * object.len() as u64).is_err() {
                return;
            }
            let goes =
                |value: &Value, schema: &Structural| value.is_null() && !schema.nullable && schema.default.is_none();
            let any = object.iter().any(|(name, value)| schema.member(name).is_some_and(|schema| goes(value, schema)));
            if any {
                object.retain(|name, value| !schema.member(name).is_some_and(|schema| goes(value, schema)));
            }
            for (name, value) in object.iter_mut() {
                if let Some(schema) = schema.member(name) {
                    prune_nulls(value, schema);
                }
            }
        }
        Value::List(items) => {
            if let Some(schema) = schema.items.as_deref()
                && charge(items.len() as u64).is_ok()
            {
                items.iter_mut().for_each(|item| prune_nulls(item, schema));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interner;
    use binnacle_schema::value;
    use binnacle_work::{Exceeded, WorkBudget, WorkLimits};

    #[test]
    fn defaults_and_nulls() {
        let schema = value!({"type": "object", "properties": {
            "a": {"type": "string", "default": "A"},
            "nullable": {"type": "string", "nullable": true, "default": "N"},
            "plain": {"type": "string"},
            "o": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 1i64}}},
            "list": {"type": "array", "items": {"type": "object", "default": {}, "properties": {"y": {"default": true}}}},
            "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"z": {"default": 2i64}}}},
        }});
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        for (object, want) in [
            (value!({}), value!({"a": "A", "nullable": "N", "o": {"x": 1i64}})),
            (
                value!({"a": null, "nullable": null, "plain": null, "o": null, "odd": null}),
                value!({"a": "A", "nullable": null, "o": {"x": 1i64}, "odd": null}),
            ),
            (
                value!({"a": "", "nullable": "", "o": {"x": 0i64}, "list": [null, {}, 1i64], "map": {"k": {}, "n": null}}),
                value!({
                    "a": "", "nullable": "", "o": {"x": 0i64}, "list": [{"y": true}, {"y": true}, 1i64],
                    "map": {"k": {"z": 2i64}},
                }),
            ),
        ] {
            let mut object = object;
            prune_nulls(&mut object, &schema);
            set_defaults(&mut object, &schema);
            assert_eq!(object, want);
        }
    }
    /// Returns a schema whose items have a default of this number of members, and an object with this number of items.
    fn wide(members: i64, items: usize) -> (std::sync::Arc<Structural>, Value) {
        let default: binnacle_schema::Object = (0..members).map(|n| (format!("k{n}"), n)).collect();
        let schema = value!({"type": "object", "properties": {"l": {"type": "array", "items": {
            "type": "object", "properties": {"d": {
                "type": "object", "additionalProperties": {"type": "integer"}, "default": default,
            }},
        }}}});
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        (schema, value!({"l": (Value::List(vec![value!({}); items]))}))
    }

    #[test]
    fn defaults_of_many_items_end_with_the_memory() {
        let (schema, mut object) = wide(300, 40_000);
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        budget.enter(|| set_defaults(&mut object, &schema));
        assert_eq!(budget.check(), Err(Exceeded::Memory(WorkLimits::REQUEST.memory)));
        let filled = object.list_at(&["l"]).iter().filter(|item| item.get("d").is_some()).count();
        assert!((1000..10_000).contains(&filled), "{filled} items were made");
    }

    /// Copies of a long text are small, but what is written for the store is not.
    #[test]
    fn defaults_of_long_texts_are_charged() {
        let schema = value!({"type": "object", "properties": {"l": {"type": "array", "items": {
            "type": "object", "properties": {"d": {"type": "string", "default": ("x".repeat(1 << 20))}},
        }}}});
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        let mut object = value!({"l": (Value::List(vec![value!({}); 40_000]))});
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        budget.enter(|| set_defaults(&mut object, &schema));
        assert!(matches!(budget.check(), Err(Exceeded::Memory(_))));
    }

    #[test]
    fn defaults_in_defaults_are_charged() {
        // Each level has a thousand times the items of the one above.
        let items = || Value::List(vec![value!({}); 1000]);
        let mut schema = value!({"type": "string"});
        for _ in 0..3 {
            schema = value!({"type": "object", "properties": {"l": {
                "type": "array", "default": (items()), "items": schema,
            }}});
        }
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        let mut object = value!({});
        budget.enter(|| set_defaults(&mut object, &schema));
        assert!(budget.check().is_err());
        assert!(budget.steps() < 2 * WorkLimits::REQUEST.steps);
    }

    /// The largest real objects have thousands of items with a few defaults each.
    #[test]
    fn defaults_of_real_objects_are_far_from_the_limit() {
        let (schema, mut object) = wide(10, 5_000);
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        assert!(budget.enter(|| set_defaults(&mut object, &schema)));
        assert_eq!(budget.check(), Ok(()));
        assert!(budget.steps() < WorkLimits::REQUEST.steps / 100, "{}", budget.steps());
        assert!(budget.memory() < WorkLimits::REQUEST.memory / 10, "{}", budget.memory());
    }
}
