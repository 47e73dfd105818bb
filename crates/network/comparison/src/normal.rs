//! Normal forms of whole responses: members whose values a server chooses, and unordered lists.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::template::regex;
use crate::text::Texts;

/// The server itself updates the status of these in the background, so their versions are not comparable.
const UPDATED_IN_BACKGROUND: [&str; 4] =
    ["CustomResourceDefinition", "APIService", "FlowSchema", "PriorityLevelConfiguration"];
/// Table columns with ages.
const AGES: [&str; 6] = ["Age", "First Seen", "Last Seen", "Duration", "Last Schedule", "RequestedDuration"];

static AGE: LazyLock<Regex> = LazyLock::new(|| regex(r"^(\d+[smhdy])+$|^<invalid>$"));
static PORT_CELL: LazyLock<Regex> = LazyLock::new(|| regex(r"(\d:)(3[0-2]\d{3})/"));

/// Returns the normal form of a body.
pub(crate) fn body(texts: &mut Texts, value: &Value) -> Value {
    walk(texts, value, "", None)
}

/// `owner` is the object that has the value as member `name`.
fn walk(texts: &mut Texts, value: &Value, name: &str, owner: Option<&Map<String, Value>>) -> Value {
    match value {
        Value::Object(members) => {
            let ordered = in_order(texts, members);
            let members = ordered.as_ref().unwrap_or(members);
            // Numbers are assigned in the order of names, regardless of the order of the map.
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            names
                .into_iter()
                .map(|name| {
                    let normal = texts.normal(name);
                    (normal, member(texts, name, &members[name], members, owner))
                })
                .collect()
        }
        Value::Array(items) if name == "managedFields" && items.iter().all(Value::is_object) => {
            let mut items = items.clone();
            items.sort_by_cached_key(|item| {
                let text = |name: &str| item.get(name).map_or_else(String::new, crate::pointer::text);
                ["operation", "manager", "apiVersion", "subresource", "fieldsV1"].map(text)
            });
            items.iter().map(|item| walk(texts, item, name, owner)).collect()
        }
        Value::Array(items) => items.iter().map(|item| walk(texts, item, name, owner)).collect(),
        Value::String(text) => Value::from(texts.normal(text)),
        other => other.clone(),
    }
}

