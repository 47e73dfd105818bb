//! Reading of stored keys and values.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;

use binnacle_store::{KeyValue, StoreError};
use bytes::Bytes;

use crate::attrs::{IndexError, Meta};
use crate::shared::Shared;

pub(crate) fn path_of<'a>(shared: &Shared, key: &'a Bytes) -> Option<&'a str> {
    let path = key.strip_prefix(shared.range.start.as_ref()).and_then(|path| std::str::from_utf8(path).ok());
    if path.is_none() {
        tracing::warn!(?key, "ignoring key that is not a resource path");
        shared.has_foreign_keys.store(true, Ordering::Relaxed);
    }
    path
}

/// Reads the attributes of a stored value. An invalid value prevents the initialization of the cache, since a list with
/// a missing object is worse than an error.
pub(crate) fn decode_attributes(shared: &Shared, path: &str, kv: &KeyValue) -> Result<(Meta, Bytes), StoreError> {
    // A panic must not end the task that keeps the cache up to date.
    let index = AssertUnwindSafe(|| shared.indexer.index(&kv.key, &kv.value, kv.mod_revision));
    let result = catch_unwind(index).unwrap_or_else(|_| Err(IndexError("looking at the object panicked".to_owned())));
    let attrs = result.map_err(|IndexError(why)| {
        let error = StoreError::no_object(kv, why);
        if matches!(error, StoreError::Undecodable { .. }) {
            shared.counters.undecodable.fetch_add(1, Ordering::Relaxed);
        }
        tracing::warn!(key = ?kv.key, %error, "failed to decode stored object");
        error
    })?;
    let value = attrs.value.unwrap_or_else(|| kv.value.clone());
    Ok((Meta::new(path, &attrs.labels, &attrs.fields), value))
}
