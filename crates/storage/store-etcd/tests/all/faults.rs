//! Members that crash, hang, change roles or lose their data, during writes and watches.

use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{
    Event, Expect, Op, Revision, Store, StoreError, Txn, TxnResponse, Watch, WatchMessage, prefix_range,
};
use binnacle_store_etcd::WatchLimits;
use binnacle_testkit::{Etcd, TIMEOUT};
use bytes::Bytes;
use futures::StreamExt;

use crate::support::open;

async fn put(store: &dyn Store, key: &str) -> Result<Revision, StoreError> {
    change(store, key, Op::Put { value: Bytes::from_static(b"x"), lease: None }).await
}

async fn change(store: &dyn Store, key: &str, op: Op) -> Result<Revision, StoreError> {
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    match store.txn(txn).await? {
        TxnResponse::Done { revision, .. } => Ok(revision),
        TxnResponse::Unmet { .. } => panic!("nothing was expected"),
    }
}

/// Writes until `count` writes were acknowledged, ignoring failures. Returns the acknowledged revisions, and the number
/// of failures.
async fn write(store: Arc<dyn Store>, count: usize) -> (Vec<Revision>, usize) {
    let (mut acknowledged, mut failed) = (Vec::new(), 0);
    while acknowledged.len() < count {
        match put(&*store, &format!("/k/{}", acknowledged.len() % 10)).await {
            Ok(revision) => acknowledged.push(revision),
            Err(StoreError::Unavailable(_)) => failed += 1,
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    (acknowledged, failed)
}

async fn next(watch: &mut Watch) -> Vec<Event> {
    loop {
        let message = tokio::time::timeout(TIMEOUT, watch.messages.next()).await.expect("news");
        match message.expect("the watch goes on").expect("the watch goes on") {
            WatchMessage::Events(events) => return events,
            WatchMessage::Progress(_) => {}
        }
    }
}

/// Reads events up to a revision. Each revision is one write with one event.
async fn read_gapless(watch: &mut Watch, after: Revision, last: Revision) {
    let mut expected = after.0 + 1;
    while expected <= last.0 {
        for event in next(watch).await {
            assert_eq!(event.revision().0, expected, "no event is lost, doubled or out of order");
            expected += 1;
        }
    }
}

/// Runs `fault` during writes and a watch, and checks that nothing is lost.
async fn assert_no_loss(endpoints: Vec<String>, fault: impl AsyncFnOnce()) -> usize {
    let store: Arc<dyn Store> = Arc::new(open(endpoints, WatchLimits::default()));
    let start = put(&*store, "/k/start").await.expect("a write");
    let mut watch = store.watch(prefix_range(b"/"), start).await.expect("a watch");
    let writers: Vec<_> = (0..4).map(|_| tokio::spawn(write(store.clone(), 100))).collect();
    fault().await;
    let (mut acknowledged, mut failed) = (Vec::new(), 0);
    for writer in writers {
        let (revisions, failures) =
            tokio::time::timeout(4 * TIMEOUT, writer).await.expect("in time").expect("a writer");
        acknowledged.extend(revisions);
        failed += failures;
    }
    acknowledged.sort();
    acknowledged.dedup();
    assert_eq!(acknowledged.len(), 400, "each write has a revision of its own");
    let last = tokio::time::timeout(TIMEOUT, async {
        loop {
            if let Ok(revision) = store.current_revision().await {
                return revision;
            }
        }
    });
    let last = last.await.expect("the cluster answers");
    assert!(acknowledged.iter().all(|revision| *revision <= last));
    read_gapless(&mut watch, start, last).await;
    let barrier = tokio::time::timeout(TIMEOUT, watch.control.barrier()).await.expect("in time").expect("a barrier");
    assert!(barrier.current >= last);
    failed
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn survives_death_of_leader() {
    let mut etcd = Etcd::cluster(3);
    let endpoints = etcd.endpoints();
    assert_no_loss(endpoints, async || {
        tokio::task::block_in_place(|| {
            let leader = etcd.leader();
            etcd.kill(leader);
            // The other members elect a new leader, and later the old one is available again.
            std::thread::sleep(Duration::from_millis(500));
            etcd.restart(leader);
        });
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn survives_hanging_members() {
    let etcd = Etcd::cluster(3);
    assert_no_loss(etcd.endpoints(), async || {
        for member in 0..3 {
            etcd.freeze(member);
            tokio::time::sleep(Duration::from_secs(3)).await;
            etcd.thaw(member);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn survives_restart_of_only_member() {
    let mut etcd = Etcd::single();
    let endpoints = etcd.endpoints();
    let failed = assert_no_loss(endpoints, async || {
        for _ in 0..3 {
            tokio::task::block_in_place(|| etcd.restart(0));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    println!("{failed} writes were not acknowledged");
}

/// Each of two stores on one cluster reads the acknowledged writes of the other.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn two_stores_see_each_others_writes() {
    let etcd = Etcd::cluster(3);
    let stores = [0, 1].map(|_| open(etcd.endpoints(), WatchLimits::default()));
    let start = put(&stores[0], "/k/start").await.expect("a write");
    let mut watches = Vec::new();
    for store in &stores {
        watches.push(store.watch(prefix_range(b"/"), start).await.expect("a watch"));
    }
    for round in 0..100 {
        let (here, there) = (round % 2, (round + 1) % 2);
        let written = put(&stores[here], "/k/a").await.expect("a write");
        assert!(stores[there].current_revision().await.expect("a revision") >= written);
        let (kv, _) = stores[there].get(Bytes::from_static(b"/k/a"), None).await.expect("a read");
        assert_eq!(kv.map(|kv| kv.mod_revision), Some(written));
        let barrier = watches[there].control.barrier().await.expect("a barrier");
        assert_eq!(barrier.last_event, written);
    }
    for watch in &mut watches {
        read_gapless(watch, start, Revision(start.0 + 100)).await;
    }
}

/// The cluster's data is replaced with older data: watches end instead of waiting for revisions of the replaced data.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn ends_watches_when_data_is_older() {
    let mut etcd = Etcd::single();
    let store = open(etcd.endpoints(), WatchLimits::default());
    for _ in 0..20 {
        put(&store, "/k/a").await.expect("a write");
    }
    let now = store.current_revision().await.expect("a revision");
    let mut watch = store.watch(prefix_range(b"/"), now).await.expect("a watch");
    watch.control.barrier().await.expect("a barrier");
    tokio::task::block_in_place(|| etcd.wipe(0));
    let ended = tokio::time::timeout(TIMEOUT, async {
        while watch.control.barrier().await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        watch.messages.next().await
    });
    let ended = ended.await.expect("the watch ends");
    assert!(matches!(ended, Some(Err(_)) | None), "{ended:?}");
    let written = put(&store, "/k/a").await.expect("a write");
    let mut watch = store.watch(prefix_range(b"/"), Revision(written.0 - 1)).await.expect("a watch");
    assert_eq!(next(&mut watch).await[0].revision(), written);
}

/// The data is replaced with older data while a watch is still reading history outside of the hub: it ends like the
/// others.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn ends_watch_that_reads_history_when_data_is_older() {
    let mut etcd = Etcd::single();
    // The window holds one event, and a few events fill a buffer.
    let limits = WatchLimits { window_revisions: 1, window_bytes: 1, buffer_events: 4, buffer_bytes: 1 << 20 };
    let store = open(etcd.endpoints(), limits);
    let before = store.current_revision().await.expect("a revision");
    for _ in 0..50 {
        put(&store, "/k/a").await.expect("a write");
    }
    let mut live = store.watch(prefix_range(b"/"), Revision(before.0 + 50)).await.expect("a watch");
    live.control.barrier().await.expect("a barrier");
    // This watch has unread events.
    let mut late = store.watch(prefix_range(b"/"), before).await.expect("a watch");
    assert_eq!(next(&mut late).await[0].revision(), Revision(before.0 + 1));
    tokio::task::block_in_place(|| etcd.wipe(0));
    let ended = tokio::time::timeout(TIMEOUT, async {
        // The reader sends no requests; the hub detects it automatically.
        loop {
            match late.messages.next().await {
                Some(Ok(_)) => {}
                ended => return ended,
            }
        }
    });
    let ended = ended.await.expect("the watch that read history ends");
    assert!(matches!(ended, Some(Err(_)) | None), "{ended:?}");
    let ended = tokio::time::timeout(TIMEOUT, async { while let Some(Ok(_)) = live.messages.next().await {} }).await;
    ended.expect("the other watch ends");
}

/// While the hub is not connected, the cluster's data is replaced with older data, and other clients write beyond the
/// previous revision: only the last written value shows the difference.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn detects_older_data_beyond_previous_revision() {
    let mut etcd = Etcd::forgetful();
    for last in ["put", "delete"] {
        let store = open(etcd.endpoints(), WatchLimits::default());
        let mut now = store.current_revision().await.expect("a revision");
        let mut watch = store.watch(prefix_range(b"/"), now).await.expect("a watch");
        put(&store, "/k/a").await.expect("a write");
        now = put(&store, "/k/b").await.expect("a write");
        if last == "delete" {
            now = change(&store, "/k/b", Op::Delete).await.expect("a deletion");
        }
        while watch.control.barrier().await.expect("a barrier").last_event < now {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::task::block_in_place(|| {
            etcd.cut_off(0, true);
            etcd.wipe(0);
            for n in 0..now.0 + 10 {
                etcd.put("/k/b", n.to_string().as_bytes());
            }
            etcd.heal();
        });
        let ended =
            tokio::time::timeout(TIMEOUT, async { while let Some(Ok(_)) = watch.messages.next().await {} }).await;
        ended.expect("the watch ends");
    }
}
