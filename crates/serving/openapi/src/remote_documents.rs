//! OpenAPI documents of remote servers, beside those of this server.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::digest::digest;

/// The documents of remote servers at one time.
#[derive(Debug, Default)]
pub struct RemoteDocuments {
    /// URLs of documents of version 3 by name, for the index. A handler that precedes the one of this server serves
    /// them.
    pub index: BTreeMap<String, String>,
    /// Documents of version 3 that were converted for servers without them; see [`crate::convert_to_v3`].
    pub documents: BTreeMap<String, Arc<ConvertedDocument>>,
    /// Documents of version 2, in the order in which they are merged; see [`keep_paths`].
    pub v2: Vec<Arc<Value>>,
}

/// A document of version 3 that was converted from version 2.
#[derive(Debug)]
pub struct ConvertedDocument {
    pub(crate) json: Bytes,
    pub(crate) hash: String,
}

impl ConvertedDocument {
    pub fn new(document: &Value) -> Self {
        let json = Bytes::from(document.to_string());
        Self { hash: digest(&json), json }
    }

    pub fn json(&self) -> &Bytes {
        &self.json
    }
}

const DEFINITIONS: &str = "definitions";
const PARAMETERS: &str = "parameters";
const KINDS: &str = "x-kubernetes-group-version-kind";

/// Removes paths without this prefix from a document of version 2, and the definitions that only these paths need.
pub fn keep_paths(document: &mut Value, prefix: &str) {
    retain_paths(document, |path| path.starts_with(prefix));
}

fn retain_paths(document: &mut Value, keep: impl Fn(&str) -> bool) {
    let mut counts = references(document);
    let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) else { return };
    let mut unreferenced = Vec::new();
    paths.retain(|path, item| {
        let keep = keep(path);
        if !keep {
            subtract_references(item, &mut counts, &mut unreferenced);
        }
        keep
    });
    // Definitions that are referenced by removed ones only are removed too.
    let Some(definitions) = document.get_mut(DEFINITIONS).and_then(Value::as_object_mut) else { return };
    let prefix = format!("#/{DEFINITIONS}/");
    while let Some(reference) = unreferenced.pop() {
        if let Some(removed) = reference.strip_prefix(&prefix).and_then(|name| definitions.remove(name)) {
            subtract_references(&removed, &mut counts, &mut unreferenced);
        }
    }
}

/// Subtracts the references of a removed value. Appends those without remaining uses to `unreferenced`.
fn subtract_references(removed: &Value, counts: &mut HashMap<String, usize>, unreferenced: &mut Vec<String>) {
    for (reference, count) in references(removed) {
        if let Some(left) = counts.get_mut(&reference) {
            *left = left.saturating_sub(count);
            if *left == 0 {
                counts.remove(&reference);
                unreferenced.push(reference);
            }
        }
    }
}

/// Adds the paths of remote servers to a document of version 2, with their definitions and parameters, which are
/// renamed if a different one has the same name.
pub(crate) fn merge(own: &[u8], others: &[Arc<Value>]) -> Option<Vec<u8>> {
    let mut merged: Value = serde_json::from_slice(own).ok()?;
    for other in others {
        add(&mut merged, Value::clone(other));
    }
    serde_json::to_vec(&merged).ok()
}

fn add(merged: &mut Value, mut other: Value) {
    if other.get("paths").and_then(Value::as_object).is_none() {
        return;
    }
    let existing_paths: BTreeSet<String> = members(merged, "paths").keys().cloned().collect();
    retain_paths(&mut other, |path| !existing_paths.contains(path));
    for section in [DEFINITIONS, PARAMETERS] {
        let renames = renames(merged, &other, section);
        rename_references(&mut other, &renames, section);
        for (name, value) in std::mem::take(members(&mut other, section)) {
            let name = renames.get(&name).cloned().unwrap_or(name);
            match members(merged, section).get_mut(&name) {
                Some(existing) => add_kinds(existing, &value),
                None => drop(members(merged, section).insert(name, value)),
            }
        }
        if members(merged, section).is_empty()
            && let Some(merged) = merged.as_object_mut()
        {
            merged.remove(section);
        }
    }
    let paths = std::mem::take(members(&mut other, "paths"));
    members(merged, "paths").extend(paths);
}

/// Returns new names for definitions or parameters whose names are used by different ones.
fn renames(merged: &mut Value, other: &Value, section: &str) -> BTreeMap<String, String> {
    let mut renames = BTreeMap::new();
    let Some(theirs) = other.get(section).and_then(Value::as_object) else { return renames };
    let existing = members(merged, section);
    for (name, value) in theirs {
        if existing.get(name).is_none_or(|existing| is_same(existing, value)) {
            continue;
        }
        let is_free = |candidate: &String| match existing.get(candidate) {
            Some(existing) => is_same(existing, value),
            None => !theirs.contains_key(candidate),
        };
        let candidates = (2..).map(|number| format!("{name}_v{number}"));
        renames.extend(candidates.into_iter().find(is_free).map(|candidate| (name.clone(), candidate)));
    }
    renames
}

/// Returns true if both are equal apart from kinds and descriptions.
fn is_same(a: &Value, b: &Value) -> bool {
    // A property may be named `description`; its value is not a string.
    let counts = |(key, value): &(&String, &Value)| *key != KINDS && !(*key == "description" && value.is_string());
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let (a, b): (Vec<_>, Vec<_>) = (a.iter().filter(counts).collect(), b.iter().filter(counts).collect());
            let same = |((key, value), (other_key, other)): (&(&String, &Value), &(&String, &Value))| {
                key == other_key && is_same(value, other)
            };
            a.len() == b.len() && a.iter().zip(&b).all(same)
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b)),
        (a, b) => a == b,
    }
}

