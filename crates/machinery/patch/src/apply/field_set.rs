//! The sets of fields in values, and changes of sets by the schema.

use std::collections::BTreeSet;

use binnacle_schema::{Object, Ty, Value};
use binnacle_work::pace;

use super::element::PathElement;
use super::set::{Node, Set};
use super::shape::{Relation, Shape, ValueShape};

/// Returns the set of every leaf, every element of a list map or set, and every member of a map. The value must be
/// valid.
pub(super) fn of_value(shape: Shape<'_>, value: &Value) -> Set {
    below(shape, value).1
}

/// Returns whether the value itself is a member, and the members below it.
fn below(shape: Shape<'_>, value: &Value) -> (bool, Set) {
    match shape {
        shape if shape.is_leaf() => (true, Set::default()),
        _ if shape.is_deduced() => match ValueShape::of(value) {
            ValueShape::Scalar | ValueShape::List => (true, Set::default()),
            ValueShape::Map | ValueShape::Any => (false, members(shape, value.as_object())),
        },
        Shape::List { element, relation } => (false, elements(element, relation, value.as_list().unwrap_or_default())),
        _ => (false, members(shape, value.as_object())),
    }
}

fn members(shape: Shape<'_>, object: Option<&Object>) -> Set {
    let Some(object) = object else { return Set::default() };
    pace(4 * object.len() as u64);
    let mut nodes = Vec::with_capacity(object.len());
    for (name, value) in object.iter() {
        let (mut member, children) = below(shape.member(name).unwrap_or(Shape::Deduced), value);
        member |= match value {
            Value::Null => true,
            Value::Object(object) => object.is_empty(),
            _ => false,
        };
        // Named fields of structs are owned through their contents, members of maps also by themselves.
        member |= !shape.names(name);
        if member || !children.is_empty() {
            nodes.push(Node { element: PathElement::Field(name.clone()), member, children });
        }
    }
    Set::from_nodes(nodes)
}

fn elements(element: &Ty, relation: Relation<'_>, items: &[Value]) -> Set {
    pace(20 * items.len() as u64);
    let shape = Shape::of_type(element);
    let identified: Vec<(PathElement, &Value)> =
        items.iter().filter_map(|item| Some((relation.identify(element, item).ok()?, item))).collect();
    let (mut met, mut repeated) = (BTreeSet::new(), BTreeSet::new());
    for (step, _) in &identified {
        if !met.insert(step) {
            repeated.insert(step.clone());
        }
    }
    let mut nodes = Vec::with_capacity(items.len());
    for (step, item) in identified {
        // Duplicate elements are owned as a whole.
        let children = if repeated.contains(&step) { Set::default() } else { below(shape, item).1 };
        nodes.push(Node { element: step, member: true, children });
    }
    Set::from_nodes(nodes)
}

impl Set {
    /// Makes members of all named fields of structs that have members below.
    pub(super) fn with_named_fields(mut self, shape: Option<Shape<'_>>) -> Self {
        for node in &mut self.nodes {
            let (named, below) = match (&node.element, shape) {
                (PathElement::Field(name), Some(shape)) => (shape.names(name), shape.member(name)),
                (PathElement::Key(_), Some(shape)) => (false, shape.element()),
                _ => (false, None),
            };
            if !node.children.is_empty() {
                node.member |= named;
                node.children = std::mem::take(&mut node.children).with_named_fields(below);
            }
        }
        self
    }

    /// Reconciles a set with a schema that has new atomic fields: a manager that owns a part then owns the whole.
    pub(super) fn reconcile(&mut self, shape: Shape<'_>) {
        for node in &mut self.nodes {
            let below = match &node.element {
                PathElement::Field(name) => shape.member(name),
                _ => shape.element(),
            };
            match below {
                Some(Shape::Scalar(_)) | None => {}
                Some(below) if below.is_free() => {}
                Some(below) if node.children.is_empty() => _ = below,
                Some(below) if below.is_leaf() => {
                    node.member = true;
                    node.children = Self::default();
                }
                Some(below) => node.children.reconcile(below),
            }
        }
    }
}
