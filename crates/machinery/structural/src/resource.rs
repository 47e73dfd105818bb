//! The schema of a version of a custom resource with everything derived from it, and the sequence of validation steps.

use std::fmt;
use std::sync::{Arc, OnceLock};

use binnacle_meta::{FieldError, FieldErrorType, FieldErrors, FieldPath};
use binnacle_schema::decode::DecodeError;
use binnacle_schema::{Message, MessageRef, MessageSource, Value};

use crate::correlation::{ComparisonCache, CorrelatedObject};
use crate::defaulting;
use crate::embedded::{self, Coercion};
use crate::list_types;
use crate::message::{SchemaScope, message};
use crate::metrics;
use crate::pruning;
use crate::rules::{RUNTIME_BUDGET, Rules, Verdict};
use crate::structural::{ListType, Structural};
use crate::validation;
use crate::weight::{copy_charged, equal};

/// A version of a custom resource. The schema, its rules and the message are built on first use, because most resources
/// of a server are never used.
pub struct ResourceSchema {
    load: Box<dyn Fn() -> Option<Arc<Structural>> + Send + Sync>,
    object_meta: MessageRef,
    typing: SchemaScope,
    loaded: OnceLock<LoadedSchema>,
    rules: OnceLock<Option<Rules>>,
    message: OnceLock<Arc<Message>>,
}

struct LoadedSchema {
    schema: Option<Arc<Structural>>,
    features: SchemaFeatures,
}

/// The features that a schema uses. Objects are not traversed for other features.
#[derive(Clone, Copy, Debug, Default)]
struct SchemaFeatures {
    embedded: bool,
    lists: bool,
    defaults: bool,
    /// True if a default contains nulls that its schema forbids.
    null_defaults: bool,
}

/// The part of an object that a request writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    /// The object through `/status`: only the status is validated against the schema, but all rules run.
    Status,
    /// An object of another kind or version: nothing is validated against the schema, but all rules run, as in
    /// kube-apiserver.
    OtherType,
}

/// The options of [`ResourceSchema::read`].
#[derive(Clone, Copy, Debug, Default)]
pub struct CoercionOptions {
    /// True if the paths of unknown fields are returned.
    pub report_unknown: bool,
    /// True for `spec.preserveUnknownFields` of old definitions: only metadata is processed.
    pub preserve_unknown: bool,
    /// True for stored objects: fields of a wrong type in metadata are dropped, and a missing generation is set.
    pub from_store: bool,
    /// True for results of server-side apply: unknown fields and nulls stay, malformed metadata of the object is
    /// dropped, and validation reports malformed metadata of embedded resources.
    pub applied: bool,
    pub declared_type: DeclaredType,
}

/// The type in an object's `apiVersion` and `kind`. Objects of other types are rejected after they were read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeclaredType {
    /// The schema's kind and version.
    #[default]
    Schema,
    /// The schema's kind in a version without a schema: only metadata is typed.
    UnknownVersion,
    /// Another kind: only metadata is processed.
    OtherKind,
}

/// The error of an object that cannot be coerced to its schema.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// An error of the object's metadata, with Go's text.
    #[error(transparent)]
    Metadata(#[from] DecodeError),
    /// An error of an embedded resource's metadata.
    #[error("{0}")]
    Embedded(FieldError),
}

impl ResourceSchema {
    /// Returns a resource schema; without a schema only metadata is typed. `object_meta` is the message of metadata.
    pub fn new(schema: Option<Arc<Structural>>, object_meta: MessageRef) -> Self {
        Self::lazy(move || schema.clone(), object_meta)
    }

    /// Like [`ResourceSchema::new`], with a schema that is loaded on first use.
    pub fn lazy(load: impl Fn() -> Option<Arc<Structural>> + Send + Sync + 'static, object_meta: MessageRef) -> Self {
        let (loaded, rules, message) = Default::default();
        Self { load: Box::new(load), object_meta, typing: SchemaScope::default(), loaded, rules, message }
    }

    /// Sets the part of the schema that server-side apply uses (all of it by default).
    #[must_use]
    pub fn with_scope(self, typing: SchemaScope) -> Self {
        Self { typing, ..self }
    }

    pub fn schema(&self) -> Option<&Arc<Structural>> {
        self.loaded().schema.as_ref()
    }

