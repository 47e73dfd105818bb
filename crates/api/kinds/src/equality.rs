//! Semantic equality of values: apimachinery's `equality.Semantic`, which decides whether a change of a spec starts a
//! new generation and whether an immutable field was changed.

use binnacle_fields::FieldRef;
use binnacle_meta::Quantity;
use binnacle_schema::{Field, Message, Object, Presence, Ty, Value};

use crate::tables;

/// Returns true if two structures are equal; an absent one equals the zero value.
pub(crate) fn equal<M: binnacle_fields::Message>(a: FieldRef<M>, b: FieldRef<M>) -> bool {
    equal_as(M::DEFINITION, Some(a.value()), Some(b.value()))
}

/// Returns true if two values of a definition (`io.k8s.api.core.v1.PodSpec`) are equal; `None` is the zero value.
pub(crate) fn equal_as(definition: &str, a: Option<&Value>, b: Option<&Value>) -> bool {
    let (a, b) = (present(a), present(b));
    if a == b {
        return true;
    }
    let Some(message) = tables::message(definition) else { return false };
    let empty = Object::new();
    match (a.map_or(Some(&empty), Value::as_object), b.map_or(Some(&empty), Value::as_object)) {
        (Some(a), Some(b)) => structs(a, b, message),
        _ => false,
    }
}

/// Returns true if two maps of texts, such as labels, are equal; nil equals the empty map.
pub(crate) fn equal_maps(a: Option<&Value>, b: Option<&Value>) -> bool {
    let size = |value: Option<&Value>| value.and_then(Value::as_object).map_or(0, Object::len);
    (size(a) == 0 && size(b) == 0) || present(a) == present(b)
}

fn present(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| !value.is_null())
}

fn structs(a: &Object, b: &Object, message: &Message) -> bool {
    // The type of an embedded object is implied (claim templates may omit it) and not stored.
    let says_something = |field: &&Field| field.tag != 0 || !matches!(field.name.as_str(), "kind" | "apiVersion");
    message
        .fields
        .iter()
        .filter(says_something)
        .all(|field| members(present(a.get(&field.name)), present(b.get(&field.name)), field))
}

fn members(a: Option<&Value>, b: Option<&Value>, field: &Field) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => values(a, b, &field.ty),
        (Some(one), None) | (None, Some(one)) => is_empty(one, field),
    }
}

/// Returns true if a value equals an absent one: true for empty lists and maps, false for pointers, and otherwise true
/// for the zero value.
fn is_empty(value: &Value, field: &Field) -> bool {
    match value {
        Value::List(items) => items.is_empty(),
        Value::Object(members) if field.ty.map_value().is_some() => members.is_empty(),
        _ if matches!(field.presence, Presence::Optional | Presence::AlwaysNull) => false,
        _ => is_zero(value, &field.ty),
    }
}

fn is_zero(value: &Value, ty: &Ty) -> bool {
    match (value, ty) {
        (Value::Null | Value::Bool(false) | Value::Int(0), _) => true,
        (Value::Float(n), _) => *n == 0.0,
        (Value::Str(text), Ty::Quantity) => text.parse::<Quantity>().is_ok_and(|q| q.is_zero()),
        (Value::Str(text), _) => text.is_empty(),
        (Value::List(items), _) => items.is_empty(),
        (Value::Object(object), _) => match ty.message() {
            Some(message) => structs(object, &Object::new(), message),
            None => object.is_empty(),
        },
        _ => false,
    }
}

fn values(a: &Value, b: &Value, ty: &Ty) -> bool {
    if a == b {
        return true;
    }
    match (a, b) {
        (Value::Str(a), Value::Str(b)) if matches!(ty, Ty::Quantity) => {
            matches!((a.parse::<Quantity>(), b.parse::<Quantity>()), (Ok(a), Ok(b)) if a == b)
        }
        (Value::Object(a), Value::Object(b)) => match (ty.message(), ty.map_value()) {
            (Some(message), _) => structs(a, b, message),
            (None, Some(element)) => {
                a.len() == b.len()
                    && a.iter().all(|(name, value)| b.get(name).is_some_and(|other| values(value, other, element)))
            }
            _ => false,
        },
        (Value::List(a), Value::List(b)) => {
            let Some(element) = ty.element() else { return false };
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| values(a, b, element))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn compares_objects_semantically() {
        for (a, b, want) in [
            (value!({"nodeName": "a"}), value!({"nodeName": "a", "containers": null}), true),
            (value!({"nodeName": "a"}), value!({"nodeName": "b"}), false),
            (value!({"nodeSelector": {}}), value!({}), true),
            (value!({"affinity": {}}), value!({}), false),
            (value!({"hostNetwork": false}), value!({}), true),
            (value!({"automountServiceAccountToken": false}), value!({}), false),
            (
                value!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1000m"}}}]}),
                value!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}),
                true,
            ),
            (value!({"containers": [{"name": "c", "resources": {}}]}), value!({"containers": [{"name": "c"}]}), true),
            (
                value!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}),
                value!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}),
                false,
            ),
        ] {
            assert_eq!(equal_as("io.k8s.api.core.v1.PodSpec", Some(&a), Some(&b)), want, "{a:?} {b:?}");
            assert_eq!(equal_as("io.k8s.api.core.v1.PodSpec", Some(&b), Some(&a)), want, "{b:?} {a:?}");
        }
        assert!(equal_as("io.k8s.api.core.v1.PodSpec", None, Some(&value!({}))));
        assert!(equal_maps(None, Some(&value!({}))));
        assert!(!equal_maps(None, Some(&value!({"a": "b"}))));
    }
}
