//! Accessors for object trees that the rules of kinds use, with Go's notions of nil and zero.

use binnacle_schema::{Object, Value};

/// Returns true if a member is absent or null, Go's nil.
pub(crate) fn is_nil(object: &Object, name: &str) -> bool {
    object.get(name).is_none_or(Value::is_null)
}

/// Returns true if a text or number is nil, `""` or `0`, Go's zero values.
pub(crate) fn is_zero(object: &Object, name: &str) -> bool {
    match object.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::Str(text)) => text.is_empty(),
        Some(Value::Int(n)) => *n == 0,
        _ => false,
    }
}

/// Returns a member that is present and not null.
pub(crate) fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|value| !value.is_null())
}

/// Sets the default of a pointer field.
pub(crate) fn default_nil(object: &mut Object, name: &str, value: impl Into<Value>) {
    if is_nil(object, name) {
        object.insert(name, value);
    }
}

/// Sets the default of a text or number that is not a pointer in Go.
pub(crate) fn default_zero(object: &mut Object, name: &str, value: impl Into<Value>) {
    if is_zero(object, name) {
        object.insert(name, value);
    }
}

/// Returns the struct or map under `name`, if present.
pub(crate) fn struct_mut<'a>(object: &'a mut Object, name: &str) -> Option<&'a mut Object> {
    object.get_mut(name).and_then(Value::as_object_mut)
}

/// Returns the structs of the list under `name`.
pub(crate) fn structs_mut<'a>(object: &'a mut Object, name: &str) -> impl Iterator<Item = &'a mut Object> {
    let items = object.get_mut(name).and_then(Value::as_list_mut);
    items.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Returns the text under `name`, or `""`.
pub(crate) fn text<'a>(object: &'a Object, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or("")
}

/// Restores a member to its value in the old object, for endpoints that may not change it.
pub(crate) fn keep(object: &mut Value, old: &Value, member: &str) {
    keep_at(object, old, &[member]);
}

/// Restores the member at a path to its value in the old object.
pub(crate) fn keep_at(object: &mut Value, old: &Value, path: &[&str]) {
    let Some((member, parents)) = path.split_last() else { return };
    match old.at(path).filter(|value| !value.is_null()) {
        Some(value) => {
            object.make_at(parents).insert(*member, value.clone());
        }
        None => remove_at(object, path),
    }
}

/// Removes the member at a path, if present.
pub(crate) fn remove_at(object: &mut Value, path: &[&str]) {
    let Some((member, parents)) = path.split_last() else { return };
    if let Some(parent) = object.at_mut(parents).and_then(Value::as_object_mut) {
        parent.remove(member);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn members_are_kept_as_they_were() {
        let old = value!({"spec": {"a": 1i64}, "status": null});
        let mut object = value!({"spec": {"a": 2i64, "b": 3i64}, "status": {"x": 1i64}});
        keep(&mut object, &old, "status");
        keep_at(&mut object, &old, &["spec", "a"]);
        keep_at(&mut object, &old, &["spec", "b"]);
        keep_at(&mut object, &old, &["metadata", "labels"]);
        assert_eq!(object, value!({"spec": {"a": 1i64}}));
    }
}
