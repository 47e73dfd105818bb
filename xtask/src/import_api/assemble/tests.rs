//! Assembling without Go sources, on documents of a few lines.

use serde_json::json;

use super::*;

const SCHEMAS: &str = "#/components/schemas/io.k8s.api.sample.v1.";

fn definitions(extra: &Value) -> Definitions {
    let mut schema = json!({
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "path": {"type": "string"},
            "name": {"type": "string", "default": ""},
            "count": {"type": "integer", "format": "int32"},
            "parts": {"type": "array", "items": {"$ref": format!("{SCHEMAS}Part")}, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"]},
        },
        "required": ["name"],
    });
    for (name, property) in extra.as_object().into_iter().flatten() {
        schema["properties"][name] = property.clone();
    }
    let part = json!({"type": "object", "properties": {"name": {"type": "string", "default": "", "enum": ["A", "B"]}},
        "required": ["name"], "x-kubernetes-map-type": "atomic"});
    let kinds = vec![("sample/v1".to_string(), "Sample".to_string())];
    Definitions::from([
        ("io.k8s.api.sample.v1.Sample".into(), Definition { schema, kinds }),
        ("io.k8s.api.sample.v1.Part".into(), Definition { schema: part, kinds: Vec::new() }),
    ])
}

fn messages() -> Messages {
    let field = |name: &str, number, ty| ProtoField { name: name.into(), number, ty };
    let string = || ProtoTy::Scalar("string".into());
    let message = |name: &str| ProtoTy::Message(format!("io.k8s.api.sample.v1.{name}"));
    Messages::from([
        (
            "io.k8s.api.sample.v1.Sample".into(),
            vec![
                field("name", 1, string()),
                field("source", 2, message("Source")),
                field("count", 3, ProtoTy::Scalar("int32".into())),
                field("parts", 4, ProtoTy::Repeated(Box::new(message("Part")))),
            ],
        ),
        ("io.k8s.api.sample.v1.Source".into(), vec![field("path", 1, string())]),
        ("io.k8s.api.sample.v1.Part".into(), vec![field("Name", 1, string())]),
    ])
}

fn run(openapi: &Definitions, protobuf: &Messages, old: &[Table]) -> Result<String, Vec<String>> {
    let tables = assemble(Sources { openapi, protobuf, go: None, old })?;
    Ok(tables.iter().map(binnacle_tables::write).collect())
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn assembles_a_new_package() {
    let text = run(&definitions(&json!({})), &messages(), &[]).unwrap();
    let expected = [
        "# Written by `cargo xtask import-api`; the format is described in ../README.md.",
        "package io.k8s.api.sample.v1",
        "api-version sample/v1 options",
        "",
        "message Part atomic",
        "name 1 string always required default=zero enum=A|B",
        "",
        "message Sample kind",
        "kind 0 string omit",
        "apiVersion 0 string omit",
        "name 1 string always required default=zero",
        "path 2/1 string optional",
        "count 3 int32 optional",
        "parts 4 []Part omit list=map:name",
    ];
    assert_eq!(lines(&text), expected);
}

/// Facts that only the Go sources have are kept; those from the documents are replaced.
#[test]
fn keeps_facts_known_only_from_go() {
    let old = "\
package io.k8s.api.sample.v1
api-version sample/v1

message Sample kind
  kind 0 string omit
  apiVersion 0 string omit
  path 2/1 string omit
  name 1 string always
  gone 9 string omit
";
    let old = binnacle_tables::read([("sample.v1.tbl", old)]).unwrap();
    let text = run(&definitions(&json!({})), &messages(), &old).unwrap();
    let sample = lines(text.split("message Sample").nth(1).unwrap());
    let expected = [
        " kind",
        "kind 0 string omit",
        "apiVersion 0 string omit",
        "path 2/1 string omit",
        "name 1 string always required default=zero",
        "count 3 int32 optional",
        "parts 4 []Part omit list=map:name",
    ];
    assert_eq!(sample.iter().map(|line| line.trim()).collect::<Vec<_>>(), expected.map(str::trim));
    assert!(text.contains("api-version sample/v1\n"));
    // No document shows the messages any more: the tables stay as they are.
    let known = binnacle_tables::read([("sample.v1.tbl", text.as_str())]).unwrap();
    assert!(text.contains("message Part atomic"));
    assert_eq!(run(&Definitions::new(), &messages(), &known).unwrap(), text);
}

#[test]
fn reports_contradictions_between_sources() {
    let cases = [
        (json!({"late": {"type": "string"}}), "late: absent from protobuf"),
        (json!({"count": {"type": "string"}}), "count: String is Scalar(\"int32\") in protobuf"),
        (json!({"count": {"type": "integer", "format": "int32", "x-kubernetes-new": 1}}), "is not understood"),
        (json!({"name": {"type": "object"}}), "not understood"),
    ];
    for (extra, problem) in cases {
        let problems = run(&definitions(&extra), &messages(), &[]).unwrap_err();
        assert!(problems.iter().any(|found| found.contains(problem)), "{problems:?} for {extra}");
    }
    let mut more = messages();
    let sample = more.get_mut("io.k8s.api.sample.v1.Sample").unwrap();
    sample.push(ProtoField { name: "vendor".into(), number: 5, ty: ProtoTy::Scalar("string".into()) });
    let problems = run(&definitions(&json!({})), &more, &[]).unwrap_err();
    assert_eq!(problems, ["io.k8s.api.sample.v1.Sample: vendor is only in protobuf"]);
}
