//! The memory usage of schemas.

use std::collections::HashSet;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::Value;

use crate::structural::{Structural, Values};

/// The counters of a shared allocation.
const SHARED: usize = 2 * size_of::<usize>();
/// An entry in the interner's table.
const ENTRY: usize = 32;

/// Returns the total bytes of schemas, counting each shared node once. Patterns include their currently cached
/// machines; compiled rules are not counted.
pub fn footprint<'s>(schemas: impl IntoIterator<Item = &'s Arc<Structural>>) -> usize {
    let mut seen = HashSet::new();
    schemas.into_iter().map(|schema| shared(schema, &mut seen)).sum()
}

fn shared(node: &Arc<Structural>, seen: &mut HashSet<*const Structural>) -> usize {
    if !seen.insert(Arc::as_ptr(node)) {
        return 0;
    }
    let mut bytes = SHARED + size_of::<Structural>() + ENTRY;
    bytes += node.default.as_deref().map_or(0, |default| size_of::<Value>() + value(default));
    bytes += texts(&node.list_map_keys);
    for rule in &node.rules {
        let parts = [&rule.rule, &rule.message, &rule.message_expression, &rule.reason, &rule.field_path];
        bytes += size_of_val(rule) + parts.into_iter().map(text).sum::<usize>();
    }
    for (name, property) in &node.properties {
        bytes += size_of::<(Text, Arc<Structural>)>() + text(name) + shared(property, seen);
    }
    bytes += node.items.as_ref().map_or(0, |items| shared(items, seen));
    bytes += node.additional_schema().map_or(0, |additional| shared(additional, seen));
    bytes + node.values.as_deref().map_or(0, |values| size_of::<Values>() + within(values, seen))
}

fn within(values: &Values, seen: &mut HashSet<*const Structural>) -> usize {
    let mut bytes = texts(&values.required) + size_of_val(&*values.sizes);
    bytes += values.format.as_deref().map_or(0, size_of_val);
    bytes += values.numbers().map_or(0, size_of_val);
    let pattern = values.pattern.as_deref();
    bytes +=
        pattern.map_or(0, |pattern| SHARED + size_of_val(pattern) + ENTRY + pattern.as_str().len() + pattern.memory());
    bytes += values.enumeration.iter().map(|listed| size_of::<Value>() + value(listed)).sum::<usize>();
    let Some(alternatives) = values.alternatives() else { return bytes };
    bytes += size_of_val(alternatives);
    bytes + alternatives.iter().map(|nested| size_of::<usize>() + shared(nested, seen)).sum::<usize>()
}

/// Returns the allocated bytes of a text; short texts are stored inline.
fn text(text: &Text) -> usize {
    if text.is_heap_allocated() { SHARED + text.len() } else { 0 }
}

fn texts(list: &[Text]) -> usize {
    size_of_val(list) + list.iter().map(text).sum::<usize>()
}

/// Returns the bytes that a value allocates.
fn value(tree: &Value) -> usize {
    match tree {
        Value::Str(content) | Value::Raw(content) => text(content),
        Value::List(items) => items.iter().map(|item| size_of::<Value>() + value(item)).sum(),
        Value::Object(object) => {
            object.iter().map(|(name, member)| size_of::<(Text, Value)>() + text(name) + value(member)).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interner;
    use binnacle_schema::{Object, value};

    /// Returns a schema of 186 fields, all different if `distinct`.
    fn large(salt: i64, distinct: bool) -> Value {
        let mut groups = Object::new();
        for group in 0..6_i64 {
            let mut fields = Object::new();
            for field in 0..30_i64 {
                let n = salt + if distinct { group * 30 } else { 0 } + field;
                let schema = match field % 5 {
                    0 => value!({"type": "string", "maxLength": n, "pattern": (format!("^[a-z]{{1,{n}}}$"))}),
                    1 => value!({"type": "integer", "minimum": n, "format": "int32"}),
                    2 => value!({"type": "array", "maxItems": n, "items": {"type": "string", "minLength": n}}),
                    3 => {
                        value!({"type": "string", "enum": [(format!("one-{n}")), (format!("two-{n}"))], "default": (format!("one-{n}"))})
                    }
                    _ => value!({"type": "object", "maxProperties": n, "additionalProperties": {"type": "string"}}),
                };
                fields.insert(format!("aFieldOfSomeLength{n}"), schema);
            }
            let mut schema =
                value!({"type": "object", "required": [(format!("aFieldOfSomeLength{}", salt + group * 30))]});
            schema.make_object().insert("properties", Value::Object(fields));
            groups.insert(format!("group{group}"), schema);
        }
        let mut root = value!({"type": "object"});
        root.make_object().insert("properties", Value::Object(groups));
        root
    }

    #[test]
    fn schema_of_186_fields_is_small_and_shared() {
        let interner = Interner::new();
        let parse = |schema: &Value| Structural::parse(schema, &interner).unwrap();
        let one = parse(&large(0, false));
        let bytes = footprint([&one]);
        assert!(bytes < 60_000, "{bytes}");
        let distinct = footprint([&parse(&large(0, true))]);
        assert!(distinct < 80_000, "{distinct}");
        // Versions of one schema share it, and so do other definitions.
        let same = parse(&large(0, false));
        assert_eq!(footprint([&one, &same]), bytes);
        assert!(footprint([&one, &parse(&large(1000, false))]) > bytes * 3 / 2);
    }
}
