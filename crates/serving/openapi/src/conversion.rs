//! Conversion of documents from version 2 to version 3, for servers that serve only version 2.

use binnacle_work::allocate;
use serde_json::{Map, Value, json};

/// The memory of a value in a tree, in bytes and without its text, and of an object without its members.
const NODE: usize = 64;
const OBJECT: usize = 640;

/// Converts a document from version 2 to version 3. Shared parameters are inlined, so the document may become much
/// larger: it is truncated when the work budget is exhausted. The caller must check the budget.
pub fn convert_to_v3(v2: &Value) -> Value {
    let mut components = Map::new();
    if let Some(definitions) = v2["definitions"].as_object() {
        let schemas: Map<String, Value> = definitions.iter().map(|(name, it)| (name.clone(), schema(it))).collect();
        components.insert("schemas".to_owned(), Value::Object(schemas));
    }
    if let Some(schemes) = v2.get("securityDefinitions").filter(|schemes| schemes.is_object()) {
        components.insert("securitySchemes".to_owned(), schemes.clone());
    }
    let paths = v2["paths"].as_object().into_iter().flatten();
    let paths: Map<String, Value> =
        paths.take_while(charge_member).map(|(path, item)| (path.clone(), path_item(item, v2))).collect();
    json!({"openapi": "3.0.0", "info": v2["info"], "paths": paths, "components": components})
}

fn path_item(item: &Value, v2: &Value) -> Value {
    let mut output = Map::new();
    for (key, value) in item.as_object().into_iter().flatten().take_while(charge_member) {
        let value = match key.as_str() {
            "get" | "put" | "post" | "delete" | "options" | "head" | "patch" => operation(value, v2),
            "parameters" => list(value, |it| parameter(it, v2)),
            _ => copy(value),
        };
        output.insert(key.clone(), value);
    }
    Value::Object(output)
}

fn operation(operation: &Value, v2: &Value) -> Value {
    let mut output = Map::new();
    let media_types = |member: &str| -> Vec<String> {
        let types = operation[member].as_array().or_else(|| v2[member].as_array());
        let types = types.into_iter().flatten().filter_map(Value::as_str);
        types.take_while(|media_type| allocate(NODE + media_type.len()).is_ok()).map(str::to_owned).collect()
    };
    for (key, value) in operation.as_object().into_iter().flatten().take_while(charge_member) {
        match key.as_str() {
            "consumes" | "produces" | "schemes" => {}
            "parameters" => {
                let (bodies, parameters): (Vec<&Value>, Vec<&Value>) = value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|it| resolve(it, v2))
                    .partition(|it| it["in"] == "body" && it.get("schema").is_some());
                if let Some(body) = bodies.first() {
                    let content = content(&body["schema"], &media_types("consumes"));
                    output.insert("requestBody".to_owned(), json!({ "content": content }));
                }
                if !parameters.is_empty() {
                    let parameters = parameters.into_iter().take_while(|_| allocate(NODE).is_ok());
                    let parameters = parameters.map(|it| parameter(it, v2)).collect();
                    output.insert(key.clone(), Value::Array(parameters));
                }
            }
            "responses" => {
                let produces = media_types("produces");
                let all = value.as_object().into_iter().flatten().take_while(charge_member);
                let all: Map<String, Value> = all.map(|(code, it)| (code.clone(), response(it, &produces))).collect();
                output.insert(key.clone(), Value::Object(all));
            }
            _ => drop(output.insert(key.clone(), copy(value))),
        }
    }
    Value::Object(output)
}

fn response(response: &Value, produces: &[String]) -> Value {
    let mut output = if charge_tree(response) { response.as_object().cloned().unwrap_or_default() } else { Map::new() };
    if let Some(schema) = output.remove("schema") {
        output.insert("content".to_owned(), content(&schema, produces));
    }
    Value::Object(output)
}

fn content(of: &Value, media_types: &[String]) -> Value {
    let media_types = media_types.iter().take_while(|media_type| allocate(OBJECT + media_type.len()).is_ok());
    let entries = media_types.map(|media_type| (media_type.clone(), json!({ "schema": schema(of) })));
    Value::Object(entries.collect())
}

/// Converts a parameter other than a body: its type becomes a schema.
fn parameter(parameter: &Value, v2: &Value) -> Value {
    if !charge_tree(resolve(parameter, v2)) {
        return Value::Null;
    }
    let mut output = resolve(parameter, v2).as_object().cloned().unwrap_or_default();
    let mut simple = Map::new();
    for member in ["type", "format", "uniqueItems", "items", "default", "enum", "pattern", "minimum", "maximum"] {
        if let Some(value) = output.remove(member) {
            simple.insert(member.to_owned(), value);
        }
    }
    let of = output.remove("schema").map_or(Value::Object(simple), |declared| schema(&declared));
    output.insert("schema".to_owned(), of);
    Value::Object(output)
}

/// Resolves a reference to a shared parameter; returns other parameters unchanged.
fn resolve<'a>(parameter: &'a Value, v2: &'a Value) -> &'a Value {
    let name = parameter["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/parameters/"));
    name.and_then(|name| v2["parameters"].get(name)).unwrap_or(parameter)
}

/// Charges the memory of a value without its members; returns false if there is not enough.
fn charge_node(value: &Value) -> bool {
    let bytes = match value {
        Value::Object(members) if !members.is_empty() => OBJECT + members.keys().map(String::len).sum::<usize>(),
        value => NODE + value.as_str().map_or(0, str::len),
    };
    allocate(bytes).is_ok()
}

