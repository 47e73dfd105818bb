//! Pruning: removes unknown fields.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::Value;
use binnacle_work::charge;

use crate::path::Path;
use crate::structural::{AdditionalProperties, Structural};

/// The members of every resource, independent of its schema.
pub(crate) const RESOURCE_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The maximum number of reported paths, as in decoders.
const MAX_FOUND: usize = 100;

/// Removes members that the schema does not specify. TypeMeta and metadata are kept in embedded resources, and at the
/// root if `is_root`.
pub fn prune(object: &mut Value, schema: Option<&Structural>, is_root: bool) {
    Pruner { found: None }.prune(object, schema, is_root, &Path::Root);
}

/// Like [`prune`], but returns the sorted paths of removed members, at most 100.
pub fn prune_and_report(object: &mut Value, schema: Option<&Structural>, is_root: bool) -> Vec<String> {
    let mut found = Vec::new();
    Pruner { found: Some(&mut found) }.prune(object, schema, is_root, &Path::Root);
    keep_first(&mut found);
    found
}

struct Pruner<'f> {
    found: Option<&'f mut Vec<String>>,
}

impl Pruner<'_> {
    /// `is_resource` is true if the object is a resource even if its schema does not say so.
    fn prune(&mut self, value: &mut Value, schema: Option<&Structural>, is_resource: bool, path: &Path<'_>) {
        let preserved = schema.is_some_and(|schema| schema.preserve_unknown);
        self.below(value, schema, is_resource, preserved, path);
    }

    /// As [`Pruner::prune`]; `preserved` is true if unknown members stay, even if the schema does not say so.
    fn below(
        &mut self,
        value: &mut Value,
        schema: Option<&Structural>,
        is_resource: bool,
        preserved: bool,
        path: &Path<'_>,
    ) {
        match value {
            Value::Object(object) => {
                let embedded = is_resource || schema.is_some_and(|schema| schema.embedded);
                if charge(1 + 4 * object.len() as u64).is_err() {
                    return;
                }
                object.retain(|name, value| {
                    if embedded && RESOURCE_FIELDS.contains(&name.as_str()) {
                        return true;
                    }
                    match member(schema, preserved, name) {
                        Member::Known(below) => {
                            self.prune(value, Some(below), false, &Path::Field(path, name));
                            true
                        }
                        Member::Any => {
                            self.prune(value, None, false, &Path::Field(path, name));
                            true
                        }
                        Member::Preserved => true,
                        Member::Unknown => {
                            self.report(name, path);
                            false
                        }
                    }
                });
            }
            Value::List(items) => {
                let below = schema.and_then(|schema| schema.items.as_deref());
                // A preserving list without a schema for its items preserves them.
                if preserved && below.is_none() || charge(1 + items.len() as u64).is_err() {
                    return;
                }
                for (i, item) in items.iter_mut().enumerate() {
                    // Items of a preserved list are preserved as well.
                    let preserved = preserved || below.is_some_and(|below| below.preserve_unknown);
                    self.below(item, below, false, preserved, &Path::Index(path, i));
                }
            }
            _ => {}
        }
    }

    fn report(&mut self, name: &Text, path: &Path<'_>) {
        let Some(found) = &mut self.found else { return };
        let at_root = matches!(path, Path::Root) && RESOURCE_FIELDS.contains(&name.as_str());
        if at_root {
            return;
        }
        found.push(path.of_finding(name));
        // The first paths in sorted order are reported, regardless of the order of traversal.
        if found.len() >= 4 * MAX_FOUND {
            keep_first(found);
        }
    }
}

fn keep_first(found: &mut Vec<String>) {
    found.sort();
    found.truncate(MAX_FOUND);
}

enum Member<'s> {
    Known(&'s Arc<Structural>),
    /// Any value, without further information.
    Any,
    Preserved,
    Unknown,
}

fn member<'s>(schema: Option<&'s Structural>, preserved: bool, name: &str) -> Member<'s> {
    let Some(schema) = schema else { return Member::Unknown };
    if let Some(property) = schema.property(name) {
        return Member::Known(property);
    }
    match &schema.additional {
        AdditionalProperties::Schema(additional) => Member::Known(additional),
        AdditionalProperties::Any(_) => Member::Any,
        AdditionalProperties::Unset if preserved => Member::Preserved,
        AdditionalProperties::Unset => Member::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interner;
    use binnacle_schema::value;

    fn check(schema: Value, mut object: Value, want: Value, unknown: &[&str]) {
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        assert_eq!(prune_and_report(&mut object, Some(&schema), true), unknown);
        assert_eq!(object, want);
    }

    #[test]
    fn prunes_unknown_fields() {
        check(
            value!({"properties": {
                "spec": {"type": "object", "properties": {
                    "a": {"type": "string"},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer"}}}},
                }},
                "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"k": {"type": "string"}}}},
                "any": {"type": "object", "additionalProperties": true},
            }}),
            value!({
                "apiVersion": "v1", "metadata": {"name": "x", "odd": 1i64}, "extra": {"deep": {}},
                "spec": {"a": "1", "b": "2", "list": [{"x": 1i64, "y": 2i64}, "text"]},
                "map": {"one": {"k": "v", "l": "w"}}, "any": {"one": {"k": 1i64}},
            }),
            value!({
                "apiVersion": "v1", "metadata": {"name": "x", "odd": 1i64},
                "spec": {"a": "1", "list": [{"x": 1i64}, "text"]},
                "map": {"one": {"k": "v"}}, "any": {"one": {}},
            }),
            &["any.one.k", "extra", "map.one.l", "spec.b", "spec.list[0].y"],
        );
    }

    #[test]
    fn keeps_preserved_unknown_fields() {
        check(
            value!({"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": true, "properties": {
                "inner": {"type": "object", "properties": {"a": {"type": "string"}}},
                "list": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object", "properties": {
                    "b": {"type": "object"},
                }}},
                "resource": {"type": "object", "x-kubernetes-embedded-resource": true},
            }}}}),
            value!({"spec": {
                "odd": {"x": [1i64]}, "inner": {"a": "1", "z": 2i64}, "list": [{"odd": 1i64, "b": {"odd": 1i64}}],
                "resource": {"kind": "K", "metadata": {"any": 1i64}, "spec": {}},
            }}),
            value!({"spec": {
                "odd": {"x": [1i64]}, "inner": {"a": "1"}, "list": [{"odd": 1i64, "b": {}}],
                "resource": {"kind": "K", "metadata": {"any": 1i64}},
            }}),
            &["spec.inner.z", "spec.list[0].b.odd", "spec.resource.spec"],
        );
    }
}
