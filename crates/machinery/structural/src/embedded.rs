//! Embedded resources (`x-kubernetes-embedded-resource`): coercion and validation of their TypeMeta and ObjectMeta.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, GroupVersion};
use binnacle_schema::decode::{self, DecodeError};
use binnacle_schema::{Finding, Message, Object, Value, json};
use binnacle_validation::{metadata, names};
use binnacle_work::{allocate, charge, check, pace};

use crate::error_value::error_value;
use crate::path::Path;
use crate::structural::Structural;
use crate::weight::Weight;

/// The options for coercing metadata to `ObjectMeta`.
#[derive(Clone, Copy, Debug)]
pub struct Coercion<'m> {
    /// The schema of `ObjectMeta`.
    pub object_meta: &'m Message,
    /// True if fields of a wrong type are dropped (stored objects must be readable), false if they are errors.
    pub drop_malformed: bool,
}

/// Coerces the metadata of embedded resources, and of the object itself if `is_root`, to `ObjectMeta`. Unknown fields
/// are removed, and their paths, beginning with `base`, are added to `unknown`.
///
/// # Errors
/// The first field of a wrong type, if these are errors.
pub fn coerce(
    object: &mut Value,
    schema: &Structural,
    is_root: bool,
    base: &FieldPath,
    coercion: Coercion<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), FieldError> {
    let before = unknown.len();
    let result = Coercer { base, coercion, unknown }.walk(object, schema, is_root, &Path::Root);
    unknown[before..].sort();
    result
}

/// Validates TypeMeta and metadata of embedded resources, and of the object itself if `is_root`.
pub fn validate(
    object: &Value,
    schema: &Structural,
    is_root: bool,
    base: &FieldPath,
    object_meta: &Message,
    errors: &mut FieldErrors,
) {
    Validator { base, object_meta, errors }.walk(object, schema, is_root, &Path::Root);
}

/// The steps of decoding a value of metadata.
const DECODE: u64 = 16;

/// Returns metadata as `ObjectMeta`, and adds the paths of its unknown fields, below `path`, to `unknown`.
///
/// # Errors
/// Go's error about a field of a wrong type.
pub fn object_meta(
    tree: &Value,
    coercion: Coercion<'_>,
    path: &FieldPath,
    unknown: &mut Vec<String>,
) -> Result<Value, DecodeError> {
    let mut reencoded;
    let tree = match has_floats(tree) {
        true => {
            reencoded = tree.clone();
            json::show_floats(&mut reencoded);
            &reencoded
        }
        false => tree,
    };
    let weight = Weight::of(tree);
    // The copies and their fields: up to three, and more if something is malformed.
    pace(weight.nodes * DECODE);
    // An exceeded limit is recorded in the budget.
    let _ = allocate(weight.bytes);
    let mut report_unknown = |findings: decode::DecodedObject| {
        let found = findings.findings.iter().filter_map(|finding| match finding {
            Finding::UnknownField(field) => Some(format!("{path}.{field}")),
            _ => None,
        });
        unknown.extend(found);
        let mut metadata = findings.value;
        // Encoding omits an empty list, so unlike for built-in kinds it does not reset managers.
        if let Some(members) = metadata.as_object_mut()
            && members.get("managedFields").and_then(Value::as_list).is_some_and(<[Value]>::is_empty)
        {
            members.remove("managedFields");
        }
        metadata
    };
    // Go decodes members sorted by name, which determines the order of unknown fields and the first error.
    let sorted = || {
        let mut sorted = tree.clone();
        binnacle_schema::sort_free_form(&mut sorted);
        decode::value(sorted, coercion.object_meta)
    };
    let error = match decode::value(tree.clone(), coercion.object_meta) {
        Ok(decoded) if decoded.findings.is_empty() => return Ok(report_unknown(decoded)),
        Ok(decoded) => return Ok(report_unknown(sorted().unwrap_or(decoded))),
        Err(error) => sorted().err().unwrap_or(error),
    };
    let Some(members) = tree.as_object().filter(|_| coercion.drop_malformed) else { return Err(error) };
    pace(weight.nodes * DECODE);
    // Members are decoded one by one: malformed ones are dropped.
    let good: Object = members
        .iter()
        .filter(|(name, value)| {
            let one: Object = [((*name).clone(), (*value).clone())].into_iter().collect();
            decode::value(Value::Object(one), coercion.object_meta).is_ok()
        })
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    decode::value(Value::Object(good), coercion.object_meta).map(report_unknown)
}

/// Returns true for a tree with floating point numbers. Go encodes metadata and decodes the text, where `1.0` is `1`.
fn has_floats(tree: &Value) -> bool {
    match tree {
        Value::Float(_) => true,
        Value::Object(members) => members.values().any(has_floats),
        Value::List(items) => items.iter().any(has_floats),
        _ => false,
    }
}

struct Coercer<'m, 'u> {
    base: &'m FieldPath,
    coercion: Coercion<'m>,
    unknown: &'u mut Vec<String>,
}

