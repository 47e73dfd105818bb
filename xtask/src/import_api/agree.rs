//! Comparison of a field's type with OpenAPI and protobuf, and the type that follows from the two.

use binnacle_tables::Ty;
use serde_json::Value;

use super::openapi::reference;
use super::protobuf::{Messages, ProtoTy};
use super::special::{definition_of, special};

/// Compares a type with a property of a definition; the error names the expected one.
pub(crate) fn with_openapi(ty: &Ty, schema: &Value) -> Result<(), String> {
    let is = |ty: &str, format: Option<&str>| {
        schema.get("type").and_then(Value::as_str) == Some(ty)
            && schema.get("format").and_then(Value::as_str) == format
            && reference(schema).is_none()
    };
    let agrees = match ty {
        // Go's `uint32` and lists and maps without schema do not occur in documents.
        Ty::Uint32 => false,
        Ty::String | Ty::Duration => is("string", None),
        Ty::Bool => is("boolean", None),
        Ty::Int32 => is("integer", Some("int32")),
        Ty::Int64 => is("integer", Some("int64")),
        Ty::Double => is("number", Some("double")),
        Ty::Bytes => is("string", Some("byte")),
        Ty::Json => reference(schema).is_some_and(|name| special(name) == Some(Ty::Json)),
        Ty::List(inner) | Ty::WrappedList(inner) => {
            let items = schema.get("items").ok_or(format!("no list: {schema}"))?;
            return if is("array", None) { with_openapi(inner, items) } else { Err(format!("no list: {schema}")) };
        }
        Ty::Map(inner) => {
            let values = schema.get("additionalProperties").ok_or(format!("no map: {schema}"))?;
            return if is("object", None) { with_openapi(inner, values) } else { Err(format!("no map: {schema}")) };
        }
        _ => reference(schema).map(String::from) == definition_of(ty),
    };
    if agrees { Ok(()) } else { Err(format!("{ty:?} is {schema} in OpenAPI")) }
}

/// Compares a type with a protobuf field.
pub(crate) fn with_protobuf(ty: &Ty, proto: &ProtoTy, messages: &Messages) -> Result<(), String> {
    let scalar = |name: &str| matches!(proto, ProtoTy::Scalar(scalar) if scalar == name);
    let agrees = match (ty, proto) {
        (Ty::List(inner), ProtoTy::Repeated(element)) => return with_protobuf(inner, element, messages),
        (Ty::Map(inner), ProtoTy::Map(value)) => return with_protobuf(inner, value, messages),
        (Ty::WrappedList(inner), ProtoTy::Message(name)) => match wrapped(name, messages) {
            Some(element) => return with_protobuf(inner, element, messages),
            None => false,
        },
        (Ty::String, _) => scalar("string"),
        (Ty::Bool, _) => scalar("bool"),
        (Ty::Int32, _) => scalar("int32"),
        (Ty::Int64, _) => scalar("int64"),
        (Ty::Uint32, _) => scalar("uint32"),
        (Ty::Double, _) => scalar("double"),
        (Ty::Bytes, _) => scalar("bytes"),
        (Ty::Message(name), ProtoTy::Message(other)) => name == other,
        (ty, ProtoTy::Message(name)) => special(name).as_ref() == Some(ty),
        _ => false,
    };
    if agrees { Ok(()) } else { Err(format!("{ty:?} is {proto:?} in protobuf")) }
}

/// The elements of a message that is nothing but a list (`ExtraValue`, `Verbs`).
pub(crate) fn wrapped<'a>(message: &str, messages: &'a Messages) -> Option<&'a ProtoTy> {
    match messages.get(message)?.as_slice() {
        [field] if field.name == "items" && field.number == 1 => match &field.ty {
            ProtoTy::Repeated(element) => Some(element),
            _ => None,
        },
        _ => None,
    }
}

