//! Finalizers that keep storage objects in use. Admission adds them to new objects; a controller adds them to older ones,
//! and removes them from deleted ones that nobody uses.

use binnacle_controllers::Objects;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::{Status, StatusReason, Text};
use binnacle_registry::object::{finalizers, is_deleting, set_finalizers};
use binnacle_schema::Value;

/// The change that an object needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    /// It exists, and has no finalizer.
    Missing,
    /// It is deleted, and waits for the removal of the finalizer.
    Waiting,
}

impl Protection {
    pub(crate) fn of(object: &Value, finalizer: &str) -> Option<Self> {
        let is_protected = finalizers(object).contains(&finalizer);
        match (is_deleting(object), is_protected) {
            (false, false) => Some(Self::Missing),
            (true, true) => Some(Self::Waiting),
            _ => None,
        }
    }
}

/// Adds or removes the finalizer of an object that needs this change, unless it was replaced or changed meanwhile.
pub(crate) async fn change(
    objects: &Objects,
    (namespace, name): (&str, &str),
    object: &Value,
    (needed, finalizer): (Protection, &str),
) -> Result<(), Status> {
    let uid = metadata(object).at(ObjectMeta::UID).str();
    let changed = objects.update(namespace, name, "", |object| {
        let is_same = metadata(object).at(ObjectMeta::UID).str() == uid;
        if !is_same || Protection::of(object, finalizer) != Some(needed) {
            return;
        }
        let others = finalizers(object).into_iter().filter(|one| *one != finalizer);
        let mut others: Vec<Text> = others.map(Text::from).collect();
        if needed == Protection::Missing {
            others.push(finalizer.into());
        }
        set_finalizers(object, others);
    });
    match changed.await {
        Err(status) if status.is(StatusReason::NotFound) => Ok(()),
        changed => changed,
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn objects_in_deletion_wait_and_others_are_protected() {
        let deleted = value!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a", "b"]});
        for (metadata, want) in [
            (value!({}), Some(Protection::Missing)),
            (value!({"finalizers": ["b"]}), Some(Protection::Missing)),
            (value!({"finalizers": ["b", "a"]}), None),
            (deleted, Some(Protection::Waiting)),
            (value!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["b"]}), None),
        ] {
            assert_eq!(Protection::of(&value!({"metadata": metadata}), "a"), want);
        }
    }
}
