//! Go's zero values: what absent fields read as, and what `omitempty` and `omitzero` omit.

use binnacle_meta::Text;

use crate::{Field, Message, Object, Presence, Ty, Value};

/// Returns a field that is written though it was not set.
pub(crate) fn absent(field: &Field) -> (Text, Value) {
    let value = if field.presence == Presence::AlwaysNull { Value::Null } else { zero_value(&field.ty) };
    (field.name.clone(), value)
}

/// Returns the value that Go writes for a field that was not set.
pub(crate) fn absent_value(field: &Field) -> Option<Value> {
    matches!(field.presence, Presence::Always | Presence::AlwaysNull).then(|| absent(field).1)
}

/// Returns the encoded form of Go's zero value.
pub(crate) fn zero_value(ty: &Ty) -> Value {
    match ty {
        Ty::String => Value::Str(Text::new_static("")),
        Ty::Bool | Ty::SchemaOrBool(_) => Value::Bool(false),
        Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::IntOrString => Value::Int(0),
        Ty::Double => Value::Float(0.0),
        Ty::Duration => Value::Str(Text::new_static("0s")),
        Ty::Quantity => Value::Str(Text::new_static("0")),
        Ty::Message(message) => {
            let always = message.lookup().always.iter().map(|index| absent(&message.fields[*index as usize]));
            Value::Object(Object::from_distinct(always.collect()))
        }
        _ => Value::Null,
    }
}

/// Returns true if a value is Go's zero value of that type, which `omitempty` or `omitzero` omits.
pub(crate) fn is_zero(ty: &Ty, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Int(n) => *n == 0,
        Value::Float(n) => *n == 0.0,
        Value::Str(text) => match ty {
            Ty::Duration => text == "0s",
            // An empty text is a value, other than the number 0.
            Ty::IntOrString => false,
            _ => text.is_empty(),
        },
        Value::List(items) => items.is_empty(),
        Value::Raw(text) => text.is_empty(),
        Value::Object(object) => match ty.message() {
            Some(message) => object.is_empty() || is_zero_struct(message, object),
            // An empty object that is not a map of the schema is a value.
            None => object.is_empty() && ty.map_value().is_some(),
        },
    }
}

pub(crate) fn is_zero_struct(message: &Message, object: &Object) -> bool {
    let mut hint = 0;
    object.iter().all(|(name, value)| {
        let Some((index, field)) = message.field(name, hint) else { return false };
        hint = index + 1;
        match field.presence {
            Presence::Optional => value.is_null(),
            Presence::Always | Presence::OmitZero => is_zero(&field.ty, value),
            Presence::AlwaysNull => value.is_null(),
        }
    })
}
