//! The limit on the size of stored objects, and the error for larger ones.

use std::collections::BinaryHeap;

use binnacle_meta::{FieldPath, Status};
use binnacle_schema::{Message, Ty, Value, depth};
use binnacle_scheme::MAX_STORED_DEPTH;

use crate::object;
use crate::resource::ResourceStore;
use crate::write_failure::WriteFailure;

/// etcd's default limit on the size of a request.
const MAX_REQUEST: usize = 1536 << 10;
/// Reserved for the key, the conditions of the transaction, and the marks of a deletion, which must be possible unless
/// encryption needs the space.
const RESERVE: usize = 864;
/// The largest value that clients may store in any engine. etcd accepts it as well.
pub const MAX_STORED: usize = MAX_REQUEST - RESERVE;

/// The maximum number of fields in an error.
const MAX_NAMED_FIELDS: usize = 3;

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteKind {
    Content,
    /// A write that only marks an object for deletion.
    Deletion,
}

impl ResourceStore {
    /// Returns an error for a value that is too large to be stored.
    pub(crate) fn check_size(&self, object: &Value, size: usize, write: WriteKind) -> Result<(), Status> {
        let limit = match write {
            WriteKind::Content => MAX_STORED,
            WriteKind::Deletion => MAX_REQUEST,
        };
        if size <= limit { Ok(()) } else { Err(self.too_large(object, size, limit)) }
    }

    /// Returns an error for a custom object that could not be read again. Its managed fields count as well, since they
    /// are nested as deeply as the object, inside the object.
    pub(crate) fn check_depth(&self, object: &Value) -> Result<(), Status> {
        if depth(object) <= MAX_STORED_DEPTH {
            return Ok(());
        }
        Err(Status::request_entity_too_large(format!(
            "{} {:?} would be nested too deeply in the store with its managed fields; the limit is {MAX_STORED_DEPTH} levels",
            self.kind.storage.kind,
            object::name(object),
        )))
    }

    /// Returns the failure of a write, which may be that the store rejected the size of a value within the limit.
    pub(crate) fn write_failure(&self, error: binnacle_store::StoreError, object: &Value, size: usize) -> WriteFailure {
        match &error {
            binnacle_store::StoreError::TooLarge => {
                let what = self.describe(object, size);
                Status::request_entity_too_large(format!("{what}; etcd refuses it (etcdserver: request is too large)"))
                    .into()
            }
            _ => WriteFailure::of_write(error),
        }
    }

    fn too_large(&self, object: &Value, size: usize, limit: usize) -> Status {
        let what = self.describe(object, size);
        Status::request_entity_too_large(format!("{what}; the limit is {limit} bytes"))
    }

    fn describe(&self, object: &Value, size: usize) -> String {
        let fields: Vec<String> = largest_fields(object, &self.kind.message)
            .into_iter()
            .map(|(field, size)| format!("{field} ({size} bytes)"))
            .collect();
        format!(
            "{} {:?} would take {size} bytes in the store, its largest fields being {}",
            self.kind.storage.kind,
            object::name(object),
            fields.join(", ")
        )
    }
}

/// Returns the largest fields of an object, largest first. A struct or map is replaced by a member that is at least
/// half of its size.
fn largest_fields(object: &Value, message: &Message) -> Vec<(FieldPath, usize)> {
    let mut fields = BinaryHeap::new();
    add_members(object, &FieldPath::root(), Some(message), &mut fields);
    let mut found = Vec::with_capacity(MAX_NAMED_FIELDS);
    while found.len() < MAX_NAMED_FIELDS
        && let Some(field) = fields.pop()
    {
        let heavy = field.value.as_object().is_some_and(|members| {
            members.iter().any(|(name, member)| 2 * (name.len() + 4 + size_of_value(member)) >= field.size)
        });
        if heavy {
            add_members(field.value, &field.path, field.message, &mut fields);
        } else if field.size > 0 {
            found.push((field.path, field.size));
        }
    }
    found
}

struct SizedField<'v> {
    size: usize,
    path: FieldPath,
    value: &'v Value,
    /// The schema of a struct, or `None` for maps.
    message: Option<&'v Message>,
}

fn add_members<'v>(
    value: &'v Value,
    path: &FieldPath,
    message: Option<&'v Message>,
    fields: &mut BinaryHeap<SizedField<'v>>,
) {
    for (name, member) in value.as_object().into_iter().flat_map(|members| members.iter()) {
        let schema_field = message.and_then(|message| message.get(name));
        let path = if schema_field.is_some() { path.child(name) } else { path.key(name) };
        let message = match schema_field.map(|field| &field.ty) {
            Some(Ty::Message(message)) => Some(&**message),
            _ => None,
        };
        fields.push(SizedField { size: size_of_value(member), path, value: member, message });
    }
}

/// Returns the approximate size of a value in the store.
fn size_of_value(value: &Value) -> usize {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 2,
        Value::Int(_) => 4,
        Value::Float(_) => 8,
        Value::Str(text) | Value::Raw(text) => text.len(),
        Value::List(items) => items.iter().map(|item| 2 + size_of_value(item)).sum(),
        Value::Object(members) => members.iter().map(|(name, member)| name.len() + 4 + size_of_value(member)).sum(),
    }
}

impl PartialEq for SizedField<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SizedField<'_> {}

impl PartialOrd for SizedField<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SizedField<'_> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.size.cmp(&other.size).then_with(|| other.path.as_str().cmp(self.path.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn finds_largest_fields() {
        let message = binnacle_kinds::tables::kind("", "v1", "ConfigMap").unwrap();
        let long = |length: usize| "x".repeat(length);
        for (object, want) in [
            (value!({}), vec![]),
            (
                value!({"metadata": {"name": "a", "annotations": {"a/b": (long(500)), "c": "d"}}, "data": {"k": (long(1000)), "l": (long(100))}}),
                vec![("data[k]", 1000), ("metadata.annotations[a/b]", 500), ("data[l]", 100)],
            ),
            (
                value!({"metadata": {"finalizers": ["a/b", "c/d"]}, "data": {"a": "1", "b": "2", "c": "3"}}),
                vec![("data", 18), ("metadata.finalizers", 10)],
            ),
        ] {
            let found = largest_fields(&object, message);
            let found: Vec<_> = found.iter().map(|(path, size)| (path.as_str(), *size)).collect();
            assert_eq!(found, want);
        }
    }
}
