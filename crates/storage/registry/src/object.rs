//! Access to the metadata of objects of any kind.

use std::collections::HashSet;

use binnacle_meta::{Status, Text, go_quote};
use binnacle_schema::{Object, Value, json};

/// Finalizers of propagation policies (garbage collection).
pub const FINALIZER_ORPHAN: &str = "orphan";
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

pub fn metadata(object: &Value) -> &Value {
    static NULL: Value = Value::Null;
    object.get("metadata").unwrap_or(&NULL)
}

pub fn metadata_mut(object: &mut Value) -> &mut Object {
    object.make_at(&["metadata"])
}

pub fn name(object: &Value) -> &str {
    object.str_at(&["metadata", "name"])
}

pub fn namespace(object: &Value) -> &str {
    object.str_at(&["metadata", "namespace"])
}

pub fn uid(object: &Value) -> &str {
    object.str_at(&["metadata", "uid"])
}

pub fn resource_version(object: &Value) -> &str {
    object.str_at(&["metadata", "resourceVersion"])
}

pub fn generation(object: &Value) -> i64 {
    object.int_at(&["metadata", "generation"]).unwrap_or(0)
}

pub fn is_deleting(object: &Value) -> bool {
    object.at(&["metadata", "deletionTimestamp"]).is_some_and(|t| !t.is_null())
}

pub fn deletion_grace(object: &Value) -> Option<i64> {
    object.int_at(&["metadata", "deletionGracePeriodSeconds"])
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    object.list_at(&["metadata", "finalizers"]).iter().filter_map(Value::as_str).collect()
}

pub fn set_finalizers(object: &mut Value, finalizers: Vec<Text>) {
    let metadata = metadata_mut(object);
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers", finalizers);
    }
}

/// Removes the metadata that only the server sets.
pub fn clear_system_metadata(object: &mut Value) {
    for member in ["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        set_metadata(object, member, None);
    }
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

/// Removes duplicate owner references, and returns their uids, if any.
pub fn dedup_owner_references(object: &mut Value) -> Option<String> {
    let references = object.at_mut(&["metadata", "ownerReferences"]).and_then(Value::as_list_mut)?;
    if references.len() < 2 {
        return None;
    }
    let mut met = HashSet::with_capacity(references.len());
    let mut again = Vec::new();
    references.retain(|reference| {
        let is_new = met.insert(json::to_string(reference));
        if !is_new {
            again.push(reference.str_at(&["uid"]).to_owned());
        }
        is_new
    });
    (!again.is_empty()).then(|| again.join(", "))
}

/// Returns true if an update changes only fields that the garbage collector needs to change: they do not require the
/// additional rights of the other fields.
pub fn only_for_the_garbage_collector(object: &Value, old: &Value) -> bool {
    let without = |object: &Value| {
        let mut rest = object.clone();
        for member in ["ownerReferences", "finalizers", "selfLink", "managedFields"] {
            set_metadata(&mut rest, member, None);
        }
        rest
    };
    without(object) == without(old)
}

/// Parses a resourceVersion; an error is a bare 500, as in kube-apiserver.
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
