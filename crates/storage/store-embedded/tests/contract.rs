//! The contract of storage engines, on disk and in memory.

use std::sync::Arc;

use binnacle_store::{Expect, Op, Store, StoreError, Txn, TxnResponse, prefix_range};
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

    binnacle_store::contract_tests!(store);
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
    async fn history_begins_where_it_was_said() {
        let inner = Arc::new(EmbeddedStore::ephemeral());
        let op = || Op::Put { value: "x".into(), lease: None };
        let whole = KeyspaceStore::new(inner.clone(), "/k/one");
        whole.txn(Txn { key: "/a".into(), expect: Expect::Absent, op: op() }).await.expect("a put");
        let before = whole.current_revision().await.expect("a revision");
        whole.txn(Txn { key: "/b".into(), expect: Expect::Absent, op: op() }).await.expect("a put");
        let begins = whole.current_revision().await.expect("a revision");
        let store = KeyspaceStore::new(inner, "/k/one").since(begins);
        let is_compacted = |error: Option<StoreError>| matches!(error, Some(StoreError::Compacted { compacted }) if compacted == begins);
        assert!(is_compacted(store.get("/a".into(), Some(before)).await.err()));
        assert!(is_compacted(store.watch(prefix_range(b"/"), before).await.err()));
        assert_eq!(store.compacted_revision().await.expect("a revision"), begins);
        assert!(store.get("/a".into(), Some(begins)).await.expect("a read").0.is_some());
        assert!(store.watch(prefix_range(b"/"), begins).await.is_ok());
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

/// A store with limits that are not reached.
mod quota {
    use binnacle_store::{QuotaStore, StorageLimits, StorageUsage};

    use super::*;

    type Guard = (tokio::sync::watch::Sender<StorageLimits>, tokio::task::JoinHandle<()>);

    async fn store() -> (Guard, Arc<dyn Store>) {
        let limits = StorageLimits { objects: Some(1_000_000), bytes: Some(1 << 30) };
        let (guard, _, store) = limited(limits);
        (guard, store)
    }

    /// Returns a store with these limits on all keys, and its usage.
    fn limited(limits: StorageLimits) -> (Guard, Arc<StorageUsage>, Arc<dyn Store>) {
        let inner: Arc<dyn Store> = Arc::new(EmbeddedStore::ephemeral());
        let (sender, limits) = tokio::sync::watch::channel(limits);
        let usage = StorageUsage::new(limits, 1);
        let following = tokio::spawn(usage.clone().follow(0, inner.clone(), prefix_range(b"")));
        let store = Arc::new(QuotaStore::new(inner, usage.clone(), 0));
        ((sender, following), usage, store)
    }

    binnacle_store::contract_tests!(store);

    async fn write(store: &dyn Store, key: &str, expect: Expect, value: &str) -> Result<TxnResponse, StoreError> {
        let op = Op::Put { value: value.to_owned().into(), lease: None };
        store.txn(Txn { key: key.to_owned().into(), expect, op }).await
    }

    fn exceeded(answer: &Result<TxnResponse, StoreError>) -> Option<(&'static str, i64)> {
        match answer {
            Err(StoreError::QuotaExceeded { quota, used, .. }) => Some((quota, *used)),
            _ => None,
        }
    }

    #[tokio::test]
    async fn concurrent_creations_do_not_exceed_a_limit_together() {
        let limits = StorageLimits { objects: Some(10), bytes: None };
        let (_guard, usage, store) = limited(limits);
        let keys: Vec<_> = (0..40).map(|n| format!("/a/{n}")).collect();
        let writes = keys.iter().map(|key| write(&*store, key, Expect::Absent, "x"));
        let answers = futures::future::join_all(writes).await;
        let refused: Vec<_> = answers.iter().filter_map(exceeded).collect();
        assert_eq!(refused, [("objects", 10); 30]);
        // Each deletion frees a place. Any ten of the writes were first.
        let created = keys.iter().zip(&answers).find(|(_, answer)| answer.is_ok()).expect("a key").0;
        let delete = Txn { key: created.clone().into(), expect: Expect::Anything, op: Op::Delete };
        store.txn(delete).await.expect("a deletion");
        while usage.amount().expect("it is counted").objects == 10 {
            tokio::task::yield_now().await;
        }
        assert!(write(&*store, "/a/new", Expect::Absent, "x").await.is_ok());
        assert!(exceeded(&write(&*store, "/a/another", Expect::Absent, "x").await).is_some());
    }

    #[tokio::test]
    async fn updates_may_exceed_a_limit_only_by_a_margin() {
        let limits = StorageLimits { objects: None, bytes: Some(1000) };
        let (_guard, usage, store) = limited(limits);
        let text = |len: usize| "x".repeat(len - 2);
        write(&*store, "/a", Expect::Absent, &text(990)).await.expect("space for 990 bytes");
        assert_eq!(exceeded(&write(&*store, "/b", Expect::Absent, &text(11)).await), Some(("bytes", 990)));
        write(&*store, "/a", Expect::Anything, &text(1100)).await.expect("a tenth more");
        assert!(exceeded(&write(&*store, "/a", Expect::Anything, &text(1101)).await).is_some());
        write(&*store, "/a", Expect::Anything, &text(1050)).await.expect("an object that shrinks");
        assert_eq!(usage.amount().expect("it is counted").bytes, 1050);
    }

    #[tokio::test]
    async fn limits_apply_to_what_was_written_before_them() {
        let (guard, usage, store) = limited(StorageLimits::default());
        for key in ["/a", "/b"] {
            write(&*store, key, Expect::Absent, "x").await.expect("no limit");
        }
        assert_eq!(usage.amount(), None);
        guard.0.send_replace(StorageLimits { objects: Some(2), bytes: None });
        assert_eq!(exceeded(&write(&*store, "/c", Expect::Absent, "x").await), Some(("objects", 2)));
        guard.0.send_replace(StorageLimits::default());
        write(&*store, "/c", Expect::Absent, "x").await.expect("no limit any more");
    }
}

/// A store as it was.
mod past {
    use binnacle_store::{Count, PastStore, RangeRequest};

    use super::*;

    #[tokio::test]
    async fn nothing_happens_after_its_revision() {
        let inner: Arc<dyn Store> = Arc::new(EmbeddedStore::ephemeral());
        let put = async |key: &'static str, value: &'static str| {
            let op = Op::Put { value: value.into(), lease: None };
            let done = inner.txn(Txn { key: key.into(), expect: Expect::Anything, op }).await.expect("a put");
            let TxnResponse::Done { revision, .. } = done else { panic!("{done:?}") };
            revision
        };
        let first = put("/a", "1").await;
        let then = put("/b", "1").await;
        put("/a", "2").await;
        put("/c", "1").await;
        let past = PastStore::new(inner.clone(), then);
        let value = async |key: &'static str, at| {
            let (kv, revision) = past.get(key.into(), at).await.expect("a read");
            assert_eq!(revision, then);
            kv.map(|kv| kv.value)
        };
        assert_eq!(value("/a", None).await.as_deref(), Some(&b"1"[..]));
        assert_eq!((value("/c", None).await, value("/b", Some(first)).await), (None, None));
        let all = RangeRequest { range: prefix_range(b"/"), revision: None, limit: 0, count: Count::All };
        let range = past.range(all).await.expect("a range");
        assert_eq!((range.kvs.len(), range.count, range.revision), (2, 2, then));
        assert_eq!(past.current_revision().await.expect("a revision"), then);
        let later = binnacle_store::Revision(then.0 + 1);
        assert!(
            matches!(past.get("/a".into(), Some(later)).await, Err(StoreError::FutureRevision { current }) if current == then)
        );
        let op = Op::Put { value: "x".into(), lease: None };
        let refused = past.txn(Txn { key: "/d".into(), expect: Expect::Absent, op }).await;
        assert!(matches!(refused, Err(StoreError::Past)));
        let watch = past.watch(prefix_range(b"/"), then).await.expect("a watch");
        assert_eq!(watch.control.barrier().await.expect("a barrier").current, then);
        assert!(matches!(past.watch(prefix_range(b"/"), first).await.err(), Some(StoreError::Past)));
        inner.compact(later).await.expect("a compaction");
        assert!(matches!(past.get("/a".into(), None).await, Err(StoreError::Compacted { .. })));
    }
}
