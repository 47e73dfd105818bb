//! Empty lists and maps, which protobuf cannot distinguish from absent ones.

use binnacle_meta::Text;

use crate::{Message, Presence, Ty, Value};

/// Changes a canonical object as a round trip through protobuf storage does: empty lists and maps that are written as
/// `null` when nil become `null`. Only visits fields that can contain these.
pub fn nil_empty(value: &mut Value, message: &Message) {
    let Some(members) = value.as_object_mut() else { return };
    for index in &message.lookup().nils {
        let Some(field) = message.fields.get(*index as usize) else { continue };
        let Some(member) = members.get_mut(&field.name) else { continue };
        let empty = match member {
            Value::List(items) => items.is_empty(),
            Value::Object(map) => map.is_empty() && field.ty.map_value().is_some(),
            _ => continue,
        };
        if !empty {
            nil_empty_in(member, &field.ty);
        } else if field.presence == Presence::AlwaysNull {
            *member = Value::Null;
        }
    }
}

fn nil_empty_in(value: &mut Value, ty: &Ty) {
    if let Some(message) = ty.message() {
        nil_empty(value, message);
    } else if let (Some(element), Value::List(items)) = (ty.element(), &mut *value) {
        items.iter_mut().for_each(|item| nil_empty_in(item, element));
    } else if let (Some(inner), Value::Object(map)) = (ty.map_value(), value) {
        for (_, member) in map.iter_mut() {
            // An entry without bytes is decoded as an empty one.
            if matches!(inner, Ty::Bytes) && member.is_null() {
                *member = Value::Str(Text::new_static(""));
            }
            nil_empty_in(member, inner);
        }
    }
}
