//! Random changes of recorded cases: bodies, parameters, encodings and methods.

use std::path::Path;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Map, Value, json};

use crate::case::{Area, parse_supported};

/// The number of variants of each case, and the seed that makes them repeatable.
#[derive(Clone, Copy, Debug)]
pub struct Variants {
    pub count: usize,
    pub seed: u64,
}

/// Values that validation, parsers and selectors treat in special ways.
const TEXTS: [&str; 22] = [
    "",
    "A",
    "a_b",
    "-a",
    "a.b",
    "a/b",
    "a b",
    "\u{e9}",
    "1",
    "true",
    "None",
    "::1",
    "10.0.0.300",
    "-1",
    "100m",
    "1e3",
    "5%",
    "TCP",
    "2024-01-01T00:00:00Z",
    "example.com/UPPER",
    "*",
    "\\",
];
const EXPRESSIONS: [&str; 20] = [
    "true",
    "1",
    "'text'",
    "[]",
    "null",
    "object",
    "oldObject == null",
    "object.metadata.name",
    "has(object.metadata.labels)",
    "object.?spec.?replicas.orValue(1) > 0",
    "params",
    "request.userInfo.username == 'admin'",
    "variables.none",
    "object.none.none > 1",
    "1/0 == 1",
    "1 +",
    "object.spec.replicas + 'a'",
    "quantity('1Gi').isGreaterThan(quantity('1Mi'))",
    "Object{metadata: Object.metadata{labels: {'k': 'v'}}}",
    "[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'b'}}]",
];
const PARAMETERS: [(&str, &str); 22] = [
    ("fieldValidation", "Strict"),
    ("fieldValidation", "Warn"),
    ("fieldValidation", "bad"),
    ("dryRun", "All"),
    ("dryRun", "bad"),
    ("limit", "1"),
    ("limit", "x"),
    ("resourceVersion", "0"),
    ("resourceVersion", "1"),
    ("resourceVersionMatch", "Exact"),
    ("labelSelector", "a in (b,)"),
    ("labelSelector", "a=="),
    ("fieldSelector", "spec.x=y"),
    ("fieldSelector", "a"),
    ("force", "true"),
    ("propagationPolicy", "bad"),
    ("gracePeriodSeconds", "-1"),
    ("continue", "abc"),
    ("timeoutSeconds", "x"),
    ("sendInitialEvents", "true"),
    ("includeObject", "None"),
    ("includeObject", "bad"),
];
const ACCEPTS: [&str; 9] = [
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=Foo;v=v1;g=meta.k8s.io",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/html",
    "*/*",
];
const TYPES: [&str; 7] = [
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/json",
    "application/yaml",
    "text/plain",
];
const METHODS: [&str; 7] = ["PUT", "POST", "PATCH", "DELETE", "GET", "HEAD", "OPTIONS"];
/// The maximum time that a step of a variant waits for a condition, which a change may make unreachable. It is longer
/// than the five seconds after which kube-apiserver looks again whether the objects of a definition are gone.
const MAX_WAIT: f64 = 8.0;

impl Variants {
    /// Reads cases and changes them. Exclusive cases and those with hooks are left out.
    pub(super) fn of(self, path: &Path) -> Result<Vec<Area>, String> {
        let mut paths = vec![path.to_owned()];
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))?;
            paths = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
            paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
            paths.sort();
        }
        let mut random = StdRng::seed_from_u64(self.seed);
        let area = |path: &std::path::PathBuf| {
            let error = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let text = std::fs::read_to_string(path).map_err(|failed| error(&failed))?;
            let file: Value = serde_json::from_str(&text).map_err(|failed| error(&failed))?;
            parse_supported(&self.change(&mut random, file).to_string())
                .map(|(area, _)| area)
                .map_err(|failed| error(&failed))
        };
        paths.iter().map(area).collect()
    }

    fn change(self, random: &mut StdRng, mut file: Value) -> Value {
        let cases = file["cases"].as_array().cloned().unwrap_or_default();
        let ordinary = |case: &&Value| case["exclusive"] != true && case.get("hooks").is_none();
        let mut changed = Vec::new();
        for case in cases.iter().filter(ordinary) {
            for number in 0..self.count {
                changed.extend(variant(random, case, number));
            }
        }
        file["cases"] = Value::Array(changed);
        file
    }
}

/// Changes one step of a case; `None` if it has no step that can be changed.
fn variant(random: &mut StdRng, case: &Value, number: usize) -> Option<Value> {
    let mut case = case.clone();
    case["name"] = Value::from(format!("{}~{number}", case["name"].as_str()?));
    let steps = case["steps"].as_array_mut()?;
    for step in steps.iter_mut() {
        if let Some(condition) = step.get_mut("retry_until") {
            let wait = condition["timeout"].as_f64().unwrap_or(MAX_WAIT).min(MAX_WAIT);
            condition["timeout"] = json!(wait);
        }
    }
    let way = *["body", "body", "query", "accept", "type", "method"].choose(random)?;
    let needs_body = matches!(way, "body" | "type");
    let has_body = |step: &Value| step["body"].is_object() || step["body"].is_array();
    let fits = |step: &Value| step["do"].is_string() && (!needs_body || has_body(step) && step["do"] != "GET");
    let chosen: Vec<usize> = (0..steps.len()).filter(|index| fits(&steps[*index])).collect();
    let step = &mut steps[*chosen.choose(random)?];
    match way {
        "body" => {
            for _ in 0..*[1, 1, 1, 2, 3].choose(random)? {
                change_body(random, &mut step["body"]);
            }
        }
        "query" => {
            let (name, value) = *PARAMETERS.choose(random)?;
            set(step, "query", name, value);
        }
        "accept" => set(step, "headers", "Accept", ACCEPTS.choose(random)?),
        "type" => set(step, "headers", "Content-Type", TYPES.choose(random)?),
        _ => step["do"] = Value::from(*METHODS.choose(random)?),
    }
    Some(case)
}

