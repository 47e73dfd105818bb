//! An embedded store, read through its socket, returns the same as directly.

use std::sync::Arc;

use binnacle_store::{
    Event, Expect, Op, RangeRequest, Revision, Store, StoreError, Txn, Watch, WatchMessage, prefix_range,
};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_store_etcd::{EtcdStore, WatchLimits, serve};
use bytes::Bytes;
use futures::StreamExt;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

use crate::support::open;

struct Served {
    own: Arc<EmbeddedStore>,
    far: EtcdStore,
    task: JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn served() -> Served {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("admin.sock");
    let listener = UnixListener::bind(&path).expect("a socket");
    let own = Arc::new(EmbeddedStore::ephemeral());
    let task = tokio::spawn(serve(own.clone(), listener));
    let far = open(vec![format!("unix://{}", path.display())], WatchLimits::default());
    Served { own, far, task, _dir: dir }
}

async fn write(store: &dyn Store, key: &str, op: Op) {
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    store.txn(txn).await.expect("a write");
}

async fn put(store: &dyn Store, key: &str, value: usize) {
    write(store, key, Op::Put { value: Bytes::from(value.to_string()), lease: None }).await;
}

/// Returns all events up to the store's present revision.
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
async fn reads_are_the_same() {
    let served = served();
    let (own, far) = (&*served.own, &served.far);
    for n in 0..30 {
        put(own, &format!("/k/{}", n % 12), n).await;
    }
    let lease = own.grant_lease(3600).await.expect("a lease");
    write(own, "/k/leased", Op::Put { value: Bytes::from_static(b"x"), lease: Some(lease) }).await;
    write(own, "/k/3", Op::Delete).await;
    own.compact(Revision(10)).await.expect("a compaction");
    assert_eq!(far.current_revision().await.expect("a revision"), own.current_revision().await.expect("a revision"));
    assert_eq!(far.compacted_revision().await.expect("a revision"), Revision(10));
    for (revision, limit, count_only) in
        [(None, 0, false), (None, 5, false), (Some(Revision(20)), 0, false), (None, 0, true)]
    {
        let request = RangeRequest { range: prefix_range(b"/k/"), revision, limit, count_only };
        let near = own.range(request.clone()).await.expect("a range");
        let answer = far.range(request).await.expect("a range");
        assert_eq!(
            (near.kvs, near.more, near.count, near.revision),
            (answer.kvs, answer.more, answer.count, answer.revision)
        );
    }
    for (key, revision) in [("/k/1", None), ("/k/1", Some(Revision(15))), ("/k/3", None), ("/k/leased", None)] {
        let key = Bytes::from_static(key.as_bytes());
        let near = own.get(key.clone(), revision).await.expect("a read");
        assert_eq!(far.get(key, revision).await.expect("a read"), near);
    }
    let left = far.lease_remaining(lease).await.expect("what is left").as_secs();
    assert!((3500..=3600).contains(&left), "{left}");
    own.revoke_lease(lease).await.expect("a revocation");
    assert!(matches!(far.lease_remaining(lease).await, Err(StoreError::LeaseNotFound)));
    let old = RangeRequest { range: prefix_range(b"/k/"), revision: Some(Revision(5)), limit: 0, count_only: false };
    assert!(matches!(far.range(old).await, Err(StoreError::Compacted { compacted: Revision(10) })));
    // Writes are refused.
    let txn = Txn { key: Bytes::from_static(b"/k/1"), expect: Expect::Anything, op: Op::Delete };
    assert!(matches!(far.txn(txn).await, Err(StoreError::Unavailable(_))));
    assert!(far.compact(Revision(20)).await.is_err());
    assert!(far.grant_lease(10).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_tell_the_same_while_somebody_writes() {
    let served = served();
    let own = served.own.clone();
    for n in 0..500 {
        put(&*own, &format!("/k/{}", n % 7), n).await;
    }
    own.compact(Revision(100)).await.expect("a compaction");
    assert!(matches!(
        served.far.watch(prefix_range(b"/k/"), Revision(50)).await,
        Err(StoreError::Compacted { compacted: Revision(100) })
    ));
    let mut near = own.watch(prefix_range(b"/k/"), Revision(100)).await.expect("a watch");
    let mut far = served.far.watch(prefix_range(b"/k/"), Revision(100)).await.expect("a watch");
    let writer = {
        let own = own.clone();
        tokio::spawn(async move {
            for n in 0..2000 {
                match n % 5 {
                    4 => write(&*own, &format!("/k/{}", n % 7), Op::Delete).await,
                    _ => put(&*own, &format!("/k/{}", n % 7), n).await,
                }
            }
        })
    };
    let mut heard = events(&mut far).await;
    writer.await.expect("the writer");
    heard.extend(events(&mut far).await);
    let told = events(&mut near).await;
    let text = |events: &[Event]| events.iter().map(|event| format!("{event:?}")).collect::<Vec<_>>();
    assert!(told.len() > 2000);
    assert!(text(&told) == text(&heard));
}
