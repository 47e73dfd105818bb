//! Parsing of JSON patches, with kube-apiserver's messages for invalid ones.

use binnacle_meta::Status;
use binnacle_schema::json::{self, AnyNumberDocument};
use binnacle_schema::{Finding, Findings, Limits, Object, Value};

use super::{Operation, Patch};

/// The maximum number of operations of a patch.
const MAX_OPERATIONS: usize = 10_000;

/// Go's names of expected types in errors.
struct GoNames {
    prefix: &'static str,
    patch: &'static str,
    operation: &'static str,
}

/// With field validation, kube-apiserver first decodes a patch to its own types.
const VALIDATED: GoNames =
    GoNames { prefix: "error decoding patch: ", patch: "[]handlers.jsonPatchOp", operation: "handlers.jsonPatchOp" };
/// Otherwise its library decodes it, and checks the members of an operation only when it is applied.
const UNVALIDATED: GoNames = GoNames { prefix: "", patch: "jsonpatch.Patch", operation: "jsonpatch.Operation" };

/// Parses a patch. Fails with 400 if it is not a list of operations, and with 413 if it has more operations than
/// kube-apiserver allows.
pub fn parse(bytes: &[u8]) -> Result<Patch, Status> {
    read(bytes, &VALIDATED, true)
}

/// Like [`parse`], but without field validation: members of an operation that are not strings count as absent.
pub fn parse_unvalidated(bytes: &[u8]) -> Result<Patch, Status> {
    read(bytes, &UNVALIDATED, false)
}