fn set(step: &mut Value, map: &str, name: &str, value: &str) {
    if !step[map].is_object() {
        step[map] = Value::Object(Map::new());
    }
    step[map][name] = Value::from(value);
}

/// Changes one member or element somewhere in a body.
fn change_body(random: &mut StdRng, body: &mut Value) {
    let mut pointers = Vec::new();
    collect(body, "", &mut pointers);
    let Some(pointer) = pointers.choose(random) else { return };
    let Some((parent, last)) = pointer.rsplit_once('/') else { return };
    let is_expression = last.contains("xpression");
    if random.random_ratio(1, 12) {
        remove(body, parent, last);
        return;
    }
    if let Some(value) = body.pointer_mut(pointer) {
        let changed = changed_value(random, value, is_expression);
        *value = changed;
    }
}

fn collect(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
    let mut enter = |name: &str, member: &Value| {
        let inner = format!("{pointer}/{}", crate::pointer::escape(name));
        collect(member, &inner, pointers);
        pointers.push(inner);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| enter(name, member)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| enter(&index.to_string(), item));
        }
        _ => {}
    }
}

fn remove(body: &mut Value, parent: &str, name: &str) {
    let name = name.replace("~1", "/").replace("~0", "~");
    match body.pointer_mut(parent) {
        Some(Value::Object(members)) => drop(members.remove(&name)),
        Some(Value::Array(items)) => {
            if let Some(index) = name.parse().ok().filter(|index| *index < items.len()) {
                let _: Value = items.remove(index);
            }
        }
        _ => {}
    }
}

fn changed_value(random: &mut StdRng, value: &Value, is_expression: bool) -> Value {
    let numbers = [
        json!(-1),
        json!(0),
        json!(1),
        json!(65536),
        json!(2_147_483_648_i64),
        json!(i64::MAX),
        json!(1.5),
        json!(1e30),
        json!(101),
    ];
    let others =
        [json!("str"), json!(7), json!(true), json!([]), json!({}), json!([1]), json!({"a": "b"}), json!(null)];
    let pick = |random: &mut StdRng, from: &[Value]| from.choose(random).cloned().unwrap_or_default();
    if is_expression && random.random_ratio(3, 4) {
        return Value::from(EXPRESSIONS.choose(random).copied().unwrap_or_default());
    }
    // One change in four is a value of another type.
    if random.random_ratio(1, 4) {
        return pick(random, &others);
    }
    match value {
        Value::Bool(flag) => Value::from(!flag),
        Value::String(_) => match random.random_range(0..24) {
            0 => Value::from("x".repeat(64)),
            1 => Value::from("x".repeat(254)),
            _ => Value::from(TEXTS.choose(random).copied().unwrap_or_default()),
        },
        Value::Number(_) => pick(random, &numbers),
        Value::Array(items) => {
            let mut items = items.clone();
            match random.random_range(0..3) {
                0 => items.clear(),
                1 => items.reverse(),
                _ => items.extend(items.first().cloned()),
            }
            Value::Array(items)
        }
        Value::Object(members) => {
            let mut members = members.clone();
            let name = *["unknownField", "name", "kind", "A", "a/b"].choose(random).unwrap_or(&"name");
            members.insert(name.to_owned(), pick(random, &others));
            Value::Object(members)
        }
        Value::Null => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Variants;

    #[test]
    fn variants_of_a_seed_are_repeatable_and_differ_from_the_case() {
        let body = json!({"kind": "ConfigMap", "metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "v"}});
        let step = json!({"do": "POST", "path": "/x", "body": body, "retry_until": {"status": 201, "timeout": 60}});
        let case = |name: &str| json!({"name": name, "about": "x", "steps": [step]});
        let mut exclusive = case("exclusive");
        exclusive["exclusive"] = json!(true);
        let mut hooks = case("hooks");
        hooks["hooks"] = json!({});
        let file = json!({"area": "a", "cases": [case("one"), exclusive, hooks]});
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a.json"), file.to_string()).unwrap();
        let of = |seed: u64| {
            let areas = Variants { count: 50, seed }.of(folder.path()).unwrap();
            areas[0].cases.iter().map(|case| case.sent.clone()).collect::<Vec<_>>()
        };
        let variants = of(7);
        assert_eq!(variants, of(7));
        assert_ne!(variants, of(8));
        assert_eq!(variants.len(), 50, "one case is neither exclusive nor has hooks");
        let distinct: std::collections::BTreeSet<_> = variants.iter().collect();
        assert!(distinct.len() > 20, "{distinct:?}");
    }
}
