//! Ordered writes while members are killed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{Count, Expect, Op, RangeRequest, Revision, Store, StoreError, Txn, WatchMessage, prefix_range};
use binnacle_store_etcd::{EtcdStore, Sequence, WatchLimits};
use binnacle_testkit::{Etcd, TIMEOUT};
use bytes::Bytes;
use futures::StreamExt;

use crate::support::open;

/// Returns a write of a key that is used several times: put, put and deleted.
fn write(n: usize) -> (Bytes, Op) {
    let op = match n % 3 {
        2 => Op::Delete,
        // Some are larger than the limit of one transaction.
        _ if n.is_multiple_of(97) => Op::Put { value: Bytes::from(format!("{n}{}", "x".repeat(300_000))), lease: None },
        _ => Op::Put { value: Bytes::from(format!("{n}{}", "x".repeat(n % 7 * 1000))), lease: None },
    };
    (Bytes::from(format!("/k/{}", n % 290)), op)
}

async fn begin(store: &Arc<EtcdStore>) -> Sequence {
    Sequence::begin(Arc::clone(store), Bytes::from_static(b"counter"), TIMEOUT).await.expect("it begins")
}

/// Asserts that the last changes of the keys are in the order of the writes, each with its own revision.
async fn assert_order(store: &dyn Store, after: Revision, writes: &[(Bytes, Op)]) {
    let mut last = HashMap::new();
    for (at, (key, op)) in writes.iter().enumerate() {
        last.insert(key.clone(), (at, op.clone()));
    }
    let range = prefix_range(b"/k/");
    let request = RangeRequest { range: range.clone(), revision: None, limit: 0, count: Count::All };
    let kvs = store.range(request).await.expect("a range").kvs;
    for kv in &kvs {
        let (_, op) = &last[&kv.key];
        assert!(*op == Op::Put { value: kv.value.clone(), lease: None }, "{:?} has another value", kv.key);
    }
    let puts = last.values().filter(|(_, op)| *op != Op::Delete).count();
    assert_eq!(kvs.len(), puts);
    // Deletions are in order as well.
    let mut watch = store.watch(range, after).await.expect("a watch");
    let end = watch.control.barrier().await.expect("a barrier").last_event;
    let (mut changes, mut reached) = (HashMap::new(), after);
    while reached < end {
        let message = tokio::time::timeout(TIMEOUT, watch.messages.next()).await.expect("news");
        let WatchMessage::Events(events) = message.expect("it goes on").expect("it goes on") else { continue };
        for event in events {
            reached = event.revision();
            changes.insert(event.key().clone(), reached);
        }
    }
    let mut order: Vec<_> = changes.iter().map(|(key, revision)| (last[key].0, *revision)).collect();
    order.sort_unstable();
    assert_eq!(order.len(), last.len());
    let wrong = order.windows(2).find(|pair| pair[0].1 >= pair[1].1);
    assert_eq!(wrong, None, "two changed places");
}

async fn in_order(mut etcd: Etcd, count: usize, restart_leader: bool) {
    let store = Arc::new(open(etcd.endpoints(), WatchLimits::default()));
    let after = store.current_revision().await.expect("a revision");
    let mut sequence = begin(&store).await;
    let mut expected = Vec::new();
    for n in 0..count {
        let (key, op) = write(n);
        sequence.write(key.clone(), op.clone()).await.expect("it is written");
        expected.push((key, op));
        if restart_leader && n % (count / 4) == count / 8 {
            tokio::task::block_in_place(|| {
                let member = etcd.leader();
                etcd.kill(member);
                etcd.restart(member);
            });
        }
    }
    sequence.flush().await.expect("it is written");
    assert_eq!(sequence.waiting(), 0);
    assert!(sequence.revision() <= store.current_revision().await.expect("a revision"));
    assert_order(&*store, after, &expected).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn executes_writes_in_order() {
    let etcd = Etcd::single();
    in_order(etcd, 1200, false).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn executes_writes_once_while_member_restarts() {
    let etcd = Etcd::single();
    in_order(etcd, 1200, true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn executes_writes_once_while_leader_changes() {
    let etcd = Etcd::cluster(3);
    in_order(etcd, 1200, true).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn new_sequence_ends_previous_one() {
    let etcd = Etcd::single();
    let store = Arc::new(open(etcd.endpoints(), WatchLimits::default()));
    let put = |value: &'static str| Op::Put { value: Bytes::from_static(value.as_bytes()), lease: None };
    let key = || Bytes::from_static(b"/k/a");
    let mut old = begin(&store).await;
    old.write(key(), put("old")).await.expect("it is written");
    old.flush().await.expect("it is written");
    let mut new = begin(&store).await;
    new.write(key(), put("new")).await.expect("it is written");
    new.flush().await.expect("it is written");
    let late = async {
        old.write(key(), put("late")).await?;
        old.flush().await
    };
    let error = late.await.expect_err("it is over");
    assert!(matches!(&error, StoreError::Unavailable(reason) if reason.contains("has taken over")), "{error}");
    new.write(Bytes::from_static(b"/k/b"), put("x")).await.expect("it is written");
    new.flush().await.expect("it is written");
    let (kv, _) = store.get(key(), None).await.expect("a read");
    assert_eq!(kv.expect("the key").value, "new");
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn expired_lease_deletes_its_key() {
    let etcd = Etcd::single();
    let store = Arc::new(open(etcd.endpoints(), WatchLimits::default()));
    let key = |n: usize| Bytes::from(format!("/k/{n}"));
    for n in 0..20 {
        let op = Op::Put { value: Bytes::new(), lease: None };
        store.txn(Txn { key: key(n), expect: Expect::Absent, op }).await.expect("a write");
    }
    let revoked = store.grant_lease(600).await.expect("a lease");
    store.revoke_lease(revoked).await.expect("it ends");
    let mut sequence = begin(&store).await;
    for n in 0..20 {
        let lease = (n % 5 == 2).then_some(revoked);
        sequence.write(key(n), Op::Put { value: Bytes::from_static(b"x"), lease }).await.expect("it is written");
    }
    sequence.flush().await.expect("it is written");
    for n in 0..20 {
        let (kv, _) = store.get(key(n), None).await.expect("a read");
        assert_eq!(kv.map(|kv| kv.value), (n % 5 != 2).then(|| Bytes::from_static(b"x")), "{n}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn fails_when_no_member_answers() {
    let mut etcd = Etcd::single();
    let store = Arc::new(open(etcd.endpoints(), WatchLimits::default()));
    let patience = Duration::from_millis(500);
    let mut sequence = Sequence::begin(store, Bytes::from_static(b"counter"), patience).await.expect("it begins");
    tokio::task::block_in_place(|| etcd.kill(0));
    sequence.write(Bytes::from_static(b"/k/a"), Op::Delete).await.expect("there is room");
    let error = sequence.flush().await.expect_err("nobody answers");
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
}
