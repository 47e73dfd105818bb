//! Defaults that are constants in the schema.

use crate::canonical::order_fields;
use crate::zero::zero_value;
use crate::{Field, Limits, Message, Object, Presence, Ty, Value, json};

/// Sets the table's constant defaults for absent fields, in the object itself and in all structs below it, including
/// those that a default has just created.
pub fn apply_constants(value: &mut Value, message: &Message) {
    if let Value::Object(object) = value {
        default_struct(object, message);
    }
}

fn default_struct(object: &mut Object, message: &Message) {
    let mut added = false;
    for field in message.fields.iter() {
        let Some(default) = constant(field) else { continue };
        if object.get(&field.name).is_none_or(Value::is_null) {
            added |= object.insert(field.name.clone(), default).is_none();
        }
    }
    let mut hint = 0;
    for (name, value) in object.iter_mut() {
        if let Some((index, field)) = message.field(name, hint) {
            hint = index + 1;
            default_value(value, &field.ty);
        }
    }
    if added {
        order_fields(object, message);
    }
}

fn default_value(value: &mut Value, ty: &Ty) {
    match value {
        Value::Object(object) => match ty.message() {
            Some(message) => default_struct(object, message),
            None => {
                if let Some(element) = ty.map_value() {
                    object.iter_mut().for_each(|(_, value)| default_value(value, element));
                }
            }
        },
        Value::List(items) => {
            if let Some(element) = ty.element() {
                items.iter_mut().for_each(|item| default_value(item, element));
            }
        }
        _ => {}
    }
}

fn constant(field: &Field) -> Option<Value> {
    // The zero value is already present, unless the field is a pointer.
    if field.zero_default && field.presence == Presence::Optional {
        return Some(zero_value(&field.ty));
    }
    // The import validates the tables; a text that is not JSON would set no default.
    json::parse(field.default.as_ref()?.as_bytes(), &Limits::default()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MessageRef, value};

    #[test]
    fn sets_constant_defaults() {
        let with = |name: &'static str, ty, default: Option<&'static str>| Field {
            default: default.map(Into::into),
            ..Field::new(name, ty)
        };
        let port =
            Message::new("x.Port", vec![with("name", Ty::String, None), with("protocol", Ty::String, Some("\"TCP\""))]);
        let port = Ty::Message(MessageRef::Shared(port.into()));
        let spec = Message::new(
            "x.Spec",
            vec![
                with("replicas", Ty::Int32, Some("1")),
                with("ports", Ty::List(Box::new(port.clone())), None),
                with("main", port.clone(), Some("{}")),
                with("other", port.clone(), None),
                with("byName", Ty::Map(Box::new(port)), None),
            ],
        );
        for (given, want) in [
            (value!({}), r#"{"replicas":1,"main":{"protocol":"TCP"}}"#),
            (
                value!({"main": null, "ports": [{"name": "a"}, {"protocol": "UDP"}], "byName": {"x": {}}, "replicas": 0i64}),
                r#"{"main":{"protocol":"TCP"},"ports":[{"name":"a","protocol":"TCP"},{"protocol":"UDP"}],"byName":{"x":{"protocol":"TCP"}},"replicas":0}"#,
            ),
        ] {
            let mut got = given;
            apply_constants(&mut got, &spec);
            assert_eq!(json::to_string(&got), want);
        }
    }
}
