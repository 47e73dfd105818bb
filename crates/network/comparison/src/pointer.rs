//! JSON pointers in recorded cases, with the extensions `*`, `key=value` for the elements of lists, and `#keys`.

use serde_json::{Map, Value};

/// Splits a pointer into its unescaped parts; the empty pointer and `/` are the whole document.
pub(crate) fn parts(pointer: &str) -> Vec<String> {
    let inner = pointer.trim_start_matches('/');
    if inner.is_empty() {
        return Vec::new();
    }
    inner.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect()
}

pub(crate) fn escape(part: &str) -> String {
    part.replace('~', "~0").replace('/', "~1")
}

/// Finds one value. A negative index counts from the end of a list.
pub(crate) fn lookup<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    parts(pointer).iter().try_fold(value, |value, part| match value {
        Value::Object(members) => members.get(part),
        Value::Array(items) => match part.strip_prefix('-') {
            Some(back) => items.get(items.len().checked_sub(back.parse().ok()?)?),
            None => items.get(part.parse::<usize>().ok()?),
        },
        _ => None,
    })
}

/// Finds all values that a pointer selects, by their own pointers. `<missing>` if it selects none and has no `*`.
pub(crate) fn select(value: &Value, pointer: &str) -> Map<String, Value> {
    let (inner, keys) = match pointer.strip_suffix("#keys") {
        Some(inner) => (inner, true),
        None => (pointer, false),
    };
    let parts = parts(inner);
    let mut found = Map::new();
    collect(value, &parts, &mut String::new(), keys, &mut found);
    if found.is_empty() && !parts.iter().any(|part| part == "*") {
        found.insert(pointer.to_owned(), Value::from("<missing>"));
    }
    found
}

fn collect(value: &Value, parts: &[String], trail: &mut String, keys: bool, found: &mut Map<String, Value>) {
    let Some((part, rest)) = parts.split_first() else {
        match value {
            Value::Object(members) if keys => {
                let mut names: Vec<&String> = members.keys().collect();
                names.sort();
                found.insert(format!("{trail}#keys"), names.into_iter().cloned().collect())
            }
            other if keys => found.insert(format!("{trail}#keys"), other.clone()),
            other => found.insert(trail.clone(), other.clone()),
        };
        return;
    };
    let mut enter = |value: &Value, name: &str| {
        let length = trail.len();
        trail.push('/');
        trail.push_str(&escape(name));
        collect(value, rest, trail, keys, found);
        trail.truncate(length);
    };
    match value {
        Value::Object(members) if part == "*" => members.iter().for_each(|(name, value)| enter(value, name)),
        Value::Object(members) => {
            if let Some(value) = members.get(part) {
                enter(value, part);
            }
        }
        Value::Array(items) if part == "*" => {
            items.iter().enumerate().for_each(|(index, value)| enter(value, &index.to_string()));
        }
        Value::Array(items) => match part.split_once('=') {
            Some((key, wanted)) => {
                let key = key.replace('.', "/");
                let wanted =
                    |item: &&Value| item.is_object() && lookup(item, &key).is_some_and(|is| text(is) == wanted);
                items.iter().filter(wanted).for_each(|item| enter(item, part));
            }
            None => {
                if let Some(item) = part.parse().ok().and_then(|index: usize| items.get(index)) {
                    enter(item, part);
                }
            }
        },
        _ => {}
    }
}

/// Returns the text of a scalar for comparison and substitution.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Removes all values that a pointer selects.
pub(crate) fn remove(value: &mut Value, pointer: &str) {
    remove_parts(value, &parts(pointer));
}

fn remove_parts(value: &mut Value, parts: &[String]) {
    let Some((part, rest)) = parts.split_first() else { return };
    let all = part == "*";
    match value {
        Value::Object(members) if rest.is_empty() => members.retain(|name, _| !all && name != part),
        Value::Object(members) => {
            members
                .iter_mut()
                .filter(|(name, _)| all || *name == part)
                .for_each(|(_, value)| remove_parts(value, rest));
        }
        Value::Array(items) => {
            let index = part.parse::<usize>().ok();
            let mut at = 0;
            items.retain_mut(|item| {
                let named = all || index == Some(at);
                at += 1;
                if named && !rest.is_empty() {
                    remove_parts(item, rest);
                }
                !named || !rest.is_empty()
            });
        }
        _ => {}
    }
}

/// Sorts the list at a pointer by the value at `key` in each element, or by the whole element.
pub(crate) fn sort(value: &mut Value, pointer: &str, key: &str) {
    let list = parts(pointer).iter().try_fold(value, |value, part| match value {
        Value::Object(members) => members.get_mut(part),
        Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
        _ => None,
    });
    if let Some(Value::Array(items)) = list {
        items.sort_by_cached_key(|item| lookup(item, key).map(Value::to_string).unwrap_or_default());
    }
}

