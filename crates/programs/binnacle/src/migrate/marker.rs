//! The marker in a target that names the migration which fills it.

use binnacle_store::{Expect, Op, Store, StoreError, Txn, unfinished_migration_key};
use bytes::Bytes;
use serde_json::{Value, json};

/// Stored in the target until it is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// The identity of the source.
    pub(crate) source: String,
    /// All writes to the source up to this revision are in the target, unless the key has changed since.
    pub(crate) reached: u64,
}

// === impl Marker ===

impl Marker {
    /// Returns `None` if no migration is in progress.
    pub(crate) async fn read(store: &dyn Store, root: &str) -> Result<Option<Self>, StoreError> {
        let (kv, _) = store.get(unfinished_migration_key(root), None).await?;
        kv.map(|kv| Self::parse(&kv.value).ok_or_else(|| StoreError::Damaged("the migration's marker".to_owned())))
            .transpose()
    }

    pub(crate) async fn remove(store: &dyn Store, root: &str) -> Result<(), StoreError> {
        let txn = Txn { key: unfinished_migration_key(root), expect: Expect::Anything, op: Op::Delete };
        store.txn(txn).await.map(drop)
    }

    pub(crate) fn text(&self) -> Bytes {
        Bytes::from(json!({"source": self.source, "reached": self.reached}).to_string())
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(text).ok()?;
        Some(Self { source: value["source"].as_str()?.to_owned(), reached: value["reached"].as_u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_round_trip() {
        let marker = Marker { source: "embedded store /a \"b\"".to_owned(), reached: u64::MAX };
        assert_eq!(Marker::parse(&marker.text()), Some(marker));
        for text in ["", "{}", r#"{"source":"a"}"#, r#"{"source":"a","reached":-1}"#] {
            assert_eq!(Marker::parse(text.as_bytes()), None, "{text}");
        }
    }
}
