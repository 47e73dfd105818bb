//! The canonical form of objects: the form in which Go's typed structs encode.

use binnacle_meta::Text;

use crate::zero::{absent_value, is_zero, zero_value};
use crate::{Message, Object, Presence, Ty, Value, json};

/// Converts an object to the form in which a typed Go struct would encode: fields in schema order, map keys sorted,
/// nulls and zero values that `omitempty` drops removed, fields that are always written filled in. Members that are not
/// in the schema are dropped. Canonical parts are not rewritten.
pub fn canonicalize(value: &mut Value, message: &Message) {
    canonical_struct(value.make_object(), message);
}

/// Returns true if [`canonicalize`] would not change how the object is written.
pub fn is_canonical(value: &Value, message: &Message) -> bool {
    let mut canonical = value.clone();
    canonicalize(&mut canonical, message);
    let written = |value: &Value| {
        let mut out = Vec::new();
        json::write(value, &mut out);
        out
    };
    written(value) == written(&canonical)
}

/// Sets a field of a canonical object, which stays canonical. The value must be canonical, and not one that encoding
/// omits. Names that are not in the schema are ignored.
pub fn set(object: &mut Object, message: &Message, name: &str, value: impl Into<Value>) {
    let Some((index, field)) = message.field(name, 0) else { return };
    if let Some(member) = object.get_mut(name) {
        *member = value.into();
        return;
    }
    let after = |other: &Text| message.field(other, 0).is_none_or(|(other, _)| other > index);
    let position = object.keys().position(after).unwrap_or(object.len());
    object.insert_at(position, field.name.clone(), value.into());
}

/// Sorts the fields of an object in schema order, and changes nothing else.
pub(crate) fn order_fields(object: &mut Object, message: &Message) {
    object.sort_by_key(|name| message.field(name, 0).map_or(usize::MAX, |(index, _)| index));
}

fn canonical_struct(object: &mut Object, message: &Message) {
    let mut ordered = true;
    let mut dropped = false;
    let mut always = 0;
    let mut next = 0;
    for (name, value) in object.iter_mut() {
        let Some((index, field)) = message.field(name, next) else {
            dropped = true;
            continue;
        };
        ordered &= index >= next;
        next = index + 1;
        canonical_value(value, &field.ty);
        match field.presence {
            Presence::OmitZero => dropped |= is_zero(&field.ty, value),
            Presence::Optional => dropped |= value.is_null(),
            Presence::Always => {
                if value.is_null() {
                    *value = zero_value(&field.ty);
                }
                always += 1;
            }
            Presence::AlwaysNull => always += 1,
        }
    }
    let missing = message.lookup().always.len() > always;
    if dropped {
        object.retain(|name, value| {
            message.get(name).is_some_and(|field| match field.presence {
                Presence::OmitZero => !is_zero(&field.ty, value),
                Presence::Optional => !value.is_null(),
                Presence::Always | Presence::AlwaysNull => true,
            })
        });
    }
    if missing {
        for field in message.fields.iter() {
            if let Some(value) = absent_value(field)
                && !object.contains(&field.name)
            {
                object.push(field.name.clone(), value);
            }
        }
    }
    if missing || !ordered {
        order_fields(object, message);
    }
}

fn canonical_value(value: &mut Value, ty: &Ty) {
    match (value, ty) {
        (Value::Object(object), Ty::Message(message)) => canonical_struct(object, message),
        (
            Value::Object(object),
            Ty::SchemaOrBool(message) | Ty::SchemaOrArray(message) | Ty::SchemaOrStrings(message),
        ) => canonical_struct(object, message),
        (Value::List(items), Ty::SchemaOrArray(message)) => {
            for item in items {
                canonical_struct(item.make_object(), message);
            }
        }
        // Go writes whole numbers the same way, whether they are integers or not.
        (value @ Value::Int(_), Ty::Double) => {
            if let Some(number) = value.as_f64() {
                *value = Value::Float(number);
            }
        }
        (Value::List(items), ty) => {
            if let Some(element) = ty.element() {
                items.iter_mut().for_each(|item| canonical_element(item, element));
            }
        }
        (Value::Object(object), ty) => {
            if let Some(element) = ty.map_value() {
                object.sort_by_name();
                object.iter_mut().for_each(|(_, value)| canonical_element(value, element));
            }
        }
        _ => {}
    }
}

/// Elements of lists and maps are always present: `null` means Go's zero value.
fn canonical_element(value: &mut Value, ty: &Ty) {
    if value.is_null() {
        *value = zero_value(ty);
    } else {
        canonical_value(value, ty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, value};

    #[test]
    fn inserts_fields_in_schema_order() {
        let fields = ["a", "b", "c"].map(|name| Field::new(name, Ty::String));
        let message = Message::new("x.Letters", fields.to_vec());
        for (given, name, want) in [
            (value!({}), "b", r#"{"b":"new"}"#),
            (value!({"a": "1", "c": "3"}), "b", r#"{"a":"1","b":"new","c":"3"}"#),
            (value!({"b": "2", "c": "3"}), "a", r#"{"a":"new","b":"2","c":"3"}"#),
            (value!({"a": "1"}), "c", r#"{"a":"1","c":"new"}"#),
            (value!({"a": "1", "b": "2"}), "a", r#"{"a":"new","b":"2"}"#),
            (value!({"a": "1"}), "unknown", r#"{"a":"1"}"#),
        ] {
            let mut object = given.clone();
            set(object.make_object(), &message, name, "new");
            assert_eq!(json::to_string(&object), want, "{name} of {given:?}");
            assert!(is_canonical(&object, &message));
        }
        assert!(!is_canonical(&value!({"b": "2", "a": "1"}), &message));
        assert!(!is_canonical(&value!({"unknown": "1"}), &message));
    }
}
