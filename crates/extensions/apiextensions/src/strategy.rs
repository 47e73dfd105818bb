//! The strategy of custom resources: preparation and validation of writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Json, Str};
use binnacle_fields::{Field, FieldMut, FieldRef, messages, metadata, route};
use binnacle_meta::{FieldErrors, Text, go_quote};
use binnacle_schema::{Object, Value};
use binnacle_scheme::{Strategy, StrategyContext, spec_generation};
use binnacle_structural::ScalePaths;
use binnacle_structural::resource::{Part, blocks_rules};
use binnacle_structural::rules::Verdict;
use binnacle_validation::names;

use crate::definition::Scale;
use crate::schemas::LazySchema;

messages! {
    /// The fields of every custom resource that have a meaning.
    pub(crate) CustomResource {
        KIND: Str = "kind",
        API_VERSION: Str = "apiVersion",
        METADATA: ObjectMeta = "metadata",
        SPEC: Json = "spec",
        STATUS: Json = "status",
    }
}

/// The strategy of one version.
pub(crate) struct CustomStrategy {
    pub(crate) schema: Arc<LazySchema>,
    pub(crate) kind: Text,
    pub(crate) api_version: Text,
    pub(crate) namespaced: bool,
    /// True if `/status` is served.
    pub(crate) status: bool,
    pub(crate) scale: Option<Scale>,
}

impl CustomStrategy {
    /// Returns the errors of an object with another kind or version.
    fn type_errors(&self, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let object = FieldRef::<CustomResource>::root(object);
        for (field, wanted) in [(CustomResource::KIND, &self.kind), (CustomResource::API_VERSION, &self.api_version)] {
            let given = object.at(field);
            if given.str() != *wanted {
                errors.push(given.invalid_as(given.str(), format!("must be {wanted}")));
            }
        }
        errors
    }

    /// Validates an object. `blocked` is true if errors in its metadata prevent the evaluation of its rules.
    fn evaluate(&self, object: &Value, old: Option<&Value>, part: Part, blocked: bool) -> Verdict {
        let mut errors = self.type_errors(object);
        if !errors.is_empty() {
            return self.schema.resource().validate(object, old, Part::OtherType, errors);
        }
        if let Some(scale) = &self.scale {
            let paths = ScalePaths {
                spec_replicas: &scale.spec_replicas,
                status_replicas: &scale.status_replicas,
                label_selector: Some(&*scale.label_selector).filter(|path| !path.is_empty()),
            };
            if part == Part::Whole {
                paths.validate_spec(object, &mut errors);
            }
            paths.validate_status(object, &mut errors);
        }
        let schema = self.schema.resource();
        match blocked {
            true => schema.validate_blocked(object, old, part, errors),
            false => schema.validate(object, old, part, errors),
        }
    }

    /// Returns true if a new object has metadata errors, such as a missing name, that prevent the evaluation of its
    /// rules. The registry reports the errors.
    fn is_blocked(&self, ctx: &StrategyContext<'_>, object: &Value) -> bool {
        let (metadata, path) = (metadata(object).value(), route![CustomResource::METADATA].path());
        let name_rule = |name: &str, prefix: bool| self.validate_name(ctx.features, name, prefix);
        let errors = binnacle_validation::metadata::validate(metadata, self.namespaced, name_rule, &path);
        errors.iter().any(blocks_rules)
    }
}

