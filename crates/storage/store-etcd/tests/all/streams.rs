//! Reads of whole ranges as streams, from members with and without them, and with streams that fail.

use std::sync::Arc;

use binnacle_store::{Expect, KeyValue, Op, Pages, Revision, Store, StoreError, Txn, TxnResponse, prefix_range};
use binnacle_store_etcd::{EtcdStore, WatchLimits};
use binnacle_testkit::{Etcd, TIMEOUT};
use binnacle_watchcache::{Attrs, Cache, IndexError, Indexer, Interest, WindowLimits};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use tonic::Code;

use crate::streaming_member::{Fault, StreamingMember};
use crate::support::open;

const KEYS: usize = 600;

/// An etcd, a member with streams in front of it, and a store on that.
struct StreamTest {
    etcd: Etcd,
    member: StreamingMember,
    store: Arc<EtcdStore>,
}

impl StreamTest {
    async fn start() -> Self {
        let etcd = tokio::task::block_in_place(Etcd::single);
        let member = StreamingMember::start(&etcd.endpoints()[0]).await;
        let store = Arc::new(open(vec![member.endpoint.clone()], WatchLimits::default()));
        Self { etcd, member, store }
    }

    /// Starts with keys, some of which change later. Returns the revision before the changes as well.
    async fn with_history() -> (Self, Revision) {
        let this = Self::start().await;
        fill(&*this.store, KEYS, 4 << 10).await;
        let revision = this.store.current_revision().await.expect("a revision");
        for n in (0..KEYS).step_by(50) {
            write(&*this.store, &key(n), Op::Put { value: Bytes::from_static(b"new"), lease: None }).await;
            write(&*this.store, &key(n + 1), Op::Delete).await;
        }
        (this, revision)
    }
}

fn key(n: usize) -> String {
    format!("/k/{n:06}")
}

async fn write(store: &dyn Store, key: &str, op: Op) {
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    assert!(matches!(store.txn(txn).await.expect("a write"), TxnResponse::Done { .. }));
}

async fn fill(store: &dyn Store, keys: usize, bytes: usize) {
    let value = Bytes::from(vec![b'v'; bytes]);
    stream::iter(0..keys)
        .for_each_concurrent(64, |n| {
            let op = Op::Put { value: value.clone(), lease: None };
            async move { write(store, &key(n), op).await }
        })
        .await;
}

fn pages(store: &dyn Store, revision: Revision) -> Pages<'_> {
    Pages::new(store, prefix_range(b"/k/"), revision)
}

async fn all(mut pages: Pages<'_>) -> Result<Vec<KeyValue>, StoreError> {
    let mut all = Vec::new();
    while let Some(page) = pages.next().await? {
        all.extend(page);
    }
    Ok(all)
}

