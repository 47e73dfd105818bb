//! JSON that protobuf carries without a schema: raw extensions, values in schemas, the fields of managed fields.

use super::error::ProtoError;
use crate::value::{Object, Value};

/// Reads carried JSON into a tree.
pub(super) fn read(raw: &[u8]) -> Result<Value, ProtoError> {
    let value: serde_json::Value =
        serde_json::from_slice(raw).map_err(|error| ProtoError::malformed(error.to_string()))?;
    fn tree(value: serde_json::Value) -> Value {
        match value {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(b) => Value::Bool(b),
            serde_json::Value::Number(n) => {
                n.as_i64().map(Value::Int).unwrap_or_else(|| Value::Float(n.as_f64().unwrap_or(0.0)))
            }
            serde_json::Value::String(s) => Value::Str(s.into()),
            serde_json::Value::Array(a) => Value::List(a.into_iter().map(tree).collect()),
            serde_json::Value::Object(o) => Value::Object(o.into_iter().map(|(k, v)| (k, tree(v))).collect::<Object>()),
        }
    }
    Ok(tree(value))
}

pub(super) fn carry(raw: &[u8]) -> Result<Value, ProtoError> {
    let mut out = vec![];
    put_carried(raw, &mut out)?;
    Ok(Value::Raw(String::from_utf8(out).unwrap_or_default().into()))
}

pub(super) fn put_carried(raw: &[u8], out: &mut Vec<u8>) -> Result<(), ProtoError> {
    out.extend_from_slice(raw);
    Ok(())
}

pub(super) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend(b"null"),
        Value::Bool(b) => out.extend(b.to_string().bytes()),
        Value::Int(b) => out.extend(b.to_string().bytes()),
        Value::Float(b) => out.extend(b.to_string().bytes()),
        Value::Str(b) => super::text::put_text(b.as_bytes(), out),
        Value::Raw(b) => out.extend(b.bytes()),
        Value::List(l) => {
            out.push(b'[');
            for (i, v) in l.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(v, out);
            }
            out.push(b']');
        }
        Value::Object(l) => {
            out.push(b'{');
            for (i, (k, v)) in l.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                super::text::put_text(k.as_bytes(), out);
                out.push(b':');
                write(v, out);
            }
            out.push(b'}');
        }
    }
}