/// Returns the normal form of a member of `owner`, which is itself a member of `parent`.
fn member(
    texts: &mut Texts,
    name: &str,
    value: &Value,
    owner: &Map<String, Value>,
    parent: Option<&Map<String, Value>>,
) -> Value {
    // Members of a selection have their pointers as names.
    let name = if name.starts_with('/') { name.rsplit('/').next().unwrap_or_default() } else { name };
    match (name, value) {
        ("resourceVersion", Value::String(version)) if is_number(version) && !texts.is_exact() => {
            Value::from(resource_version(texts, version, owner, parent))
        }
        ("continue", Value::String(token)) if !token.is_empty() => Value::from("<continue>"),
        ("token", Value::String(token)) if token.matches('.').count() == 2 => Value::from("<jwt>"),
        ("nodePort" | "healthCheckNodePort", Value::Number(port))
            if port.as_i64().is_some_and(|port| port >= 30000) =>
        {
            texts.port(&port.to_string()).map_or_else(|| value.clone(), Value::from)
        }
        _ => walk(texts, value, name, Some(owner)),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn resource_version(
    texts: &mut Texts,
    version: &str,
    owner: &Map<String, Value>,
    parent: Option<&Map<String, Value>>,
) -> String {
    if version == "0" {
        return version.to_owned();
    }
    let moves_by_itself = parent.is_some_and(|parent| {
        let kind = parent.get("kind").and_then(Value::as_str).unwrap_or_default();
        kind.ends_with("List") || kind == "Table" || UPDATED_IN_BACKGROUND.contains(&kind) || !owner.contains_key("uid")
    });
    if moves_by_itself { "<rv>".to_owned() } else { texts.number("rv", version) }
}

/// Returns the object with sorted conditions, or a table with normalized cells; `None` for other objects.
fn in_order(texts: &mut Texts, object: &Map<String, Value>) -> Option<Map<String, Value>> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind == "Table" && object.get("columnDefinitions").is_some_and(Value::is_array) {
        let mut object = object.clone();
        table(texts, &mut object);
        return Some(object);
    }
    if !UPDATED_IN_BACKGROUND.contains(&kind) {
        return None;
    }
    let mut object = object.clone();
    if let Some(Value::Array(conditions)) = object.get_mut("status").and_then(|status| status.get_mut("conditions")) {
        conditions.sort_by_cached_key(|condition| condition["type"].as_str().unwrap_or_default().to_owned());
    }
    Some(object)
}

fn table(texts: &mut Texts, table: &mut Map<String, Value>) {
    let columns: Vec<String> = table["columnDefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| column["name"].as_str().unwrap_or_default().to_owned())
        .collect();
    let rows = table.get_mut("rows").and_then(Value::as_array_mut);
    for cells in rows.into_iter().flatten().filter_map(|row| row.get_mut("cells")?.as_array_mut()) {
        for (cell, column) in cells.iter_mut().zip(&columns) {
            let Value::String(text) = cell else { continue };
            if AGES.contains(&column.as_str()) && AGE.is_match(text) {
                "<age>".clone_into(text);
            } else {
                *text = PORT_CELL
                    .replace_all(text, |found: &regex::Captures<'_>| {
                        let port = texts.port(&found[2]).unwrap_or_else(|| found[2].to_owned());
                        format!("{}{port}/", &found[1])
                    })
                    .into_owned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::body;
    use crate::text::Texts;

    #[test]
    fn normalizes_responses() {
        let uid = "0a1b2c3d-0000-4000-8000-000000000001";
        for (about, value, want) in [
            (
                "versions of objects are numbered, those of lists are not",
                json!({"kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": [
                    {"metadata": {"uid": uid, "resourceVersion": "7"}}, {"metadata": {"uid": uid, "resourceVersion": "7"}},
                    {"metadata": {"uid": uid, "resourceVersion": "8"}}, {"metadata": {"resourceVersion": "8"}}]}),
                json!({"kind": "PodList", "metadata": {"resourceVersion": "<rv>"}, "items": [
                    {"metadata": {"uid": "<uid:1>", "resourceVersion": "<rv:1>"}},
                    {"metadata": {"uid": "<uid:1>", "resourceVersion": "<rv:1>"}},
                    {"metadata": {"uid": "<uid:1>", "resourceVersion": "<rv:2>"}}, {"metadata": {"resourceVersion": "<rv>"}}]}),
            ),
            (
                "a version that is no number or 0 is compared",
                json!({"metadata": {"uid": "u", "resourceVersion": "0"}, "x": {"resourceVersion": "1a"}}),
                json!({"metadata": {"uid": "u", "resourceVersion": "0"}, "x": {"resourceVersion": "1a"}}),
            ),
            (
                "a selection's members are known by the ends of their pointers",
                json!({"/metadata/resourceVersion": "5", "/metadata/continue": "abc", "/spec/ports/0/nodePort": 30001}),
                json!({"/metadata/resourceVersion": "<rv:1>", "/metadata/continue": "<continue>", "/spec/ports/0/nodePort": "<nodeport:1>"}),
            ),
            (
                "the order of field managers does not count",
                json!({"managedFields": [{"manager": "b", "operation": "Update"}, {"manager": "a", "operation": "Update"}, {"manager": "z", "operation": "Apply"}]}),
                json!({"managedFields": [{"manager": "z", "operation": "Apply"}, {"manager": "a", "operation": "Update"}, {"manager": "b", "operation": "Update"}]}),
            ),
            (
                "nor that of conditions which come in the background",
                json!({"kind": "APIService", "metadata": {"uid": "u", "resourceVersion": "5"}, "status": {"conditions": [{"type": "b"}, {"type": "a"}]}}),
                json!({"kind": "APIService", "metadata": {"uid": "u", "resourceVersion": "<rv>"}, "status": {"conditions": [{"type": "a"}, {"type": "b"}]}}),
            ),
            (
                "that of others does",
                json!({"kind": "Pod", "status": {"conditions": [{"type": "b"}, {"type": "a"}]}}),
                json!({"kind": "Pod", "status": {"conditions": [{"type": "b"}, {"type": "a"}]}}),
            ),
            (
                "ages and node ports in the cells of tables",
                json!({"kind": "Table", "columnDefinitions": [{"name": "Name"}, {"name": "Age"}, {"name": "Port(s)"}],
                    "rows": [{"cells": ["5m", "1h5m", "80:31234/TCP,443:31235/TCP"]}, {"cells": ["a", "<invalid>", 5]}]}),
                json!({"kind": "Table", "columnDefinitions": [{"name": "Name"}, {"name": "Age"}, {"name": "Port(s)"}],
                    "rows": [{"cells": ["5m", "<age>", "80:<nodeport:1>/TCP,443:<nodeport:2>/TCP"]}, {"cells": ["a", "<age>", 5]}]}),
            ),
            (
                "tokens",
                json!({"token": "a.b.c", "other": "a.b.c", "x": {"token": "ab"}}),
                json!({"token": "<jwt>", "other": "a.b.c", "x": {"token": "ab"}}),
            ),
        ] {
            assert_eq!(body(&mut Texts::new(String::new()), &value), want, "{about}");
        }
    }
}
