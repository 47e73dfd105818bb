//! The finalizer of the objects `logicalclusters`, which keeps each until the data of its cluster are deleted.

use binnacle_schema::Value;

const FINALIZER: &str = "binnacle.dev/logical-cluster";

pub(super) fn is_in(object: &Value) -> bool {
    object.list_at(&["metadata", "finalizers"]).iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER))
}

/// Adds the finalizer, unless the object has it.
pub(super) fn add(object: &mut Value) {
    if !is_in(object) {
        set(object, |finalizers| finalizers.push(FINALIZER.into()));
    }
}

pub(super) fn remove(object: &mut Value) {
    set(object, |finalizers| finalizers.retain(|finalizer| finalizer.as_str() != Some(FINALIZER)));
}

fn set(object: &mut Value, change: impl FnOnce(&mut Vec<Value>)) {
    let mut finalizers = object.list_at(&["metadata", "finalizers"]).to_vec();
    change(&mut finalizers);
    object.make_at(&["metadata"]).insert("finalizers", Value::List(finalizers));
}
