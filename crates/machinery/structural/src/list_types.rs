//! Validation of list types: elements of sets and keys of list maps must be unique.

use std::collections::HashMap;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value, json};
use binnacle_work::{allocate, charge, charge_bytes};

use crate::error_value::error_value;
use crate::path::Path;
use crate::structural::{ListType, Structural};
use crate::weight::copy_charged;

/// Reports each duplicate element of a set and each duplicate key of a list map, once.
pub fn validate(object: &Value, schema: &Structural, base: &FieldPath, errors: &mut FieldErrors) {
    // A root that is not an object is not validated.
    if object.as_object().is_some() {
        walk(object, schema, &Path::Root, base, errors);
    }
}

fn walk(value: &Value, schema: &Structural, path: &Path<'_>, base: &FieldPath, errors: &mut FieldErrors) {
    if errors.is_full() {
        return;
    }
    match value {
        Value::Object(object) => {
            if charge(1 + 4 * object.len() as u64).is_err() {
                return;
            }
            for (name, value) in object.iter() {
                if let Some(additional) = schema.additional_schema() {
                    walk(value, additional, &Path::Key(path, name), base, errors);
                }
                if let Some(property) = schema.property(name) {
                    walk(value, property, &Path::Field(path, name), base, errors);
                }
            }
        }
        Value::List(items) => {
            if charge(1 + items.len() as u64).is_err() {
                return;
            }
            match schema.list_type {
                Some(ListType::Set) => {
                    for i in repeated(items.iter()) {
                        errors.push(FieldError::duplicate(&Path::Index(path, i).below(base), error_value(&items[i])));
                    }
                }
                Some(ListType::Map) => list_map(items, schema, path, base, errors),
                _ => {}
            }
            if let Some(schema) = schema.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    walk(item, schema, &Path::Index(path, i), base, errors);
                }
            }
        }
        _ => {}
    }
}

fn list_map(items: &[Value], schema: &Structural, path: &Path<'_>, base: &FieldPath, errors: &mut FieldErrors) {
    let is_element = |item: &Value| matches!(item, Value::Object(_) | Value::Null);
    if let Some(i) = items.iter().position(|item| !is_element(item)) {
        let at = Path::Index(path, i).below(base);
        errors.push(FieldError::invalid(
            &at,
            error_value(&items[i]),
            "must be an object for an array of list-type map",
        ));
        return;
    }
    let key = |item: &Value| {
        let members = schema.list_map_keys.iter().filter_map(|key| Some((key.clone(), item.get(key)?.clone())));
        Value::Object(members.collect::<Object>())
    };
    // A single key is compared as a value, several as JSON, where 1.0 is 1.
    let duplicates = match &schema.list_map_keys[..] {
        [name] => repeated_texts(items.iter().map(|item| item.get(name).map_or_else(String::new, identity))),
        _ => repeated_texts(items.iter().map(|item| identity(&key(item)))),
    };
    for i in duplicates {
        errors.push(FieldError::duplicate(&Path::Index(path, i).below(base), error_value(&key(&items[i]))));
    }
}

/// Returns the indices of the second occurrences of values.
pub(crate) fn repeated<'v>(values: impl ExactSizeIterator<Item = &'v Value>) -> Vec<usize> {
    repeated_texts(values.map(identity))
}

/// The bytes of an entry in the table of strings.
const ENTRY: usize = 64;

fn repeated_texts(texts: impl ExactSizeIterator<Item = String>) -> Vec<usize> {
    let mut found = Vec::new();
    if texts.len() < 2 {
        return found;
    }
    let mut times: HashMap<String, usize> = HashMap::with_capacity(texts.len());
    for (i, text) in texts.enumerate() {
        // Strings are stored and hashed.
        if charge_bytes(64 + 4 * text.len()).is_err() || allocate(text.len() + ENTRY).is_err() {
            return Vec::new();
        }
        let times = times.entry(text).or_default();
        *times += 1;
        if *times == 2 {
            found.push(i);
        }
    }
    found
}

/// Returns a non-empty string that is equal for equal values only.
fn identity(value: &Value) -> String {
    match value {
        // Formatted as text, a float could look like an integer, to which it is not equal.
        Value::Float(n) => format!("float {n:?}"),
        Value::Object(_) | Value::List(_) => {
            let Some(mut value) = copy_charged(value) else { return String::new() };
            binnacle_schema::sort_free_form(&mut value);
            json::to_string(&value)
        }
        value => json::to_string(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interner;
    use binnacle_schema::value;

    #[test]
    fn reports_duplicate_set_items_and_map_keys() {
        let schema = value!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {}},
            "one": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {"type": "object", "properties": {
                "inner": {"type": "array", "x-kubernetes-list-type": "set", "items": {}},
            }}},
            "two": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "l"], "items": {"type": "object"}},
            "map": {"type": "object", "additionalProperties": {"type": "array", "x-kubernetes-list-type": "set", "items": {}}},
        }});
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        for (object, want) in [
            (value!({"set": ["a", "b", "a", "a", 1i64, 1.0]}), vec!["set[2]: Duplicate value: \"a\""]),
            (
                value!({"set": [{"a": 1i64, "b": 2i64}, {"b": 2i64, "a": 1i64}]}),
                vec!["set[1]: Duplicate value: {\"a\":1,\"b\":2}"],
            ),
            (
                value!({"one": [{"k": "x"}, {"k": "x", "inner": [1i64, 1i64]}, {}, null]}),
                vec![
                    "one[1]: Duplicate value: {\"k\":\"x\"}",
                    "one[3]: Duplicate value: {}",
                    "one[1].inner[1]: Duplicate value: 1",
                ],
            ),
            (
                value!({"one": [{"k": "x"}, "y"]}),
                vec!["one[1]: Invalid value: \"y\": must be an object for an array of list-type map"],
            ),
            (
                value!({"two": [{"k": "x", "l": 1i64}, {"k": "x"}, {"l": 1i64, "k": "x"}]}),
                vec!["two[2]: Duplicate value: {\"k\":\"x\",\"l\":1}"],
            ),
            (value!({"one": [{"k": 1i64}, {"k": 1.0}, {"k": 1.0}]}), vec!["one[2]: Duplicate value: {\"k\":1}"]),
            (value!({"two": [{"k": 1i64}, {"k": 1.0}]}), vec!["two[1]: Duplicate value: {\"k\":1}"]),
            (value!({"one": [{"k": null}, {}, {"k": null}]}), vec!["one[2]: Duplicate value: {\"k\":null}"]),
            (value!({"map": {"a/b": [1i64, 1i64]}}), vec!["map[a/b][1]: Duplicate value: 1"]),
        ] {
            let mut errors = FieldErrors::new();
            validate(&object, &schema, &FieldPath::root(), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