/// Charges the memory of a member in the output; returns false if there is not enough.
fn charge_member((key, _): &(&String, &Value)) -> bool {
    allocate(OBJECT + key.len()).is_ok()
}

/// Returns a copy, or null if there is not enough memory.
fn copy(value: &Value) -> Value {
    if charge_tree(value) { value.clone() } else { Value::Null }
}

/// Charges the memory of a copy; returns false if there is not enough.
fn charge_tree(value: &Value) -> bool {
    if !charge_node(value) {
        return false;
    }
    match value {
        Value::Object(members) => members.values().all(charge_tree),
        Value::Array(list) => list.iter().all(charge_tree),
        _ => true,
    }
}

/// Converts the references in a schema to those of version 3, where members beside a reference would be ignored.
fn schema(of: &Value) -> Value {
    if !charge_node(of) {
        return Value::Null;
    }
    match of {
        Value::Object(members) => {
            let mut output: Map<String, Value> =
                members.iter().filter(|(key, _)| *key != "$ref").map(|(key, it)| (key.clone(), schema(it))).collect();
            let Some(reference) = members.get("$ref") else { return Value::Object(output) };
            let Some(text) = reference.as_str() else {
                // A property named `$ref`.
                output.insert("$ref".to_owned(), schema(reference));
                return Value::Object(output);
            };
            let target = json!({"$ref": text.replacen("#/definitions/", "#/components/schemas/", 1)});
            if output.is_empty() {
                return target;
            }
            output.insert("allOf".to_owned(), Value::Array(vec![target]));
            Value::Object(output)
        }
        Value::Array(list) => Value::Array(list.iter().map(schema).collect()),
        other => other.clone(),
    }
}

fn list(of: &Value, each: impl Fn(&Value) -> Value) -> Value {
    let all = of.as_array().into_iter().flatten().take_while(|_| allocate(NODE).is_ok());
    Value::Array(all.map(each).collect())
}

#[cfg(test)]
mod tests {
    use binnacle_work::{WorkLimits, limited};

    use super::*;

    #[test]
    fn bounds_memory_of_conversion() {
        let large = json!({"name": "p", "in": "query", "enum": (vec![0; 1000])});
        let schema = json!({"enum": (vec![0; 1000])});
        let types: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let parameters = vec![json!({"$ref": "#/parameters/p"}); 1000];
        let paths = [
            json!({"get": {"parameters": parameters}}),
            json!({"get": {"produces": types, "responses": {"200": {"schema": schema}}}}),
        ];
        // Many responses with many media types, whose schemas are small.
        let many: Map<String, Value> = (0..1000).map(|n| (n.to_string(), json!({"schema": {}}))).collect();
        let types: Vec<String> = (0..1_000_000).map(|n| n.to_string()).collect();
        let wide = json!({"get": {"produces": types, "responses": many}});
        for path in paths.into_iter().chain([wide]) {
            let v2 = json!({"paths": {"/a": path}, "parameters": {"p": large}});
            let limits = WorkLimits { steps: u64::MAX, memory: 8 << 20 };
            assert!(limited(limits, || convert_to_v3(&v2)).is_err());
        }
    }

    #[test]
    fn converts_v2_documents_to_v3() {
        let v2 = json!({
            "swagger": "2.0", "info": {"title": "t", "version": "v"},
            "paths": {"/apis/g/v1/things": {
                "post": {
                    "operationId": "create", "consumes": ["application/json"], "produces": ["application/json"],
                    "parameters": [
                        {"name": "body", "in": "body", "required": true, "schema": {"$ref": "#/definitions/Thing"}},
                        {"$ref": "#/parameters/dry"},
                    ],
                    "responses": {"200": {"description": "OK", "schema": {"$ref": "#/definitions/Thing"}}, "401": {"description": "Unauthorized"}},
                },
                "parameters": [{"name": "pretty", "in": "query", "type": "string", "uniqueItems": true}],
            }},
            "parameters": {"dry": {"name": "dryRun", "in": "query", "type": "string"}},
            "definitions": {"Thing": {"type": "object", "properties": {
                "spec": {"$ref": "#/definitions/Spec", "description": "d"}, "list": {"type": "array", "items": {"$ref": "#/definitions/Spec"}},
            }}, "Spec": {"type": "object"}},
        });
        let thing = json!({"application/json": {"schema": {"$ref": "#/components/schemas/Thing"}}});
        let want = json!({
            "openapi": "3.0.0", "info": {"title": "t", "version": "v"},
            "paths": {"/apis/g/v1/things": {
                "post": {
                    "operationId": "create", "requestBody": {"content": thing},
                    "parameters": [{"name": "dryRun", "in": "query", "schema": {"type": "string"}}],
                    "responses": {"200": {"description": "OK", "content": thing}, "401": {"description": "Unauthorized"}},
                },
                "parameters": [{"name": "pretty", "in": "query", "schema": {"type": "string", "uniqueItems": true}}],
            }},
            "components": {"schemas": {"Thing": {"type": "object", "properties": {
                "spec": {"allOf": [{"$ref": "#/components/schemas/Spec"}], "description": "d"},
                "list": {"type": "array", "items": {"$ref": "#/components/schemas/Spec"}},
            }}, "Spec": {"type": "object"}}},
        });
        assert_eq!(convert_to_v3(&v2), want);
    }
}
