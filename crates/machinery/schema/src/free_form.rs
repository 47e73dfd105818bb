//! Trees without schema.

use crate::Value;

/// Sorts the members of all objects of a tree without schema by name, as Go writes maps.
pub fn sort_free_form(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.sort_by_name();
            object.iter_mut().for_each(|(_, member)| sort_free_form(member));
        }
        Value::List(items) => items.iter_mut().for_each(sort_free_form),
        _ => {}
    }
}
