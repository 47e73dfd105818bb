//! Maps by namespace and name. Cluster-scoped objects have the empty namespace.

use std::collections::HashMap;

use binnacle_meta::Text;

pub(crate) type ByName<T> = HashMap<Text, HashMap<Text, T>>;

/// Removes an entry, and its inner map if it becomes empty.
pub(crate) fn take<T>(map: &mut ByName<T>, namespace: &str, name: &str) -> Option<T> {
    let inner = map.get_mut(namespace)?;
    let taken = inner.remove(name);
    if inner.is_empty() {
        map.remove(namespace);
    }
    taken
}