impl Coercer<'_, '_> {
    fn walk(
        &mut self,
        value: &mut Value,
        schema: &Structural,
        is_root: bool,
        path: &Path<'_>,
    ) -> Result<(), FieldError> {
        match value {
            Value::Object(object) => {
                if charge(1 + 4 * object.len() as u64).is_err() {
                    return Ok(());
                }
                if is_root || schema.embedded {
                    self.resource(object, path)?;
                }
                for (name, value) in object.iter_mut() {
                    if let Some(property) = schema.property(name) {
                        self.walk(value, property, false, &Path::Field(path, name))?;
                    } else if let Some(additional) = schema.additional_schema() {
                        self.walk(value, additional, false, &Path::Key(path, name))?;
                    }
                }
            }
            Value::List(items) => {
                let Some(schema) = schema.items.as_deref() else { return Ok(()) };
                if charge(items.len() as u64).is_err() {
                    return Ok(());
                }
                for (i, item) in items.iter_mut().enumerate() {
                    self.walk(item, schema, false, &Path::Index(path, i))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn resource(&mut self, object: &mut Object, path: &Path<'_>) -> Result<(), FieldError> {
        for name in ["apiVersion", "kind"] {
            match object.get(name) {
                None | Some(Value::Str(_)) => {}
                Some(_) if self.coercion.drop_malformed => drop(object.remove(name)),
                Some(other) => {
                    let at = path.below(self.base).child(name);
                    return Err(FieldError::invalid(&at, error_value(other), "must be a string"));
                }
            }
        }
        let Some(tree) = object.get_mut("metadata") else { return Ok(()) };
        let at = path.below(self.base).child("metadata");
        match object_meta(tree, self.coercion, &at, self.unknown) {
            Ok(mut metadata) => {
                let members = metadata.make_object();
                if members.get("creationTimestamp").is_some_and(Value::is_null) {
                    members.remove("creationTimestamp");
                }
                *tree = metadata;
            }
            // Validation reports malformed metadata.
            Err(_) if self.coercion.drop_malformed => {}
            Err(error) => return Err(FieldError::invalid(&at, error_value(tree), error.to_string())),
        }
        Ok(())
    }
}

struct Validator<'m, 'e> {
    base: &'m FieldPath,
    object_meta: &'m Message,
    errors: &'e mut FieldErrors,
}

impl Validator<'_, '_> {
    fn walk(&mut self, value: &Value, schema: &Structural, is_root: bool, path: &Path<'_>) {
        if self.errors.is_full() {
            return;
        }
        match value {
            Value::Object(object) => {
                if charge(1 + 4 * object.len() as u64).is_err() {
                    return;
                }
                if is_root || schema.embedded {
                    self.resource(object, &path.below(self.base));
                }
                for (name, value) in object.iter() {
                    if let Some(property) = schema.property(name) {
                        self.walk(value, property, false, &Path::Field(path, name));
                    } else if let Some(additional) = schema.additional_schema() {
                        self.walk(value, additional, false, &Path::Key(path, name));
                    }
                }
            }
            Value::List(items) => {
                let Some(schema) = schema.items.as_deref() else { return };
                if charge(items.len() as u64).is_err() {
                    return;
                }
                for (i, item) in items.iter().enumerate() {
                    self.walk(item, schema, false, &Path::Index(path, i));
                }
            }
            _ => {}
        }
    }

    fn resource(&mut self, object: &Object, path: &FieldPath) {
        for name in ["apiVersion", "kind"] {
            let at = path.child(name);
            match object.get(name) {
                None => self.errors.push(FieldError::required(&at, "")),
                Some(Value::Str(text)) if text.is_empty() => {
                    self.errors.push(FieldError::invalid(&at, "", "must not be empty"));
                }
                Some(Value::Str(text)) if name == "apiVersion" => {
                    if text != "/" && GroupVersion::parse(text).is_none() {
                        let detail = format!("unexpected GroupVersion string: {text}");
                        self.errors.push(FieldError::invalid(&at, text, detail));
                    }
                }
                Some(Value::Str(kind)) => {
                    let problems = names::dns1035_label(&kind.to_lowercase());
                    if !problems.is_empty() {
                        let detail = "may have mixed case, but should otherwise match: ";
                        let detail = format!("{detail}{}", problems.join(","));
                        self.errors.push(FieldError::invalid(&at, kind, detail));
                    }
                }
                Some(other) => self.errors.push(FieldError::invalid(&at, error_value(other), "must be a string")),
            }
        }
        let Some(tree) = object.get("metadata").filter(|_| check().is_ok()) else { return };
        let at = path.child("metadata");
        let coercion = Coercion { object_meta: self.object_meta, drop_malformed: false };
        match object_meta(tree, coercion, &at, &mut Vec::new()) {
            Err(error) => self.errors.push(FieldError::invalid(&at, error_value(tree), error.to_string())),
            Ok(mut metadata) => {
                let members = metadata.make_object();
                if members.get("name").and_then(Value::as_str).is_none_or(str::is_empty) {
                    // An embedded resource need not have a name, but metadata validation requires one.
                    members.insert("name", "fakename");
                }
                let namespaced = !metadata.str_at(&["namespace"]).is_empty();
                self.errors.extend(metadata::validate(&metadata, namespaced, names::path_segment, &at));
            }
        }
    }
}