/// Sorts the causes of a Status, and their texts in its message.
pub(crate) fn order_causes(status: &mut Value) {
    let Some(Value::Array(causes)) = status.pointer_mut("/details/causes") else { return };
    causes.sort_by_cached_key(Value::to_string);
    let text = |cause: &Value, name: &str| cause.get(name).map_or_else(|| "None".to_owned(), self::text);
    let mut texts: Vec<String> =
        causes.iter().map(|cause| format!("{}: {}", text(cause, "field"), text(cause, "message"))).collect();
    texts.sort();
    texts.dedup();
    if let Some(Value::String(message)) = status.get_mut("message")
        && let Some((head, _)) = message.split_once(" is invalid: ")
    {
        *message = format!("{head} is invalid: {}", texts.join("; "));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{lookup, order_causes, remove, select, sort};

    fn pod() -> Value {
        json!({"a/b": 1, "items": [{"name": "x", "n": 1}, {"name": "y", "n": 2, "deep": {"k": "v"}}], "empty": {}})
    }

    #[test]
    fn finds_values_by_pointer() {
        for (pointer, want) in [
            ("", Some(pod())),
            ("/a~1b", Some(json!(1))),
            ("/items/1/name", Some(json!("y"))),
            ("/items/-1/name", Some(json!("y"))),
            ("/items/2", None),
            ("/items/-3", None),
            ("/items/x", None),
            ("/a~1b/c", None),
        ] {
            assert_eq!(lookup(&pod(), pointer), want.as_ref(), "{pointer}");
        }
    }

    #[test]
    fn returns_the_path_of_each_selected_value() {
        for (pointer, want) in [
            ("/items/*/name", json!({"/items/0/name": "x", "/items/1/name": "y"})),
            ("/items/name=y/n", json!({"/items/name=y/n": 2})),
            ("/items/deep.k=v/n", json!({"/items/deep.k=v/n": 2})),
            ("/items/n=2/name", json!({"/items/n=2/name": "y"})),
            ("/items/name=z/n", json!({"/items/name=z/n": "<missing>"})),
            ("/nothing", json!({"/nothing": "<missing>"})),
            ("/nothing/*", json!({})),
            ("/empty", json!({"/empty": {}})),
            ("/items/0#keys", json!({"/items/0#keys": ["n", "name"]})),
            ("#keys", json!({"#keys": ["a/b", "empty", "items"]})),
            ("/a~1b", json!({"/a~1b": 1})),
        ] {
            assert_eq!(Value::Object(select(&pod(), pointer)), want, "{pointer}");
        }
    }

    #[test]
    fn removes_ignored_values() {
        for (pointer, want) in [
            ("/items", json!({"a/b": 1, "empty": {}})),
            ("/items/0", json!({"a/b": 1, "empty": {}, "items": [{"name": "y", "n": 2, "deep": {"k": "v"}}]})),
            ("/items/*/n", json!({"a/b": 1, "empty": {}, "items": [{"name": "x"}, {"name": "y", "deep": {"k": "v"}}]})),
            ("/*/*/deep", json!({"a/b": 1, "empty": {}, "items": [{"name": "x", "n": 1}, {"name": "y", "n": 2}]})),
            ("/items/*", json!({"a/b": 1, "empty": {}, "items": []})),
            ("/nothing/at/all", pod()),
            ("", pod()),
        ] {
            let mut value = pod();
            remove(&mut value, pointer);
            assert_eq!(value, want, "{pointer}");
        }
    }

    #[test]
    fn sorts_lists_by_key() {
        for (pointer, key, want) in [
            ("/l", "/k", json!([{"z": 0}, {"k": "a", "z": 2}, {"k": "b", "z": 1}])),
            ("/l", "", json!([{"k": "a", "z": 2}, {"k": "b", "z": 1}, {"z": 0}])),
            ("/other", "/k", json!([{"k": "b", "z": 1}, {"k": "a", "z": 2}, {"z": 0}])),
        ] {
            let mut value = json!({"l": [{"k": "b", "z": 1}, {"k": "a", "z": 2}, {"z": 0}]});
            sort(&mut value, pointer, key);
            assert_eq!(value["l"], want, "{pointer} {key}");
        }
    }

    #[test]
    fn orders_causes() {
        let status = |causes: [&str; 2]| {
            let mut status = json!({
                "message": format!("x is invalid: [{}: no, {}: no]", causes[0], causes[1]),
                "details": {"causes": causes.map(|field| json!({"field": field, "message": "no"}))},
            });
            order_causes(&mut status);
            status
        };
        assert_eq!(status(["a", "b"]), status(["b", "a"]));
        assert_eq!(status(["a", "b"])["message"], "x is invalid: a: no; b: no");
        assert_ne!(status(["a", "b"]), status(["a", "c"]));
    }
}