/// The type that a property and a protobuf field, where there is one, have in common.
pub(crate) fn derive(schema: &Value, proto: Option<&ProtoTy>, messages: &Messages) -> Result<Ty, String> {
    if let Some(name) = reference(schema) {
        return Ok(special(name).unwrap_or_else(|| Ty::Message(name.into())));
    }
    let format = schema.get("format").and_then(Value::as_str);
    let ty = match (schema.get("type").and_then(Value::as_str), format) {
        (Some("string"), None) => match proto {
            Some(ProtoTy::Message(name)) if special(name) == Some(Ty::Duration) => Ty::Duration,
            _ => Ty::String,
        },
        (Some("string"), Some("byte")) => Ty::Bytes,
        (Some("boolean"), None) => Ty::Bool,
        (Some("integer"), Some("int32")) => Ty::Int32,
        (Some("integer"), Some("int64")) => Ty::Int64,
        (Some("number"), Some("double")) => Ty::Double,
        (Some("array"), None) => {
            let items = schema.get("items").ok_or(format!("a list without items: {schema}"))?;
            match proto {
                Some(ProtoTy::Repeated(element)) => Ty::list(derive(items, Some(element), messages)?),
                Some(ProtoTy::Message(name)) => {
                    let element = wrapped(name, messages).ok_or(format!("a list is {name} in protobuf"))?;
                    Ty::WrappedList(Box::new(derive(items, Some(element), messages)?))
                }
                _ => Ty::list(derive(items, None, messages)?),
            }
        }
        (Some("object"), None) if schema.get("additionalProperties").is_some() => {
            let value = match proto {
                Some(ProtoTy::Map(value)) => Some(&**value),
                _ => None,
            };
            Ty::map(derive(&schema["additionalProperties"], value, messages)?)
        }
        _ => return Err(format!("not understood: {schema}")),
    };
    match proto {
        Some(proto) => with_protobuf(&ty, proto, messages).map(|()| ty),
        None => Ok(ty),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages() -> Messages {
        let mut messages = Messages::new();
        let items = super::super::protobuf::ProtoField {
            name: "items".into(),
            number: 1,
            ty: ProtoTy::Repeated(Box::new(ProtoTy::Scalar("string".into()))),
        };
        messages.insert("io.k8s.api.a.v1.ExtraValue".into(), vec![items]);
        messages
    }

    #[test]
    fn derives_types_from_openapi_and_protobuf() {
        let scalar = |name: &str| ProtoTy::Scalar(name.into());
        let message = |name: &str| ProtoTy::Message(format!("io.k8s.{name}"));
        let time = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Time";
        let cases = [
            (json!({"type": "string"}), scalar("string"), Some(Ty::String)),
            (json!({"type": "string"}), message("apimachinery.pkg.apis.meta.v1.Duration"), Some(Ty::Duration)),
            (json!({"type": "string", "format": "byte"}), scalar("bytes"), Some(Ty::Bytes)),
            (json!({"type": "integer", "format": "int32"}), scalar("int64"), None),
            (json!({"allOf": [{"$ref": time}]}), message("apimachinery.pkg.apis.meta.v1.Time"), Some(Ty::Time)),
            (
                json!({"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}),
                ProtoTy::Map(Box::new(message("api.a.v1.ExtraValue"))),
                Some(Ty::map(Ty::WrappedList(Box::new(Ty::String)))),
            ),
            (json!({"type": "array", "items": {"type": "string"}}), ProtoTy::Map(Box::new(scalar("string"))), None),
            (json!({"type": "object"}), scalar("string"), None),
        ];
        for (schema, proto, expected) in cases {
            let ty = derive(&schema, Some(&proto), &messages());
            if let Ok(ty) = &ty {
                with_openapi(ty, &schema).unwrap();
                with_protobuf(ty, &proto, &messages()).unwrap();
            }
            assert_eq!(ty.ok(), expected, "{schema}");
        }
    }
}
