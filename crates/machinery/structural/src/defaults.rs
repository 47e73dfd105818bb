//! Validation of defaults: they must match their schema, have no unknown fields, and satisfy the rules.

use std::sync::Arc;

use binnacle_meta::{FieldError, FieldErrors, FieldPath, aggregate};
use binnacle_schema::{Message, Object, Value};

use crate::correlation::CorrelatedObject;
use crate::embedded::{self, Coercion};
use crate::error_value::error_value;
use crate::interner::Interner;
use crate::pruning::{RESOURCE_FIELDS, prune};
use crate::rules::{RUNTIME_BUDGET, Rules, Verdict};
use crate::structural::{AdditionalProperties, Structural};
use crate::validation;

/// The requirements on defaults.
#[derive(Clone, Copy, Debug)]
pub struct DefaultRules<'m> {
    /// The schema of `ObjectMeta`.
    pub object_meta: &'m Message,
    /// True if defaults may not have unknown members.
    pub pruned: bool,
}

/// Validates the defaults in the schema of a resource, which is at `path`.
pub fn validate(schema: &Arc<Structural>, rules: DefaultRules<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let mut walk = Walk { rules, errors, budget: RUNTIME_BUDGET };
    walk.node(schema, SchemaPosition { root: schema, is_root: true, steps: &Step::Root, in_metadata: false }, path);
}

/// Returns true if pruning would remove something from a default.
pub fn has_unpruned(schema: &Structural, object_meta: &Message) -> bool {
    unpruned(schema, schema, &Step::Root, object_meta)
}

/// Coerces the metadata of resources inside of the defaults of a schema, which is `tree` as JSON, to `ObjectMeta`, as
/// validation does in kube-apiserver, which stores the result: unknown members and null times are removed. Defaults of
/// metadata itself and defaults with malformed metadata, which validation rejects, do not change.
pub fn coerce(tree: &mut Value, schema: &Structural, object_meta: &Message) {
    coerce_node(tree, schema, object_meta, true, false);
}

fn coerce_node(tree: &mut Value, schema: &Structural, object_meta: &Message, is_root: bool, in_metadata: bool) {
    let is_resource = is_root || schema.embedded;
    let in_metadata = in_metadata && !is_resource;
    let Some(members) = tree.as_object_mut() else { return };
    if !in_metadata && let Some(default) = members.get_mut("default") {
        let coercion = Coercion { object_meta, drop_malformed: false };
        let mut coerced = default.clone();
        if embedded::coerce(&mut coerced, schema, is_resource, &FieldPath::root(), coercion, &mut Vec::new()).is_ok() {
            *default = coerced;
        }
    }
    if let (Some(tree), Some(items)) = (members.get_mut("items"), schema.items.as_deref()) {
        coerce_node(tree, items, object_meta, false, in_metadata);
    }
    for (name, tree) in
        members.get_mut("properties").and_then(Value::as_object_mut).into_iter().flat_map(Object::iter_mut)
    {
        if let Some(property) = schema.property(name) {
            let of_resource = is_resource && RESOURCE_FIELDS.contains(&name.as_str());
            coerce_node(tree, property, object_meta, false, in_metadata || of_resource);
        }
    }
}

/// The path from the root to a schema.
enum Step<'s> {
    Root,
    Member(&'s Step<'s>, &'s str),
    Item(&'s Step<'s>),
}

impl Step<'_> {
    /// Returns an object that only has a value at this position; `None` if the root would not be an object.
    fn surround(&self, value: Value) -> Option<Value> {
        match self {
            Self::Root => value.as_object().is_some().then_some(value),
            Self::Member(above, name) => {
                let object: Object = [(*name, value)].into_iter().collect();
                above.surround(Value::Object(object))
            }
            Self::Item(above) => above.surround(Value::List(vec![value])),
        }
    }

    /// Returns the value at this position.
    fn find<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        match self {
            Self::Root => Some(root),
            Self::Member(above, name) => above.find(root)?.get(name),
            Self::Item(above) => above.find(root)?.as_list()?.first(),
        }
    }
}

