//! Laying a configuration over an object without noting whose it is: what mutating admission policies do.

use binnacle_schema::{Message, Value};

use super::element::PathElement;
use super::merging;
use super::shape::{Relation, Shape};
use super::validate::validate;

/// `live` with all that `config` says in its place. Both are of the schema's version; the result wants to be decoded and
/// defaulted.
///
/// # Errors
/// In kube-apiserver's words where the configuration does not follow the schema, or where it would replace as a whole what
/// is atomic: whoever writes one member of such a thing rarely means to remove all others.
pub fn merge_unowned(message: &Message, live: &Value, config: &Value) -> Result<Value, String> {
    let shape = Shape::of_message(message);
    validate(shape, config).map_err(|errors| format!("failed to convert patch object to typed object: {errors}"))?;
    let mut found = Vec::new();
    atomics(shape, config, &mut Vec::new(), &mut found);
    if !found.is_empty() {
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            found.join(", ")
        ));
    }
    let merged =
        merging::merge(shape, Some(live), Some(config)).map_err(|errors| format!("failed to merge patch: {errors}"))?;
    Ok(merged.unwrap_or_else(|| Value::Object(binnacle_schema::Object::new())))
}

/// The paths of all that is atomic. Values of maps are not looked into, as in kube-apiserver.
fn atomics(shape: Shape<'_>, value: &Value, path: &mut Vec<PathElement>, found: &mut Vec<String>) {
    match (shape, value) {
        (Shape::Struct { atomic, .. }, Value::Object(object)) => {
            if atomic {
                found.push(text(path));
            }
            for (name, value) in object.iter() {
                if let Some(member) = shape.member(name) {
                    path.push(PathElement::Field(name.clone()));
                    atomics(member, value, path, found);
                    path.pop();
                }
            }
        }
        (Shape::Map { atomic: true, .. } | Shape::Opaque, Value::Object(_))
        | (Shape::Opaque | Shape::Deduced, Value::List(_)) => found.push(text(path)),
        (Shape::List { element, relation }, Value::List(items)) => {
            if matches!(relation, Relation::Atomic) {
                found.push(text(path));
            }
            for (at, item) in (0..).zip(items) {
                path.push(PathElement::Index(at));
                atomics(Shape::of_type(element), item, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

fn text(path: &[PathElement]) -> String {
    path.iter().map(PathElement::to_string).collect()
}
