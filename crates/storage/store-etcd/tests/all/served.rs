//! Reads of an embedded store through its socket return the same as direct reads.

use std::sync::Arc;

use binnacle_store::{
    Count, Event, Expect, Op, Pages, RangeRequest, Revision, Store, StoreError, Txn, Watch, WatchMessage, prefix_range,
};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_store_etcd::{EtcdStore, WatchLimits, serve};
use bytes::Bytes;
use futures::StreamExt;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use crate::support::open;

struct ServedStore {
    local: Arc<EmbeddedStore>,
    remote: EtcdStore,
    task: JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl Drop for ServedStore {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn served() -> ServedStore {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("admin.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let local = Arc::new(EmbeddedStore::ephemeral());
    let task = tokio::spawn(serve(local.clone(), listener));
    let remote = open(vec![format!("unix://{}", path.display())], WatchLimits::default());
    ServedStore { local, remote, task, _dir: dir }
}

async fn write(store: &dyn Store, key: &str, op: Op) {
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    store.txn(txn).await.expect("a write");
}

async fn put(store: &dyn Store, key: &str, value: usize) {
    write(store, key, Op::Put { value: Bytes::from(value.to_string()), lease: None }).await;
}

/// Returns all events up to the store's current revision.
async fn events(watch: &mut Watch) -> Vec<Event> {
    let last = watch.control.barrier().await.expect("a barrier").last_event;
    let mut events: Vec<Event> = Vec::new();
    while events.last().map_or(Revision(0), Event::revision) < last {
        match watch.messages.next().await.expect("the watch goes on").expect("the watch goes on") {
            WatchMessage::Events(more) => events.extend(more),
            WatchMessage::Progress(_) => {}
        }
    }
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_reads_match_local_reads() {
    let served = served();
    let (local, remote) = (&*served.local, &served.remote);
    for n in 0..30 {
        put(local, &format!("/k/{}", n % 12), n).await;
    }
    let lease = local.grant_lease(3600).await.expect("a lease");
    write(local, "/k/leased", Op::Put { value: Bytes::from_static(b"x"), lease: Some(lease) }).await;
    write(local, "/k/3", Op::Delete).await;
    local.compact(Revision(10)).await.expect("a compaction");
    assert_eq!(
        remote.current_revision().await.expect("a revision"),
        local.current_revision().await.expect("a revision")
    );
    assert_eq!(remote.compacted_revision().await.expect("a revision"), Revision(10));
    for (revision, limit, count) in
        [(None, 0, Count::All), (None, 5, Count::All), (Some(Revision(20)), 0, Count::All), (None, 0, Count::Only)]
    {
        let request = RangeRequest { range: prefix_range(b"/k/"), revision, limit, count };
        let local_response = local.range(request.clone()).await.expect("a range");
        let answer = remote.range(request).await.expect("a range");
        assert_eq!(
            (local_response.kvs, local_response.more, local_response.count, local_response.revision),
            (answer.kvs, answer.more, answer.count, answer.revision)
        );
    }
    for (key, revision) in [("/k/1", None), ("/k/1", Some(Revision(15))), ("/k/3", None), ("/k/leased", None)] {
        let key = Bytes::from_static(key.as_bytes());
        let local_response = local.get(key.clone(), revision).await.expect("a read");
        assert_eq!(remote.get(key, revision).await.expect("a read"), local_response);
    }
    let left = remote.lease_remaining(lease).await.expect("the remaining time").as_secs();
    assert!((3500..=3600).contains(&left), "{left}");
    local.revoke_lease(lease).await.expect("a revocation");
    assert!(matches!(remote.lease_remaining(lease).await, Err(StoreError::LeaseNotFound)));
    let old = RangeRequest { range: prefix_range(b"/k/"), revision: Some(Revision(5)), limit: 0, count: Count::All };
    assert!(matches!(remote.range(old).await, Err(StoreError::Compacted { compacted: Revision(10) })));
    // Writes are rejected.
    let txn = Txn { key: Bytes::from_static(b"/k/1"), expect: Expect::Anything, op: Op::Delete };
    assert!(matches!(remote.txn(txn).await, Err(StoreError::Unavailable(_))));
    assert!(remote.compact(Revision(20)).await.is_err());
    assert!(remote.grant_lease(10).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_stream_matches_local_pages() {
    let served = served();
    let (local, remote) = (&*served.local, &served.remote);
    for n in 0..3000 {
        put(local, &format!("/k/{}", n % 2500), n).await;
    }
    let revision = Revision(2800);
    local.compact(Revision(2700)).await.expect("a compaction");
    let (mut paged, mut streamed) = (Vec::new(), Vec::new());
    let mut pages = Pages::new(local, prefix_range(b"/k/"), revision);
    while let Some(page) = pages.next().await.expect("a page") {
        paged.extend(page);
    }
    let mut chunks = remote.stream(prefix_range(b"/k/"), revision).await.expect("a stream").expect("a stream");
    while let Some(chunk) = chunks.next().await {
        streamed.extend(chunk.expect("a chunk"));
    }
    assert_eq!(paged.len(), 2500);
    assert!(paged == streamed);
    let compacted = remote.stream(prefix_range(b"/k/"), Revision(2600)).await.err();
    assert!(matches!(compacted, Some(StoreError::Compacted { compacted: Revision(2700) })), "{compacted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_watch_matches_local_watch_during_writes() {
    let served = served();
    let local = served.local.clone();
    for n in 0..500 {
        put(&*local, &format!("/k/{}", n % 7), n).await;
    }
    local.compact(Revision(100)).await.expect("a compaction");
    assert!(matches!(
        served.remote.watch(prefix_range(b"/k/"), Revision(50)).await,
        Err(StoreError::Compacted { compacted: Revision(100) })
    ));
    let mut local_watch = local.watch(prefix_range(b"/k/"), Revision(100)).await.expect("a watch");
    let mut remote_watch = served.remote.watch(prefix_range(b"/k/"), Revision(100)).await.expect("a watch");
    let writer = {
        let local = local.clone();
        tokio::spawn(async move {
            for n in 0..2000 {
                match n % 5 {
                    4 => write(&*local, &format!("/k/{}", n % 7), Op::Delete).await,
                    _ => put(&*local, &format!("/k/{}", n % 7), n).await,
                }
            }
        })
    };
    let mut remote_events = events(&mut remote_watch).await;
    writer.await.expect("the writer");
    remote_events.extend(events(&mut remote_watch).await);
    let local_events = events(&mut local_watch).await;
    let text = |events: &[Event]| events.iter().map(|event| format!("{event:?}")).collect::<Vec<_>>();
    assert!(local_events.len() > 2000);
    assert!(text(&local_events) == text(&remote_events));
}