/// Returns the schema with pruned defaults: fields that are unknown to the schema or to this server's metadata are
/// removed. Nodes whose defaults do not change are shared.
pub fn pruned(schema: &Arc<Structural>, object_meta: &Message, interner: &Interner) -> Arc<Structural> {
    let pruner = Pruner { root: schema, object_meta, interner };
    pruner.node(schema, &Step::Root).unwrap_or_else(|| schema.clone())
}

struct Pruner<'s> {
    root: &'s Structural,
    object_meta: &'s Message,
    interner: &'s Interner,
}

impl Pruner<'_> {
    /// Returns the node with pruned defaults in it and below; `None` if nothing changes.
    fn node(&self, schema: &Structural, step: &Step<'_>) -> Option<Arc<Structural>> {
        let mut changed: Option<Structural> = None;
        let default = schema.default.as_deref();
        if let Some(default) = default.and_then(|default| prune_default(default, self.root, step, self.object_meta)) {
            changed.get_or_insert_with(|| schema.clone()).set_default(default);
        }
        let below = schema.additional_schema().and_then(|below| self.node(below, &Step::Member(step, "*")));
        if let Some(below) = below {
            changed.get_or_insert_with(|| schema.clone()).additional = AdditionalProperties::Schema(below);
        }
        let items = schema.items.as_deref().and_then(|items| self.node(items, &Step::Item(step)));
        if let Some(items) = items {
            changed.get_or_insert_with(|| schema.clone()).items = Some(items);
        }
        for (at, (name, property)) in schema.properties().enumerate() {
            if let Some(property) = self.node(property, &Step::Member(step, name)) {
                changed.get_or_insert_with(|| schema.clone()).properties[at].1 = property;
            }
        }
        changed.map(|changed| self.interner.node(changed))
    }
}

/// Returns a pruned default; `None` if nothing changes.
fn prune_default(default: &Value, root: &Structural, step: &Step<'_>, object_meta: &Message) -> Option<Option<Value>> {
    let mut object = step.surround(default.clone())?;
    let coercion = Coercion { object_meta, drop_malformed: true };
    embedded::coerce(&mut object, root, true, &FieldPath::root(), coercion, &mut Vec::new()).ok()?;
    prune(&mut object, Some(root), true);
    let pruned = step.find(&object);
    (pruned != Some(default)).then(|| pruned.cloned())
}

fn unpruned(schema: &Structural, root: &Structural, step: &Step<'_>, object_meta: &Message) -> bool {
    let changes = |default: &Value| prune_default(default, root, step, object_meta).is_some();
    schema.default.as_deref().is_some_and(changes)
        || schema
            .additional_schema()
            .is_some_and(|additional| unpruned(additional, root, &Step::Member(step, "*"), object_meta))
        || schema.items.as_deref().is_some_and(|items| unpruned(items, root, &Step::Item(step), object_meta))
        || schema.properties().any(|(name, property)| unpruned(property, root, &Step::Member(step, name), object_meta))
}

struct Walk<'m, 'e> {
    rules: DefaultRules<'m>,
    errors: &'e mut FieldErrors,
    budget: i64,
}

/// The position of a schema within its resource.
#[derive(Clone, Copy)]
struct SchemaPosition<'s> {
    root: &'s Structural,
    /// True for the schema of the resource itself.
    is_root: bool,
    steps: &'s Step<'s>,
    /// True inside of the metadata of a resource.
    in_metadata: bool,
}

