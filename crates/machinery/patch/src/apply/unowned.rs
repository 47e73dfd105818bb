//! Merging of a configuration without field managers, for mutating admission policies.

use binnacle_schema::{Message, Value};

use super::element::PathElement;
use super::merging;
use super::shape::{Relation, Shape};
use super::validate::validate;

/// Merges `config` into `live`. Both must be in the schema's version. The caller decodes the result and sets defaults.
///
/// # Errors
/// kube-apiserver's message, if the configuration violates the schema or contains an atomic value: a configuration with
/// one member of an atomic value is rarely intended to remove all other members.
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

/// Collects the paths of all atomic values. As in kube-apiserver, values of maps and fields without a schema are
/// skipped.
fn atomics(shape: Shape<'_>, value: &Value, path: &mut Vec<PathElement>, found: &mut Vec<String>) {
    match (shape, value) {
        (Shape::Struct { message, .. } | Shape::Untyped { message, .. }, Value::Object(object)) => {
            if shape.is_leaf() {
                found.push(text(path));
            }
            for (name, value) in object.iter() {
                if let Some(field) = message.get(name) {
                    path.push(PathElement::Field(name.clone()));
                    atomics(Shape::of_field(field), value, path, found);
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
        (Shape::Untyped { element, .. }, list) => {
            atomics(Shape::List { element, relation: Relation::Atomic }, list, path, found);
        }
        _ => {}
    }
}

fn text(path: &[PathElement]) -> String {
    path.iter().map(PathElement::to_string).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_schema::{Field, ListType, MessageRef, Ty, value};

    use super::*;

    #[test]
    fn overlays_configurations_on_objects() {
        let item = Message::new(
            "",
            vec![
                Field::new("name", Ty::String),
                Field::new("image", Ty::String),
                Field::new("args", Ty::List(Box::new(Ty::String))),
            ],
        );
        let items = Ty::List(Box::new(Ty::Message(MessageRef::Shared(Arc::new(item)))));
        let items = Field { list_type: ListType::Map(vec!["name".into()].into()), ..Field::new("items", items) };
        let labels = Field::new("labels", Ty::Map(Box::new(Ty::String)));
        let selector = Field { list_type: ListType::Atomic, ..Field::new("selector", Ty::Map(Box::new(Ty::String))) };
        let message = Message::new("", vec![items, labels, selector]);
        let live = value!({"labels": {"a": "1"}, "items": [{"name": "x", "image": "i", "args": ["1"]}]});
        let atomic = "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: ";
        for (config, want) in [
            (
                value!({"labels": {"b": "2"}, "items": [{"name": "x", "image": "j"}, {"name": "y"}]}),
                Ok(value!({
                    "labels": {"a": "1", "b": "2"},
                    "items": [{"name": "x", "image": "j", "args": ["1"]}, {"name": "y"}],
                })),
            ),
            (value!({"selector": {"a": "1"}}), Err(format!("{atomic}.selector"))),
            (value!({"items": [{"name": "x", "args": ["2"]}]}), Err(format!("{atomic}.items[0].args"))),
            (
                value!({"nope": 1, "neither": 2}),
                Err("failed to convert patch object to typed object: .nope: field not declared in schema".to_owned()),
            ),
        ] {
            assert_eq!(merge_unowned(&message, &live, &config), want, "{config:?}");
        }
    }
}
