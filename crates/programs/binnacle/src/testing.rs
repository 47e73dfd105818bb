//! Stores in memory for the tests of this crate.

use std::sync::Arc;

use binnacle_registry::ROOT;
use binnacle_store::{Expect, Op, Revision, Store, Txn, TxnResponse};
use bytes::Bytes;

use crate::location::ReadableStore;

/// Returns a store as if it had been opened.
pub(crate) fn opened(store: Arc<dyn Store>) -> ReadableStore {
    ReadableStore::of(store, ROOT)
}

pub(crate) async fn put(store: &dyn Store, key: &str, value: impl AsRef<[u8]>) -> Revision {
    let value = Bytes::copy_from_slice(value.as_ref());
    done(store, key, Op::Put { value, lease: None }).await
}

pub(crate) async fn delete(store: &dyn Store, key: &str) -> Revision {
    done(store, key, Op::Delete).await
}

pub(crate) async fn done(store: &dyn Store, key: &str, op: Op) -> Revision {
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    match store.txn(txn).await.expect("a write") {
        TxnResponse::Done { revision, .. } => revision,
        TxnResponse::Unmet { .. } => panic!("nothing was expected"),
    }
}