    fn features(&self) -> SchemaFeatures {
        self.loaded().features
    }

    fn loaded(&self) -> &LoadedSchema {
        self.loaded.get_or_init(|| {
            let (schema, mut features) = ((self.load)(), SchemaFeatures::default());
            if let Some(schema) = &schema {
                schema.any(&mut |node| {
                    features.embedded |= node.embedded;
                    features.lists |= matches!(node.list_type, Some(ListType::Set | ListType::Map));
                    if let Some(default) = node.default.as_deref() {
                        let mut pruned = default.clone();
                        defaulting::prune_nulls(&mut pruned, node);
                        features.defaults = true;
                        features.null_defaults |= pruned != *default;
                    }
                    false
                });
            }
            LoadedSchema { schema, features }
        })
    }

    /// Returns the rules, if there are any.
    pub fn rules(&self) -> Option<&Rules> {
        self.rules.get_or_init(|| Rules::new(self.schema()?, true)).as_ref()
    }

    /// Returns the schema for server-side apply and field managers.
    pub fn message(&self) -> &Arc<Message> {
        let schema = || self.schema().map(|schema| &**schema);
        self.message.get_or_init(|| Arc::new(message("", schema(), self.typing, &self.object_meta)))
    }

    /// Coerces a decoded object to this schema: prunes unknown fields and forbidden nulls, and coerces metadata,
    /// including that of embedded resources, to `ObjectMeta`. Does not set defaults.
    ///
    /// Returns the paths of unknown fields in kube-apiserver's order, if requested.
    ///
    /// # Errors
    /// Fails for metadata with fields of a wrong type.
    pub fn read(&self, object: &mut Value, reading: CoercionOptions) -> Result<Vec<String>, ReadError> {
        let coercion =
            Coercion { object_meta: &self.object_meta, drop_malformed: reading.from_store || reading.applied };
        let mut unknown = Vec::new();
        let path = FieldPath::new("metadata");
        let metadata = match object.get("metadata") {
            Some(tree) => Some(embedded::object_meta(tree, coercion, &path, &mut unknown)?),
            None => None,
        };
        let schema = self.schema().filter(|_| reading.declared_type == DeclaredType::Schema).map(|schema| &**schema);
        if !reading.preserve_unknown && !reading.applied && reading.declared_type != DeclaredType::OtherKind {
            match reading.report_unknown {
                true => unknown.extend(pruning::prune_and_report(object, schema, true)),
                false => pruning::prune(object, schema, true),
            }
            if let Some(schema) = schema {
                defaulting::prune_nulls(object, schema);
            }
        }
        if let Some(schema) = schema.filter(|_| !reading.applied && self.features().embedded) {
            let root = FieldPath::root();
            embedded::coerce(object, schema, false, &root, coercion, &mut unknown).map_err(ReadError::Embedded)?;
        }
        if let Some(mut metadata) = metadata {
            if reading.from_store && metadata.int_at(&["generation"]).unwrap_or(0) == 0 {
                metadata.make_object().insert("generation", 1i64);
            }
            object.make_object().insert("metadata", metadata);
        }
        if !reading.report_unknown {
            unknown.clear();
        }
        Ok(unknown)
    }

    /// Returns true if defaults may add nulls that are pruned when an object is stored.
    pub fn prunes_defaults(&self) -> bool {
        self.features().null_defaults
    }

    /// Returns true if storing the result of a server-side apply would prune it: it has unknown fields, nulls that the
    /// schema forbids, or embedded resources with such metadata.
    pub fn prunes_applied(&self, object: &Value) -> bool {
        let schema = self.schema().map(|schema| &**schema);
        let Some(mut pruned) = copy_charged(object) else { return false };
        pruning::prune(&mut pruned, schema, true);
        if let Some(schema) = schema {
            defaulting::prune_nulls(&mut pruned, schema);
            if self.features().embedded {
                let coercion = Coercion { object_meta: &self.object_meta, drop_malformed: true };
                // Malformed fields are dropped, so there are no errors.
                let _ = embedded::coerce(&mut pruned, schema, false, &FieldPath::root(), coercion, &mut Vec::new());
            }
        }
        !equal(&pruned, object)
    }

    /// Sets the schema's defaults for absent values. Returns true if any was set.
    pub fn set_defaults(&self, object: &mut Value) -> bool {
        match self.schema().filter(|_| self.features().defaults) {
            Some(schema) => defaulting::set_defaults(object, schema),
            None => false,
        }
    }

