//! Defaulting: sets a schema's defaults for absent values.

use binnacle_meta::Text;
use binnacle_schema::{Object, Value};
use binnacle_work::{BudgetError, charge, exceed};

use crate::structural::Structural;
use crate::weight::{Weight, charge_lookup};

/// The bytes of a new member, excluding its value, of an object that doubles its capacity.
const MEMBER: usize = 2 * size_of::<(Text, Value)>();
/// The bytes of a member in JSON besides its name and value: quotes, a colon, and a comma.
const PUNCTUATION: usize = 4;

/// The maximum number of bytes that defaults may add to the JSON of an object. A larger object could not be stored.
pub const MAX_ADDED: usize = 1536 << 10;

/// Sets the defaults of the schema in an object, sent by a client or read from the store. A forbidden null counts as
/// absent. Returns true if anything changed. Stops when the work budget is exhausted, and exhausts it when the defaults
/// add more than [`MAX_ADDED`].
pub fn set_defaults(value: &mut Value, schema: &Structural) -> bool {
    Defaulter { remaining: MAX_ADDED }.fill(value, schema)
}

/// Sets the defaults of one object.
struct Defaulter {
    /// The bytes of JSON that may still be added.
    remaining: usize,
}

impl Defaulter {
    fn fill(&mut self, value: &mut Value, schema: &Structural) -> bool {
        match value {
            Value::Object(object) => self.fill_object(object, schema),
            Value::List(items) => {
                let Some(schema) = schema.items.as_deref() else { return false };
                if charge(items.len() as u64).is_err() {
                    return false;
                }
                let mut changed = false;
                for item in items {
                    changed |= self.replace_null(item, schema);
                    changed |= self.fill(item, schema);
                }
                changed
            }
            _ => false,
        }
    }

    fn fill_object(&mut self, object: &mut Object, schema: &Structural) -> bool {
        // Each property and each member is looked up.
        if charge(1 + schema.properties().len() as u64 + 2 * object.len() as u64).is_err() {
            return false;
        }
        let mut changed = false;
        for (name, property) in schema.properties() {
            let Some(default) = property.default.as_deref() else { continue };
            charge_lookup(object, name);
            match object.get_mut(name) {
                None => {
                    // The first member allocates capacity for four.
                    let bytes = if object.is_empty() { 2 * MEMBER } else { MEMBER };
                    let own = Weight { nodes: 0, bytes, text: name.len() + PUNCTUATION };
                    let Some(default) = self.copy(default, property, own) else { return changed };
                    object.push(name.clone(), default);
                }
                Some(value @ Value::Null) if !property.nullable => {
                    let Some(default) = self.copy(default, property, Weight::default()) else { return changed };
                    *value = default;
                }
                Some(_) => continue,
            }
            changed = true;
        }
        let additional = schema.additional_schema();
        for (name, value) in object.iter_mut() {
            if let Some(property) = schema.property(name) {
                changed |= self.fill(value, property);
            } else if let Some(additional) = additional {
                changed |= self.replace_null(value, additional);
                changed |= self.fill(value, additional);
            }
        }
        changed
    }

    fn replace_null(&mut self, value: &mut Value, schema: &Structural) -> bool {
        if value.is_null()
            && !schema.nullable
            && let Some(default) = schema.default.as_deref()
            && let Some(default) = self.copy(default, schema, Weight::default())
        {
            *value = default;
            return true;
        }
        false
    }

    /// Returns a copy of the default of a schema; `None` if the budget does not allow the copy and its member.
    fn copy(&mut self, default: &Value, schema: &Structural, member: Weight) -> Option<Value> {
        let weight = schema.default_weight();
        let Some(remaining) = self.remaining.checked_sub(weight.text.saturating_add(member.text)) else {
            exceed(BudgetError::Defaults(MAX_ADDED));
            return None;
        };
        self.remaining = remaining;
        Weight { bytes: weight.bytes.saturating_add(member.bytes), ..weight }.charge().ok()?;
        Some(default.clone())
    }
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
    use binnacle_work::{BudgetError, WorkBudget, WorkLimits};

    #[test]
    fn sets_defaults_and_replaces_non_nullable_nulls() {
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
    fn stops_defaulting_at_the_storage_limit() {
        let (schema, mut object) = wide(300, 40_000);
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        budget.enter(|| set_defaults(&mut object, &schema));
        assert_eq!(budget.check(), Err(BudgetError::Defaults(MAX_ADDED)));
        let filled = object.list_at(&["l"]).iter().filter(|item| item.get("d").is_some()).count();
        assert!((500..1000).contains(&filled), "{filled} items were made");
        assert!(budget.memory() < WorkLimits::REQUEST.memory / 4, "{}", budget.memory());
    }

    /// Copies of a long string share memory, but their encodings do not.
    #[test]
    fn charges_long_default_strings() {
        let schema = value!({"type": "object", "properties": {"l": {"type": "array", "items": {
            "type": "object", "properties": {"d": {"type": "string", "default": ("x".repeat(1 << 20))}},
        }}}});
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        let mut object = value!({"l": (Value::List(vec![value!({}); 40_000]))});
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        budget.enter(|| set_defaults(&mut object, &schema));
        assert_eq!(budget.check(), Err(BudgetError::Defaults(MAX_ADDED)));
    }

    #[test]
    fn stops_defaulting_at_the_memory_limit() {
        let (schema, mut object) = wide(100, 1000);
        let budget = WorkBudget::new(WorkLimits { memory: 1 << 20, ..WorkLimits::REQUEST });
        budget.enter(|| set_defaults(&mut object, &schema));
        assert_eq!(budget.check(), Err(BudgetError::Memory(1 << 20)));
    }

    #[test]
    fn charges_nested_defaults() {
        // Each level has a thousand times as many items as its parent.
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
    fn real_objects_need_little_of_the_budget() {
        let (schema, mut object) = wide(10, 5_000);
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        assert!(budget.enter(|| set_defaults(&mut object, &schema)));
        assert_eq!(budget.check(), Ok(()));
        assert!(budget.steps() < WorkLimits::REQUEST.steps / 100, "{}", budget.steps());
        assert!(budget.memory() < WorkLimits::REQUEST.memory / 10, "{}", budget.memory());
    }
}