impl Strategy for CustomStrategy {
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        if self.status {
            FieldMut::root(object).remove(CustomResource::STATUS);
        }
        spec_generation(object, None, |_, _| false);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        if self.status {
            let status = old.get(CustomResource::STATUS.name()).cloned();
            restore(&mut FieldMut::root(object), CustomResource::STATUS, status);
        }
        // All fields but the metadata count for the generation.
        spec_generation(object, Some(old), |object, old| !same_content(object, old));
    }

    fn prepare_for_subresource(&self, subresource: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        if subresource != "status" {
            return self.prepare_for_update(ctx, object, old);
        }
        let status = FieldMut::root(object).remove(CustomResource::STATUS);
        let written = metadata(object);
        let managers = written.value().get(ObjectMeta::MANAGED_FIELDS.name()).cloned();
        let version = written.value().get(ObjectMeta::RESOURCE_VERSION.name()).cloned();
        *object = old.clone();
        let mut object = FieldMut::<CustomResource>::root(object);
        restore(&mut object, CustomResource::STATUS, status);
        let mut metadata = object.entry(CustomResource::METADATA);
        restore(&mut metadata, ObjectMeta::MANAGED_FIELDS, managers);
        restore(&mut metadata, ObjectMeta::RESOURCE_VERSION, version);
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let blocked = self.schema.resource().rules().is_some() && self.is_blocked(ctx, object);
        self.evaluate(object, None, Part::Whole, blocked).errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        self.validate_change("", ctx, object, old, &mut Vec::new())
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        ctx: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        self.validate_change(subresource, ctx, object, old, &mut Vec::new())
    }

    fn validate_change(
        &self,
        subresource: &str,
        _: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
        tolerated: &mut Vec<String>,
    ) -> FieldErrors {
        let part = if subresource == "status" { Part::Status } else { Part::Whole };
        let verdict = self.evaluate(object, Some(old), part, false);
        tolerated.extend(verdict.warnings);
        verdict.errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let finalizers = |object: &Value| -> BTreeSet<Text> {
            metadata(object).at(ObjectMeta::FINALIZERS).strs().map(Text::new).collect()
        };
        let new = finalizers(object);
        if new.is_empty() {
            return Vec::new();
        }
        let old = old.map(finalizers).unwrap_or_default();
        new.difference(&old).flat_map(|finalizer| finalizer_warnings(finalizer)).collect()
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }
}

/// Sets a field to its previous value.
fn restore<M, T>(object: &mut FieldMut<M>, field: Field<M, T>, value: Option<Value>) {
    match value {
        Some(value) => object.set(field, value),
        None => drop(object.remove(field)),
    }
}

fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let mut problems = names::label_key(finalizer);
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        problems.push(format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    problems.into_iter().map(|why| format!("metadata.finalizers: {}: {why}", go_quote(finalizer))).collect()
}

const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

/// Compares all members but the metadata. The number `2.0` differs from a stored `2`, as in Go, where one is decoded as
/// a float and the other as an integer.
fn same_content(object: &Value, old: &Value) -> bool {
    let members = |value: &Value| value.as_object().map_or(0, |members| members.iter().filter(is_compared).count());
    members(object) == members(old)
        && object
            .as_object()
            .into_iter()
            .flat_map(Object::iter)
            .filter(is_compared)
            .all(|(name, value)| old.get(name) == Some(value))
}

fn is_compared((name, _): &(&Text, &Value)) -> bool {
    *name != CustomResource::METADATA.name()
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn warns_about_unqualified_finalizers() {
        const OTHERS: &str = "to avoid accidental conflicts with other finalizer writers";
        for (finalizer, want) in [
            ("a.io/b", vec![]),
            ("orphan", vec![]),
            ("x", vec![format!("\"x\": prefer a domain-qualified finalizer name {OTHERS}")]),
            ("x.io", vec![format!("\"x.io\": prefer a domain-qualified finalizer name including a path (/) {OTHERS}")]),
        ] {
            let want: Vec<String> = want.into_iter().map(|why| format!("metadata.finalizers: {why}")).collect();
            assert_eq!(finalizer_warnings(finalizer), want);
        }
        assert_eq!(finalizer_warnings("a b/c").len(), 1);
    }

    #[test]
    fn compares_all_fields_but_metadata() {
        let object = value!({"metadata": {"name": "a"}, "spec": {"n": 2i64, "m": {"a": 1i64, "b": []}}});
        for (other, want) in [
            (value!({"spec": {"m": {"b": [], "a": 1i64}, "n": 2i64}, "metadata": {"name": "b"}}), true),
            (value!({"spec": {"n": 2i64, "m": {"a": 1i64, "b": []}}}), true),
            (value!({"spec": {"n": 2.0f64, "m": {"a": 1i64, "b": []}}}), false),
            (value!({"spec": {"n": 2i64, "m": {"a": 1i64, "b": null}}}), false),
            (value!({"spec": {"n": 2i64, "m": {"a": 1i64}}}), false),
            (value!({"spec": {"n": 2i64, "m": {"a": 1i64, "b": []}}, "status": {}}), false),
            (value!({"status": {}}), false),
        ] {
            assert_eq!(same_content(&object, &other), want, "{other:?}");
            assert_eq!(same_content(&other, &object), want, "{other:?}");
        }
    }
}
