//! Reading a JSON patch, with the reference's words for what is none.

use binnacle_meta::Status;
use binnacle_schema::{Finding, Findings, Limits, Object, Value, json};

use super::{Operation, Patch};

/// How many operations a patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// Reads a patch: 400 for what is no list of operations, 413 for more operations than the reference allows.
pub fn parse(bytes: &[u8]) -> Result<Patch, Status> {
    let (document, duplicates) =
        json::parse_strict(bytes, &Limits::default()).map_err(|error| undecodable(&error.to_string()))?;
    let items = match document {
        Value::List(items) => items,
        Value::Null => Vec::new(),
        other => {
            let found = kind(&other);
            return Err(undecodable(&format!(
                "json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
            )));
        }
    };
    let mut findings = Findings::default();
    findings.extend(duplicates.iter().cloned());
    let mut operations = Vec::with_capacity(items.len().min(MAX_OPERATIONS));
    let mut wrong = None;
    for (at, item) in items.iter().enumerate() {
        match item {
            Value::Object(object) => {
                check_members(at, object, &mut findings, &mut wrong);
                operations.push(Operation::new(object));
            }
            Value::Null => operations.push(Operation::default()),
            other => {
                let found = kind(other);
                wrong.get_or_insert_with(|| {
                    format!("json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp")
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
    Ok(Patch { operations, findings })
}

fn check_members(at: usize, object: &Object, findings: &mut Findings, wrong: &mut Option<String>) {
    for (name, value) in object.iter() {
        match name.as_str() {
            "value" => {}
            "op" | "path" | "from" if matches!(value, Value::Str(_) | Value::Null) => {}
            "op" | "path" | "from" => {
                let found = kind(value);
                wrong.get_or_insert_with(|| {
                    format!("json: cannot unmarshal {found} into Go struct field jsonPatchOp.{name} of type string")
                });
            }
            _ => findings.push(Finding::UnknownField(format!("[{at}].{name}"))),
        }
    }
}

fn undecodable(why: &str) -> Status {
    Status::bad_request(format!("error decoding patch: {why}"))
}

/// What Go's JSON decoder calls the type of a value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::Str(_) | Value::Raw(_) => "string",
        Value::List(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses() {
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
    fn findings() {
        let patch = parse(br#"[{"op":"add","path":"/a","op":"add"},{"op":"add","path":"/b","extra":1}]"#).unwrap();
        let told: Vec<String> = patch.findings().iter().map(ToString::to_string).collect();
        assert_eq!(told, [r#"duplicate field "[0].op""#, r#"unknown field "[1].extra""#]);
    }
}