fn read(bytes: &[u8], names: &GoNames, validates: bool) -> Result<Patch, Status> {
    let undecodable = |why: &str| Status::bad_request(format!("{}{why}", names.prefix));
    let read = json::parse_with_any_number(bytes, &Limits::default());
    let AnyNumberDocument { value: document, findings: duplicates, beyond, rewrites } =
        read.map_err(|error| undecodable(&error.to_string()))?;
    let items = match document {
        Value::List(items) => items,
        Value::Null => Vec::new(),
        other => {
            let found = kind(&other);
            return Err(undecodable(&format!("json: cannot unmarshal {found} into Go value of type {}", names.patch)));
        }
    };
    let mut found: Vec<(usize, Finding)> =
        duplicates.iter().map(|finding| (operation_of(finding), finding.clone())).collect();
    let mut operations = Vec::with_capacity(items.len().min(MAX_OPERATIONS));
    let mut wrong = None;
    for (at, item) in items.iter().enumerate() {
        match item {
            Value::Object(object) => {
                if validates {
                    check_members(at, object, beyond.is_some(), &mut found, &mut wrong);
                }
                operations.push(Operation::new(object));
            }
            Value::Null => operations.push(Operation::default()),
            other => {
                let found = kind(other);
                wrong.get_or_insert_with(|| {
                    format!("json: cannot unmarshal {found} into Go value of type {}", names.operation)
                });
            }
        }
    }
    if let Some(wrong) = wrong {
        return Err(undecodable(&wrong));
    }
    if operations.len() > MAX_OPERATIONS {
        return Err(Status::request_entity_too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    if operations.iter().any(|operation| operation.kind() == "test") && (rewrites || has_escaped_characters(bytes)) {
        keep_tested_texts(&mut operations, bytes);
    }
    found.sort_by_key(|(at, _)| *at);
    let mut findings = Findings::default();
    findings.extend(found.into_iter().map(|(_, finding)| finding));
    Ok(Patch { operations, findings, exceeds_f64: beyond.is_some(), rewrites, as_sent: false })
}

/// Returns true if a text has characters that Go escapes in strings, such as `<`.
fn has_escaped_characters(text: &[u8]) -> bool {
    text.iter().any(|byte| matches!(byte, b'<' | b'>' | b'&'))
        || text.windows(3).any(|c| matches!(c, [0xe2, 0x80, 0xa8 | 0xa9]))
}

/// Replaces the values of tests: kube-apiserver compares the texts of numbers and strings, and not what they mean.
fn keep_tested_texts(operations: &mut [Operation], bytes: &[u8]) {
    let Ok(Value::List(items)) = json::parse_for_test(bytes, &Limits::default()) else { return };
    for (operation, item) in operations.iter_mut().zip(&items).filter(|(operation, _)| operation.kind() == "test") {
        operation.value = item.get("value").filter(|value| !value.is_null()).cloned();
    }
}

/// Returns the index of the operation in a parser's finding, whose path is like `[7].op`.
fn operation_of(finding: &Finding) -> usize {
    let text = finding.to_string();
    let index = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    index.and_then(|(index, _)| index.parse().ok()).unwrap_or(0)
}

/// Checks the members of an operation. `exceeds_f64` is true if the patch has a number that an `f64` cannot hold.
fn check_members(
    at: usize,
    object: &Object,
    exceeds_f64: bool,
    found: &mut Vec<(usize, Finding)>,
    wrong: &mut Option<String>,
) {
    for (name, value) in object.iter() {
        match name.as_str() {
            "value" => {
                if let Some(number) = exceeds_f64.then(|| json::raw_number(value)).flatten() {
                    wrong.get_or_insert_with(|| {
                        format!(
                            "json: cannot unmarshal number {number} into Go struct field jsonPatchOp.value of type float64"
                        )
                    });
                }
            }
            "op" | "path" | "from" if matches!(value, Value::Str(_) | Value::Null) => {}
            "op" | "path" | "from" => {
                let found = kind(value);
                wrong.get_or_insert_with(|| {
                    format!("json: cannot unmarshal {found} into Go struct field jsonPatchOp.{name} of type string")
                });
            }
            // Limited, since only a few hundred are displayed.
            _ if found.len() >= MAX_OPERATIONS => {}
            _ => found.push((at, Finding::UnknownField(format!("[{at}].{name}")))),
        }
    }
}

/// Returns the name of a value's type in Go's JSON decoder.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) | Value::Raw(_) => "number",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_patches() {
        let many = format!("[{}]", vec![r#"{"op":"test","path":"/a"}"#; 10_001].join(","));
        for (patch, code, message) in [
            (
                r#"{"op":"add"}"#,
                400,
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            (
                r#""x""#,
                400,
                "error decoding patch: json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp",
            ),
            (
                "[1]",
                400,
                "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            ),
            (
                r#"[{"op":1}]"#,
                400,
                "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
            ),
            ("[", 400, "error decoding patch: unexpected end of JSON input"),
            (
                r#"[{"op":"add","path":"/a","value":{"b":[1,1E400]}}]"#,
                400,
                "error decoding patch: json: cannot unmarshal number 1E400 into Go struct field jsonPatchOp.value of type float64",
            ),
            (
                r#"[{"op":"add","path":"/a"},1E400]"#,
                400,
                "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
            ),
            (
                &many,
                413,
                "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
            ),
        ] {
            let status = parse(patch.as_bytes()).unwrap_err();
            assert_eq!((status.code(), status.message()), (code, message));
        }
    }

    #[test]
    fn rejects_undecodable_patches_without_validation() {
        for (patch, message) in [
            ("{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
            ("[1]", "json: cannot unmarshal number into Go value of type jsonpatch.Operation"),
            ("[", "unexpected end of JSON input"),
        ] {
            let status = parse_unvalidated(patch.as_bytes()).unwrap_err();
            assert_eq!((status.code(), status.message()), (400, message));
        }
        let odd = parse_unvalidated(br#"[{"op":1}]"#).unwrap();
        assert_eq!(odd.apply(Value::Object(Object::new())).unwrap_err().code(), 422);
    }

    #[test]
    fn reports_unknown_and_duplicate_fields() {
        let patch = br#"[{"op":"add","path":"/a","more":1},{"op":"add","path":"/b","op":"add"},{"extra":1}]"#;
        let patch = parse(patch).unwrap();
        let findings: Vec<String> = patch.findings().iter().map(ToString::to_string).collect();
        assert_eq!(
            findings,
            [r#"unknown field "[0].more""#, r#"duplicate field "[1].op""#, r#"unknown field "[2].extra""#]
        );
    }
}