    /// Validates a create (`old` is `None`) or an update. `found` are errors found outside of the schema, such as those
    /// of the replicas.
    ///
    /// Ratcheting: errors of unchanged values are dropped, both of the schema and of rules.
    pub fn validate(&self, new: &Value, old: Option<&Value>, part: Part, found: FieldErrors) -> Verdict {
        self.validate_with(new, old, part, found, false)
    }

    /// Like [`ResourceSchema::validate`], for an object with an error that prevents its rules from running.
    pub fn validate_blocked(&self, new: &Value, old: Option<&Value>, part: Part, found: FieldErrors) -> Verdict {
        self.validate_with(new, old, part, found, true)
    }

    fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        part: Part,
        found: FieldErrors,
        blocked: bool,
    ) -> Verdict {
        let Some(schema) = self.schema() else { return Verdict { errors: found, warnings: Vec::new() } };
        let cache = ComparisonCache::default();
        let change = old.map(|old| CorrelatedObject::new(new, old, schema, &cache));
        let verdict = self.validate_change(new, old, schema, change, (part, found, blocked));
        if change.is_some() {
            metrics::compared(cache.spent());
        }
        verdict
    }

    fn validate_change(
        &self,
        new: &Value,
        old: Option<&Value>,
        schema: &Arc<Structural>,
        change: Option<CorrelatedObject<'_>>,
        (part, found, blocked): (Part, FieldErrors, bool),
    ) -> Verdict {
        let mut verdict = Verdict { errors: FieldErrors::new(), warnings: Vec::new() };
        let errors = &mut verdict.errors;
        let root = FieldPath::root();
        match (part, &change) {
            (Part::Whole, None) => validation::validate(new, schema, &root, errors),
            (Part::Whole, Some(change)) => validation::validate_update(change, schema, &root, errors),
            (Part::Status, _) => status(new, schema, change.as_ref(), errors),
            (Part::OtherType, _) => {}
        }
        errors.extend(found);
        if part != Part::Status && self.features().embedded {
            embedded::validate(new, schema, false, &root, &self.object_meta, errors);
        }
        let had_duplicates = || {
            let mut errors = FieldErrors::new();
            old.into_iter().for_each(|old| list_types::validate(old, schema, &root, &mut errors));
            !errors.is_empty()
        };
        let mut duplicates = FieldErrors::new();
        if self.features().lists {
            list_types::validate(new, schema, &root, &mut duplicates);
        }
        if !duplicates.is_empty() && !had_duplicates() {
            errors.extend(duplicates);
        }
        let Some(rules) = self.rules() else { return verdict };
        if blocked || errors.iter().any(blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            errors.push(FieldError::invalid(&root, binnacle_meta::ErrorValue::raw("null"), detail));
        } else {
            rules.evaluate(new, old, change, &root, RUNTIME_BUDGET, &mut verdict);
        }
        verdict
    }
}

impl MessageSource for ResourceSchema {
    fn message(&self) -> &Message {
        self.message()
    }
}

impl fmt::Debug for ResourceSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceSchema").field("loaded", &self.loaded.get().is_some()).finish_non_exhaustive()
    }
}

/// Validates the status alone.
fn status(new: &Value, schema: &Structural, change: Option<&CorrelatedObject<'_>>, errors: &mut FieldErrors) {
    let (Some(status), Some(schema)) = (new.get("status"), schema.property("status")) else { return };
    let path = FieldPath::new("status");
    match change.and_then(|change| change.key("status")) {
        Some(change) => validation::validate_update(&change, schema, &path, errors),
        // As in kube-apiserver, a null equals the status that the old object does not have.
        None if change.is_some() && status.is_null() => {}
        None => validation::validate(status, schema, &path, errors),
    }
}

/// Returns true for errors that prevent rules from running: wrong types, and sizes above those of the rules' cost
/// estimates.
pub fn blocks_rules(error: &FieldError) -> bool {
    matches!(
        error.kind,
        FieldErrorType::NotSupported
            | FieldErrorType::Required
            | FieldErrorType::TooLong
            | FieldErrorType::TooMany
            | FieldErrorType::TypeInvalid
    )
}

#[cfg(test)]
mod tests;