impl Walk<'_, '_> {
    fn node(&mut self, schema: &Arc<Structural>, position: SchemaPosition<'_>, path: &FieldPath) {
        let position = match schema.embedded && !position.is_root {
            true => SchemaPosition { root: schema, is_root: true, steps: &Step::Root, in_metadata: false },
            false => position,
        };
        if let Some(default) = &schema.default {
            self.default(schema, default, position, &path.child("default"));
        }
        // `additionalProperties` cannot have defaults.
        if let Some(items) = &schema.items {
            let steps = Step::Item(position.steps);
            self.below(items, SchemaPosition { is_root: false, steps: &steps, ..position }, &path.child("items"));
        }
        for (name, property) in schema.properties() {
            let of_resource = position.is_root && RESOURCE_FIELDS.contains(&name.as_str());
            let steps = Step::Member(position.steps, name);
            let below = SchemaPosition {
                is_root: false,
                steps: &steps,
                in_metadata: position.in_metadata || of_resource,
                ..position
            };
            self.below(property, below, &path.child("properties").key(name));
        }
    }

    fn below(&mut self, schema: &Arc<Structural>, position: SchemaPosition<'_>, path: &FieldPath) {
        if self.budget >= 0 && !self.errors.is_full() {
            self.node(schema, position, path);
        }
    }

    fn default(&mut self, schema: &Arc<Structural>, default: &Value, position: SchemaPosition<'_>, path: &FieldPath) {
        let is_resource = match position.in_metadata {
            true => self.metadata(default, position, path),
            false => self.value(schema, schema.embedded || position.is_root, default, path),
        };
        if !is_resource {
            return;
        }
        let before = self.errors.len();
        validation::validate_default(default, schema, path, self.errors);
        if self.errors.len() > before {
            return;
        }
        let Some(rules) = Rules::new(schema, position.is_root) else { return };
        // The rules run for an update without a change, and for a new value.
        let mut left = self.run(&rules, default, Some(default), path);
        if self.errors.len() == before {
            left = left.min(self.run(&rules, default, None, path));
        }
        self.budget = left;
    }

    fn run(&mut self, rules: &Rules, default: &Value, old: Option<&Value>, path: &FieldPath) -> i64 {
        let mut verdict = Verdict::default();
        let unratcheted: Option<CorrelatedObject<'_>> = None;
        let left = rules.evaluate(default, old, unratcheted, path, self.budget, &mut verdict);
        self.errors.extend(verdict.errors);
        left
    }

    /// Validates metadata with a default at its position. Returns true if it is valid.
    fn metadata(&mut self, default: &Value, position: SchemaPosition<'_>, path: &FieldPath) -> bool {
        let Some(mut object) = position.steps.surround(default.clone()) else { return true };
        let members = object.make_object();
        for (name, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
            members.entry(name, || value.into());
        }
        let coercion = Coercion { object_meta: self.rules.object_meta, drop_malformed: false };
        let root = FieldPath::root();
        let mut found = FieldErrors::new();
        match embedded::coerce(&mut object, position.root, true, &root, coercion, &mut Vec::new()) {
            Err(error) => found.push(error),
            Ok(()) => embedded::validate(&object, position.root, true, &root, self.rules.object_meta, &mut found),
        }
        if !found.is_empty() {
            let detail = format!("must result in valid metadata: {}", aggregate(found.iter()));
            self.errors.push(FieldError::invalid(path, error_value(default), detail));
        }
        found.is_empty()
    }

    /// Validates that a default has no unknown fields, and that resources in it are valid. Returns true if the latter
    /// holds.
    fn value(&mut self, schema: &Structural, is_resource: bool, default: &Value, path: &FieldPath) -> bool {
        if self.rules.pruned {
            let mut pruned = default.clone();
            prune(&mut pruned, Some(schema), is_resource);
            if pruned != *default {
                self.errors.push(FieldError::invalid(path, error_value(default), "must not have unknown fields"));
            }
        }
        let before = self.errors.len();
        let coercion = Coercion { object_meta: self.rules.object_meta, drop_malformed: false };
        let mut object = default.clone();
        match embedded::coerce(&mut object, schema, is_resource, path, coercion, &mut Vec::new()) {
            Err(error) => self.errors.push(error),
            Ok(()) => {
                embedded::validate(&object, schema, is_resource, path, self.rules.object_meta, self.errors);
            }
        }
        self.errors.len() == before
    }
}
