//! Defaulting: sets a schema's defaults for absent values.

use binnacle_schema::Value;

use crate::structural::Structural;

/// Sets the defaults of the schema in an object, sent by a client or read from the store. A forbidden null counts as
/// absent. Returns true if anything changed.
pub fn set_defaults(value: &mut Value, schema: &Structural) -> bool {
    let mut changed = false;
    match value {
        Value::Object(object) => {
            for (name, property) in schema.properties() {
                let Some(default) = &property.default else { continue };
                match object.get_mut(name) {
                    None => object.push(name.clone(), (**default).clone()),
                    Some(value @ Value::Null) if !property.nullable => *value = (**default).clone(),
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
        && let Some(default) = &schema.default
    {
        *value = (**default).clone();
        return true;
    }
    false
}

/// Removes members that are null although their schema forbids it, unless they have a default.
pub fn prune_nulls(value: &mut Value, schema: &Structural) {
    match value {
        Value::Object(object) => {
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
            if let Some(schema) = schema.items.as_deref() {
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
}
