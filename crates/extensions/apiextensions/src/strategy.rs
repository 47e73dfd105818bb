//! The strategy of custom resources: preparation and validation of writes.

use std::collections::BTreeSet;
use std::sync::Arc;

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Text, go_quote};
use binnacle_schema::{Object, Value};
use binnacle_scheme::{Strategy, StrategyContext, spec_generation};
use binnacle_structural::ScalePaths;
use binnacle_structural::resource::{Part, keeps_rules_from_running};
use binnacle_structural::rules::Judgement;
use binnacle_validation::{metadata, names};

use crate::definition::Scale;
use crate::schemas::LazySchema;

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
        for (member, wanted) in [("kind", &self.kind), ("apiVersion", &self.api_version)] {
            let given = object.str_at(&[member]);
            if given != *wanted {
                let path = FieldPath::new(member);
                errors.push(FieldError::invalid(&path, given, format!("must be {wanted}")));
            }
        }
        errors
    }

    /// Validates an object. `blocked` is true if errors in its metadata prevent the evaluation of its rules.
    fn evaluate(&self, object: &Value, old: Option<&Value>, part: Part, blocked: bool) -> Judgement {
        let mut errors = self.type_errors(object);
        if !errors.is_empty() {
            return self.schema.resource().judge(object, old, Part::OtherType, errors);
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
            true => schema.judge_blocked(object, old, part, errors),
            false => schema.judge(object, old, part, errors),
        }
    }

    /// Returns true if a new object has metadata errors, such as a missing name, that prevent the evaluation of its
    /// rules. The registry reports the errors.
    fn is_blocked(&self, ctx: &StrategyContext<'_>, object: &Value) -> bool {
        let metadata = object.at(&["metadata"]).unwrap_or(&Value::Null);
        let name_rule = |name: &str, prefix: bool| self.validate_name(ctx.features, name, prefix);
        let errors = metadata::validate(metadata, self.namespaced, name_rule, &FieldPath::new("metadata"));
        errors.iter().any(keeps_rules_from_running)
    }
}

impl Strategy for CustomStrategy {
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        if self.status {
            object.make_object().remove("status");
        }
        spec_generation(object, None, |_, _| false);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        if self.status {
            match old.get("status") {
                Some(status) => drop(object.make_object().insert("status", status.clone())),
                None => drop(object.make_object().remove("status")),
            }
        }
        // All fields but the metadata count for the generation.
        spec_generation(object, Some(old), |object, old| !same_content(object, old));
    }

    fn prepare_for_subresource(&self, subresource: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        if subresource != "status" {
            return self.prepare_for_update(ctx, object, old);
        }
        let status = object.make_object().remove("status");
        let managers = object.at(&["metadata", "managedFields"]).cloned();
        let version = object.at(&["metadata", "resourceVersion"]).cloned();
        *object = old.clone();
        match status {
            Some(status) => drop(object.make_object().insert("status", status)),
            None => drop(object.make_object().remove("status")),
        }
        for (member, value) in [("managedFields", managers), ("resourceVersion", version)] {
            match value {
                Some(value) => drop(object.make_at(&["metadata"]).insert(member, value)),
                None => drop(object.make_at(&["metadata"]).remove(member)),
            }
        }
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
            let list = object.list_at(&["metadata", "finalizers"]).iter();
            list.filter_map(Value::as_str).map(Text::new).collect()
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
    *name != "metadata"
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
