//! Leases, and the deletion of their keys.

use std::sync::Arc;
use std::time::Duration;

use super::{Reader, bytes, delete, get, list, pairs, put, put_with_lease};
use crate::{Event, Expect, LeaseId, Op, Store, StoreError, Txn};

/// Revoking a lease deletes all its keys at once, with the same events as other deletions.
pub async fn revoking_lease_deletes_its_keys(store: Arc<dyn Store>) {
    let lease = store.grant_lease(3600).await.expect("a lease");
    put_with_lease(&*store, "/l/a", lease).await;
    put_with_lease(&*store, "/l/b", lease).await;
    let last = put(&*store, "/l/c", "stays").await;
    assert_eq!(get(&*store, "/l/a").await.expect("the key").lease, Some(lease));
    let mut reader = Reader::open(&store, "/l/", last).await;
    store.revoke_lease(lease).await.expect("a revocation");
    assert_eq!((get(&*store, "/l/a").await, get(&*store, "/l/b").await), (None, None));
    assert!(get(&*store, "/l/c").await.is_some());
    let events = reader.message().await;
    let deleted: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Delete { key, revision, previous } => {
                assert_eq!(revision.0, last.0 + 1, "one revision for all");
                assert_eq!(previous.as_ref().and_then(|kv| kv.lease), Some(lease));
                key.clone()
            }
            Event::Put { kv, .. } => panic!("{:?} was put", kv.key),
        })
        .collect();
    assert_eq!(deleted, [bytes("/l/a"), bytes("/l/b")], "all changes of one revision stand in one message");
    assert!(matches!(store.revoke_lease(lease).await, Err(StoreError::LeaseNotFound)));
}

/// A lease expires automatically at the end of its TTL.
pub async fn expired_lease_deletes_its_keys(store: Arc<dyn Store>) {
    let short = store.grant_lease(1).await.expect("a lease");
    let long = store.grant_lease(3600).await.expect("a lease");
    let start = put_with_lease(&*store, "/l/short", short).await;
    put_with_lease(&*store, "/l/long", long).await;
    let mut reader = Reader::open(&store, "/l/short", start).await;
    match reader.next().await {
        Event::Delete { key, previous, .. } => {
            assert_eq!(key, bytes("/l/short"));
            assert_eq!(previous.map(|kv| kv.mod_revision), Some(start));
        }
        Event::Put { .. } => panic!("it was put"),
    }
    assert_eq!(get(&*store, "/l/short").await, None);
    assert!(get(&*store, "/l/long").await.is_some());
}

/// Requests for a lease that was never granted fail.
pub async fn rejects_unknown_lease(store: Arc<dyn Store>) {
    let op = Op::Put { value: bytes("x"), lease: Some(LeaseId(4711)) };
    let answer = store.txn(Txn { key: bytes("/l/a"), expect: Expect::Anything, op }).await;
    assert!(matches!(answer, Err(StoreError::LeaseNotFound)), "{answer:?}");
    assert_eq!(get(&*store, "/l/a").await, None);
    assert!(matches!(store.revoke_lease(LeaseId(4711)).await, Err(StoreError::LeaseNotFound)));
}

/// A lease reports its remaining time.
pub async fn lease_has_remaining_time(store: Arc<dyn Store>) {
    let lease = store.grant_lease(3600).await.expect("a lease");
    let left = store.lease_remaining(lease).await.expect("what is left");
    assert!(left <= Duration::from_secs(3600), "{left:?}");
    assert!(left > Duration::from_secs(3500), "{left:?}");
    store.revoke_lease(lease).await.expect("a revocation");
    assert!(matches!(store.lease_remaining(lease).await, Err(StoreError::LeaseNotFound)));
}

/// Only the most recent put determines the lease of a key.
pub async fn newest_put_sets_lease_of_key(store: Arc<dyn Store>) {
    let first = store.grant_lease(3600).await.expect("a lease");
    let second = store.grant_lease(3600).await.expect("a lease");
    assert_ne!(first, second);
    put_with_lease(&*store, "/l/moved", first).await;
    put_with_lease(&*store, "/l/freed", first).await;
    put_with_lease(&*store, "/l/gone", first).await;
    put_with_lease(&*store, "/l/moved", second).await;
    put(&*store, "/l/freed", "x").await;
    delete(&*store, "/l/gone").await;
    put(&*store, "/l/gone", "again").await;
    store.revoke_lease(first).await.expect("a revocation");
    assert_eq!(get(&*store, "/l/moved").await.expect("the key").lease, Some(second));
    assert_eq!(get(&*store, "/l/freed").await.expect("the key").lease, None);
    assert!(get(&*store, "/l/gone").await.is_some());
    store.revoke_lease(second).await.expect("a revocation");
    assert_eq!(get(&*store, "/l/moved").await, None);
}

/// A put while the key's lease is being revoked either fails or is deleted with the lease.
pub async fn put_during_revocation_leaves_no_key(store: Arc<dyn Store>) {
    for round in 0..20 {
        let lease = store.grant_lease(3600).await.expect("a lease");
        let put = |n: usize| {
            let op = Op::Put { value: bytes("x"), lease: Some(lease) };
            store.txn(Txn { key: bytes(format!("/l/{round}/{n}")), expect: Expect::Anything, op })
        };
        let before = futures::future::join_all((0..4).map(put));
        let after = futures::future::join_all((4..8).map(put));
        let (before, revoked, after) = futures::join!(before, store.revoke_lease(lease), after);
        revoked.expect("a revocation");
        for answer in before.into_iter().chain(after) {
            assert!(matches!(answer, Ok(_) | Err(StoreError::LeaseNotFound)), "{answer:?}");
        }
        let left = list(&*store, &format!("/l/{round}/"), None, 0).await;
        assert_eq!(pairs(&left.kvs), [], "no key is left under a lease that is gone");
    }
}