fn add_kinds(existing: &mut Value, other: &Value) {
    let Some(kinds) = other.get(KINDS).and_then(Value::as_array) else { return };
    let Some(existing) = existing.as_object_mut() else { return };
    let existing_kinds = existing.entry(KINDS).or_insert_with(|| Value::Array(Vec::new()));
    if let Some(existing_kinds) = existing_kinds.as_array_mut() {
        let existing: HashSet<String> = existing_kinds.iter().map(Value::to_string).collect();
        let new: Vec<Value> = kinds.iter().filter(|kind| !existing.contains(&kind.to_string())).cloned().collect();
        existing_kinds.extend(new);
    }
}

fn rename_references(value: &mut Value, renames: &BTreeMap<String, String>, section: &str) {
    if renames.is_empty() {
        return;
    }
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if key == "$ref"
                    && let Some(reference) = value.as_str()
                    && let Some(name) = reference.strip_prefix(&format!("#/{section}/"))
                    && let Some(new) = renames.get(name)
                {
                    *value = Value::String(format!("#/{section}/{new}"));
                } else {
                    rename_references(value, renames, section);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| rename_references(value, renames, section)),
        _ => {}
    }
}

/// Returns all references of a value with their numbers of occurrences.
fn references(value: &Value) -> HashMap<String, usize> {
    fn collect(value: &Value, found: &mut HashMap<String, usize>) {
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    match value {
                        Value::String(reference) if key == "$ref" => match found.get_mut(reference) {
                            Some(count) => *count += 1,
                            None => drop(found.insert(reference.clone(), 1)),
                        },
                        value => collect(value, found),
                    }
                }
            }
            Value::Array(list) => list.iter().for_each(|value| collect(value, found)),
            _ => {}
        }
    }
    let mut found = HashMap::new();
    collect(value, &mut found);
    found
}

/// Returns the members of a section of the document, which is added if absent.
fn members<'a>(document: &'a mut Value, section: &str) -> &'a mut Map<String, Value> {
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let part = &mut document[section];
    if !part.is_object() {
        *part = Value::Object(Map::new());
    }
    match part {
        Value::Object(members) => members,
        _ => unreachable!("made an object above"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_paths_with_their_definitions() {
        let mut document = json!({
            "paths": {
                "/apis/g/v1/a": {"get": {"$ref": "#/definitions/A"}},
                "/apis/h/v1/b": {"get": {"$ref": "#/definitions/B"}},
            },
            "definitions": {"A": {"x": {"$ref": "#/definitions/Part"}}, "B": {"x": {"$ref": "#/definitions/Deep"}}, "Deep": {}, "Part": {}, "Free": {}},
        });
        keep_paths(&mut document, "/apis/g/v1/");
        let names = |part: &str| document[part].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(names("paths"), ["/apis/g/v1/a"]);
        assert_eq!(names("definitions"), ["A", "Free", "Part"]);
    }

    /// The time to remove a chain of definitions is linear in its length. Cycles remain.
    #[test]
    fn removes_long_chains_in_linear_time() {
        const LENGTH: usize = 100_000;
        let mut definitions: Map<String, Value> =
            (0..LENGTH).map(|at| (format!("D{at}"), json!({"$ref": format!("#/definitions/D{}", at + 1)}))).collect();
        definitions.insert("Cycle".to_owned(), json!({"x": {"$ref": "#/definitions/Cycle"}}));
        let mut document = json!({
            "paths": {
                "/apis/h/v1/a": {"get": {"$ref": "#/definitions/D0"}},
                "/apis/h/v1/b": {"get": {"$ref": "#/definitions/Cycle"}},
            },
            "definitions": definitions,
        });
        keep_paths(&mut document, "/apis/g/v1/");
        let left: Vec<&String> = document["definitions"].as_object().expect("an object").keys().collect();
        assert_eq!(left, ["Cycle"]);
    }

    #[test]
    fn renames_clashing_definitions() {
        let own = json!({
            "swagger": "2.0", "paths": {"/x": {"get": {"own": true}}},
            "definitions": {"Same": {"type": "object", KINDS: [{"kind": "A"}]}, "Other": {"type": "string"}, "Other_v2": {"type": "number"}},
        });
        let theirs = json!({
            "paths": {"/x": {"get": {"own": false}}, "/y": {"get": {"a": {"$ref": "#/definitions/Other"}, "b": {"$ref": "#/definitions/Same"}, "c": {"$ref": "#/parameters/p"}}}},
            "definitions": {"Same": {"type": "object", KINDS: [{"kind": "B"}]}, "Other": {"type": "boolean"}},
            "parameters": {"p": {"name": "p"}},
        });
        let merged = merge(own.to_string().as_bytes(), &[Arc::new(theirs.clone()), Arc::new(theirs)]).unwrap();
        let merged: Value = serde_json::from_slice(&merged).unwrap();
        assert_eq!(
            merged,
            json!({
                "swagger": "2.0",
                "paths": {"/x": {"get": {"own": true}}, "/y": {"get": {"a": {"$ref": "#/definitions/Other_v3"}, "b": {"$ref": "#/definitions/Same"}, "c": {"$ref": "#/parameters/p"}}}},
                "definitions": {
                    "Same": {"type": "object", KINDS: [{"kind": "A"}, {"kind": "B"}]},
                    "Other": {"type": "string"}, "Other_v2": {"type": "number"}, "Other_v3": {"type": "boolean"},
                },
                "parameters": {"p": {"name": "p"}},
            })
        );
    }
}
