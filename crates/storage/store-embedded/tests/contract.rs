//! The contract of storage engines, on disk and in memory.

use std::sync::Arc;

use binnacle_store::{Expect, Op, Store, StoreError, Txn, prefix_range};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};

mod on_disk {
    use super::*;

    async fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
        let dir = tempfile::tempdir().expect("a directory");
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir.path())).expect("an empty directory can be used");
        (dir, Arc::new(store))
    }

    binnacle_store::contract_tests!(store);
}

mod in_memory {
    use super::*;

    async fn store() -> ((), Arc<dyn Store>) {
        ((), Arc::new(EmbeddedStore::ephemeral()))
    }

    binnacle_store::contract_tests!(store);
}

/// Every watch immediately falls behind, so all events come from history.
mod with_tiny_buffers {
    use super::*;

    async fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut options = EmbeddedOptions::new(dir.path());
        options.watch.buffer_events = 1;
        options.watch.progress_interval = std::time::Duration::from_millis(1);
        let store = EmbeddedStore::open(options).expect("an empty directory can be used");
        (dir, Arc::new(store))
    }

    binnacle_store::contract_tests!(store);
}

/// Everything is read from disk.
mod lean {
    use super::*;

    async fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
        let dir = tempfile::tempdir().expect("a directory");
        let options = EmbeddedOptions { lean: true, ..EmbeddedOptions::new(dir.path()) };
        let store = EmbeddedStore::open(options).expect("an empty directory can be used");
        (dir, Arc::new(store))
    }

    binnacle_store::contract_tests!(without_counts store);
}

/// A part of a store. Others cannot be affected, so it has no compactions.
mod keyspace {
    use binnacle_store::KeyspaceStore;

    use super::*;

    async fn store() -> ((), Arc<dyn Store>) {
        let inner = Arc::new(EmbeddedStore::ephemeral());
        // Keys around the keyspace, which no case may see.
        for key in ["/k", "/k/a", "/k/on", "/k/onf", "/z"] {
            let op = Op::Put { value: "another's".into(), lease: None };
            inner.txn(Txn { key: key.into(), expect: Expect::Absent, op }).await.expect("a put");
        }
        ((), Arc::new(KeyspaceStore::new(inner, "/k/one")))
    }

    binnacle_store::contract_tests!(without_compaction store);

    #[tokio::test]
    async fn rejects_compactions() {
        let ((), store) = store().await;
        let revision = store.current_revision().await.expect("a revision");
        assert!(matches!(store.compact(revision).await, Err(StoreError::Shared)));
    }

    #[tokio::test]
    async fn keys_of_others_are_not_deleted() {
        let inner = Arc::new(EmbeddedStore::ephemeral());
        let [one, two] = ["/k/one", "/k/two"].map(|prefix| KeyspaceStore::new(inner.clone(), prefix));
        for store in [&one, &two] {
            let op = Op::Put { value: "x".into(), lease: None };
            store.txn(Txn { key: "/a".into(), expect: Expect::Absent, op }).await.expect("a put");
        }
        assert_eq!(one.delete_range(prefix_range(b"")).await.expect("a deletion"), 1);
        assert!(two.get("/a".into(), None).await.expect("a read").0.is_some());
    }
}
