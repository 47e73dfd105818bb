//! OpenAPI v3 documents: definitions by name, those of several documents put together.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value};

/// One entry of `components.schemas`.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) schema: Value,
    /// `apiVersion` and kind of all documents.
    pub(crate) kinds: Vec<(String, String)>,
}

pub(crate) type Definitions = BTreeMap<String, Definition>;

/// All definitions of all JSON files of the folders. Documents may differ in the kinds that they list, and in enums,
/// which are absent from the specifications of a checkout but not from served documents; nothing else.
pub(crate) fn read(folders: &[PathBuf]) -> Result<Definitions, String> {
    let mut all = Definitions::new();
    for folder in folders {
        let mut files: Vec<PathBuf> = fs::read_dir(folder)
            .map_err(|e| format!("{}: {e}", folder.display()))?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
            .collect();
        files.sort();
        for file in files {
            let text = fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
            let document: Value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", file.display()))?;
            let Some(Value::Object(schemas)) = document.pointer("/components/schemas") else { continue };
            for (name, schema) in schemas {
                add(&mut all, name, schema).map_err(|e| format!("{}: {name}: {e}", file.display()))?;
            }
        }
    }
    Ok(all)
}

fn add(all: &mut Definitions, name: &str, schema: &Value) -> Result<(), String> {
    let mut schema = schema.clone();
    let kinds = take_kinds(&mut schema);
    strip_descriptions(&mut schema);
    let Some(known) = all.get_mut(name) else {
        all.insert(name.into(), Definition { schema, kinds });
        return Ok(());
    };
    for kind in kinds {
        if !known.kinds.contains(&kind) {
            known.kinds.push(kind);
        }
    }
    merge_enums(&mut known.schema, &schema)
}

fn take_kinds(schema: &mut Value) -> Vec<(String, String)> {
    let kinds = schema.as_object_mut().and_then(|schema| schema.remove("x-kubernetes-group-version-kind"));
    let text = |kind: &Value, name: &str| kind.get(name).and_then(Value::as_str).unwrap_or_default().to_string();
    kinds
        .as_ref()
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|kind| {
            let (group, version) = (text(kind, "group"), text(kind, "version"));
            let api_version = if group.is_empty() { version } else { format!("{group}/{version}") };
            (api_version, text(kind, "kind"))
        })
        .collect()
}

/// Properties may be called `description` too: only texts are descriptions.
fn strip_descriptions(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, value| name != "description" || !value.is_string());
            members.values_mut().for_each(strip_descriptions);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_descriptions),
        _ => {}
    }
}

fn merge_enums(known: &mut Value, new: &Value) -> Result<(), String> {
    match (known, new) {
        (Value::Object(known), Value::Object(new)) => {
            for (name, value) in known.iter_mut() {
                match new.get(name) {
                    Some(other) => merge_enums(value, other).map_err(|e| format!("{name}: {e}"))?,
                    None if name == "enum" => {}
                    None => return Err(format!("{name} is absent from another document")),
                }
            }
            for (name, value) in new {
                if !known.contains_key(name) {
                    if name != "enum" {
                        return Err(format!("{name} is absent from another document"));
                    }
                    known.insert(name.clone(), value.clone());
                }
            }
            Ok(())
        }
        (known, new) if *known == *new => Ok(()),
        (known, new) => Err(format!("{known} here, {new} in another document")),
    }
}

impl Definition {
    pub(crate) fn properties(&self) -> Option<&Map<String, Value>> {
        self.schema.get("properties").and_then(Value::as_object)
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Value> {
        self.properties()?.get(name)
    }

    /// The names under `required`, in the document's order.
    pub(crate) fn required(&self) -> Vec<&str> {
        strings(self.schema.get("required"))
    }
}

/// The texts of a list, none where there is no list.
pub(crate) fn strings(value: Option<&Value>) -> Vec<&str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// The definition that a schema refers to, directly or (where it says something of its own) through `allOf`.
pub(crate) fn reference(schema: &Value) -> Option<&str> {
    let target = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"))?;
    target.as_str()?.strip_prefix("#/components/schemas/")
}
