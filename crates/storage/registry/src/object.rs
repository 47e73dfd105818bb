//! Access to the metadata of objects of any kind.

use std::collections::HashSet;

use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference, PartialObjectMetadata as AnyKind};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{Status, Text, go_quote};
use binnacle_schema::{Object, Value, json};

/// Finalizers of propagation policies (garbage collection).
pub const FINALIZER_ORPHAN: &str = "orphan";
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

pub fn metadata(object: &Value) -> &Value {
    FieldRef::root(object).at(AnyKind::METADATA).value()
}

pub fn metadata_mut(object: &mut Value) -> &mut Object {
    object.make_object().object_entry(AnyKind::METADATA.name())
}

/// Returns the metadata for changes, and creates it if there is none.
pub fn metadata_fields(object: &mut Value) -> FieldMut<'_, ObjectMeta> {
    let metadata = object.make_object().entry(AnyKind::METADATA.name(), || Value::Object(Object::new()));
    metadata.make_object();
    FieldMut::root(metadata)
}

pub fn name(object: &Value) -> &str {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::NAME).str()
}

pub(crate) fn generate_name(object: &Value) -> &str {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::GENERATE_NAME).str()
}

pub fn namespace(object: &Value) -> &str {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::NAMESPACE).str()
}

pub fn uid(object: &Value) -> &str {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::UID).str()
}

pub fn resource_version(object: &Value) -> &str {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::RESOURCE_VERSION).str()
}

pub fn generation(object: &Value) -> i64 {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::GENERATION).int_or_zero()
}

pub fn is_deleting(object: &Value) -> bool {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::DELETION_TIMESTAMP).is_set()
}

pub fn deletion_grace(object: &Value) -> Option<i64> {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS).int()
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::FINALIZERS).strs().collect()
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    FieldRef::root(object).at(AnyKind::METADATA).at(ObjectMeta::FINALIZERS).strs().next().is_some()
}

pub fn set_finalizers(object: &mut Value, finalizers: Vec<Text>) {
    let mut metadata = metadata_fields(object);
    if finalizers.is_empty() {
        metadata.remove(ObjectMeta::FINALIZERS);
    } else {
        metadata.set(ObjectMeta::FINALIZERS, finalizers);
    }
}

/// Removes the metadata that only the server sets.
pub fn clear_system_metadata(object: &mut Value) {
    let mut metadata = metadata_fields(object);
    metadata.remove(ObjectMeta::CREATION_TIMESTAMP);
    metadata.remove(ObjectMeta::UID);
    metadata.remove(ObjectMeta::DELETION_TIMESTAMP);
    metadata.remove(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS);
    metadata.remove(ObjectMeta::SELF_LINK);
}

/// Sets or removes a member of the metadata.
pub fn set_metadata(object: &mut Value, member: &str, value: Option<Value>) {
    let metadata = metadata_mut(object);
    match value {
        Some(value) => {
            metadata.insert(member, value);
        }
        None => {
            metadata.remove(member);
        }
    }
}

/// Removes duplicate owner references, and returns their uids, if there are any.
pub fn dedup_owner_references(object: &mut Value) -> Option<String> {
    let mut object = FieldMut::<AnyKind>::root(object);
    let mut metadata = object.structure(AnyKind::METADATA)?;
    let references = metadata.get_mut(ObjectMeta::OWNER_REFERENCES).and_then(Value::as_list_mut)?;
    if references.len() < 2 {
        return None;
    }
    let mut seen = HashSet::with_capacity(references.len());
    let mut duplicates = Vec::new();
    references.retain(|reference| {
        let is_new = seen.insert(json::to_string(reference));
        if !is_new {
            duplicates.push(FieldRef::root(reference).at(OwnerReference::UID).str().to_owned());
        }
        is_new
    });
    (!duplicates.is_empty()).then(|| duplicates.join(", "))
}

/// Returns true if an update only changes fields that the garbage collector needs to change. They do not require the
/// additional permissions of the other fields.
pub fn changes_only_garbage_collector_fields(object: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut rest = object.clone();
        let mut metadata = metadata_fields(&mut rest);
        metadata.remove(ObjectMeta::OWNER_REFERENCES);
        metadata.remove(ObjectMeta::FINALIZERS);
        metadata.remove(ObjectMeta::SELF_LINK);
        metadata.remove(ObjectMeta::MANAGED_FIELDS);
        rest
    };
    without(object) == without(old)
}

/// Parses a resourceVersion. As in kube-apiserver, an error is a bare 500.
pub fn version_number(version: &str) -> Result<u64, Status> {
    let is_number = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    match version.parse::<u64>() {
        Ok(number) if is_number => Ok(number),
        _ => {
            let why = if is_number { "value out of range" } else { "invalid syntax" };
            Err(Status::unknown(500, &format!("strconv.ParseUint: parsing {}: {why}", go_quote(version))))
        }
    }
}