/// Checks that a stream has the same keys as pages.
async fn assert_same(store: &dyn Store, revision: Revision) {
    let streamed = all(pages(store, revision).streamed()).await.expect("all keys");
    let paged = all(pages(store, revision)).await.expect("all keys");
    assert!(streamed == paged, "{} keys instead of {}", streamed.len(), paged.len());
    assert!(!paged.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn reads_range_as_one_stream_at_its_revision() {
    let (streaming, revision) = StreamTest::with_history().await;
    assert_same(&*streaming.store, revision).await;
    assert_eq!(streaming.member.calls(), 1);
    // The values of 4 KiB were sent once, those of the changes not at all.
    assert!(streaming.member.sent_bytes() > KEYS * 4096, "{}", streaming.member.sent_bytes());
    assert!(streaming.member.sent_bytes() < KEYS * 4300, "{}", streaming.member.sent_bytes());
    // Without a revision, pages may be of different ones.
    assert_eq!(all(pages(&*streaming.store, Revision(0)).streamed()).await.expect("all keys").len(), KEYS - KEYS / 50);
    assert_eq!(streaming.member.calls(), 1);
    let store: &dyn Store = &*streaming.store;
    let empty = Pages::new(store, prefix_range(b"/none/"), revision).streamed();
    assert_eq!(all(empty).await.expect("no keys"), []);
    assert_eq!(streaming.member.calls(), 2);
}

/// The installed etcd may have streams or not.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn reads_same_keys_from_installed_etcd() {
    let etcd = tokio::task::block_in_place(|| Etcd::cluster(3));
    let store = open(etcd.endpoints(), WatchLimits::default());
    fill(&store, KEYS, 4 << 10).await;
    let revision = store.current_revision().await.expect("a revision");
    fill(&store, 100, 10).await;
    assert_same(&store, revision).await;
    store.compact(Revision(revision.0 + 1)).await.expect("a compaction");
    let compacted = all(pages(&store, revision).streamed()).await;
    assert!(matches!(compacted, Err(StoreError::Compacted { compacted }) if compacted.0 == revision.0 + 1));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn asks_member_without_streams_once_per_connection() {
    let (streaming, revision) = StreamTest::with_history().await;
    let StreamTest { member, store, .. } = &streaming;
    member.replace(false);
    for _ in 0..3 {
        assert_same(&**store, revision).await;
    }
    assert!(member.calls() <= 2, "{}", member.calls());
    for upgraded in [true, false, true] {
        member.replace(upgraded);
        // The call that notices the lost connection fails.
        assert_same(&**store, revision).await;
        let before = member.calls();
        for _ in 0..3 {
            assert_same(&**store, revision).await;
        }
        let calls = member.calls() - before;
        assert!(if upgraded { calls == 3 } else { calls <= 1 }, "{calls}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn streams_from_those_members_that_can() {
    let (streaming, revision) = StreamTest::with_history().await;
    let old = StreamingMember::start(&streaming.etcd.endpoints()[0]).await;
    old.replace(false);
    // Nobody listens on the port of a member that was removed.
    let endpoints = vec![old.endpoint.clone(), "http://127.0.0.1:1".to_owned(), streaming.member.endpoint.clone()];
    let store = open(endpoints, WatchLimits::default());
    for _ in 0..4 {
        assert_same(&store, revision).await;
    }
    assert_eq!((old.calls(), streaming.member.calls()), (1, 4));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn continues_after_broken_streams_at_same_revision() {
    let (streaming, revision) = StreamTest::with_history().await;
    for faults in [
        vec![Fault::Break(0, Code::Unavailable)],
        vec![Fault::Break(1, Code::Unavailable), Fault::Break(3, Code::Internal)],
        vec![Fault::Break(2, Code::PermissionDenied), Fault::End(1), Fault::Break(1, Code::ResourceExhausted)],
        // More often than a read opens streams.
        vec![Fault::Break(1, Code::Unknown); 10],
        vec![Fault::End(0), Fault::End(4)],
        // A member that is replaced by an older one in between.
        vec![Fault::Break(2, Code::Unimplemented)],
    ] {
        streaming.member.fail(faults);
        assert_same(&*streaming.store, revision).await;
    }
    assert_eq!(streaming.etcd.endpoints().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn continues_at_newer_revision_after_compaction_if_allowed() {
    let (streaming, revision) = StreamTest::with_history().await;
    let StreamTest { member, store, .. } = &streaming;
    let newest = store.current_revision().await.expect("a revision");
    member.fail([Fault::Compact(2)]);
    let read = all(pages(&**store, revision).streamed()).await;
    assert!(matches!(read, Err(StoreError::Compacted { compacted }) if compacted == newest));
    write(&**store, "/k/later", Op::Put { value: Bytes::new(), lease: None }).await;
    write(&**store, "/k/latest", Op::Put { value: Bytes::new(), lease: None }).await;
    member.fail([Fault::Compact(2)]);
    let mut pages = pages(&**store, newest).streamed();
    let mut keys = 0;
    while let Some(page) = pages.next_or_newer().await.expect("a page") {
        keys += page.len();
    }
    assert!(pages.is_torn());
    assert_eq!(keys, KEYS - KEYS / 50 + 2);
}

/// A client cannot be made to hold a chunk of any size.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn reads_pages_instead_of_huge_chunks() {
    let streaming = StreamTest::start().await;
    fill(&*streaming.store, 70, 1 << 20).await;
    let revision = streaming.store.current_revision().await.expect("a revision");
    streaming.member.fail([Fault::OneChunk]);
    assert_same(&*streaming.store, revision).await;
}

/// The member waits for the reader of a stream, and other requests to it do not wait.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn unread_streams_are_bounded_and_delay_nothing() {
    let streaming = StreamTest::start().await;
    let store = &*streaming.store;
    fill(store, 64, 1 << 20).await;
    let revision = store.current_revision().await.expect("a revision");
    let mut unread: Vec<_> = (0..8).map(|_| pages(store, revision).streamed()).collect();
    for pages in &mut unread {
        pages.next().await.expect("a chunk");
    }
    // More than the window of a connection is waiting.
    for n in 0..3 {
        write(store, "/other", Op::Put { value: Bytes::from(n.to_string()), lease: None }).await;
        assert_eq!(all(pages(store, revision)).await.expect("all keys").len(), 64);
    }
    // Per stream: what the reader took (10 keys), the window, and up to three chunks in the member.
    let sent = streaming.member.sent_bytes();
    assert!(sent < 8 * (24 << 20), "{sent}");
    let rest: Vec<usize> = stream::iter(unread)
        .map(Ok::<_, StoreError>)
        .map_ok(async |pages| Ok(all(pages).await?.len()))
        .try_buffer_unordered(8)
        .try_collect()
        .await
        .expect("all keys");
    assert_eq!(rest, [54; 8]);
}

struct EmptyIndexer;

impl Indexer for EmptyIndexer {
    fn fields(&self) -> &[binnacle_meta::Text] {
        &[]
    }

    fn index(&self, _: &[u8], _: &Bytes, _: Revision) -> Result<Attrs, IndexError> {
        Ok(Attrs::default())
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn caches_fill_from_streams_that_fail() {
    let (streaming, _) = StreamTest::with_history().await;
    let store = Arc::clone(&streaming.store);
    // Only the first is sure to fail: the revision of a read may be newer than the compaction.
    streaming.member.fail([Fault::Break(2, Code::Unavailable), Fault::Compact(1), Fault::End(3)]);
    let cache = Cache::new(store.clone(), "/k/", Arc::new(EmptyIndexer), WindowLimits::default());
    let soon = tokio::time::Instant::now() + TIMEOUT;
    // The compaction concerns the revision of the cache's read.
    let writes = async {
        for n in 0..50 {
            write(&*store, &key(n), Op::Put { value: Bytes::from(n.to_string()), lease: None }).await;
        }
    };
    let (filled, ()) = tokio::join!(cache.wait_consistent(soon), writes);
    assert!(filled.is_ok());
    let snapshot = cache.wait_consistent(soon).await.expect("a filled cache");
    let stored = all(pages(&*store, Revision(0))).await.expect("all keys");
    let stored: Vec<_> = stored.iter().map(|kv| (kv.key.slice(3..), kv.mod_revision)).collect();
    let everything = cache.selection(Interest::default());
    let cached = snapshot.iter(&everything, "").map(|entry| (Bytes::from(entry.path().to_owned()), entry.revision()));
    assert!(cached.collect::<Vec<_>>() == stored);
    assert!(streaming.member.calls() > 1, "{}", streaming.member.calls());
}
