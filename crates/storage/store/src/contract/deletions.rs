//! Deletion of ranges.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::future::join_all;

use super::{Reader, bytes, get, list, pairs, put, put_if, put_with_lease};
use crate::{Event, Expect, Store, TxnResponse, prefix_range};

/// More than an engine deletes at one revision.
const MANY: usize = 1300;

/// Only keys with the prefix are deleted. Watches get an event with the previous value for each.
pub async fn deletes_exactly_the_keys_of_a_range(store: Arc<dyn Store>) {
    for key in ["/d", "/d.", "/d/a", "/d/b/c", "/d/b/d", "/d0", "/e"] {
        put(&*store, key, &format!("value of {key}")).await;
    }
    let last = put(&*store, "/d/b", "replaced later").await;
    let newest = put(&*store, "/d/b", "newest").await;
    let mut reader = Reader::open(&store, "/d", newest).await;
    assert_eq!(store.delete_range(prefix_range(b"/d/")).await.expect("a deletion"), 4);
    let left = list(&*store, "/", None, 0).await;
    let left: Vec<_> = pairs(&left.kvs).into_iter().map(|(key, _)| key).collect();
    assert_eq!(left, ["/d", "/d.", "/d0", "/e"]);
    let mut deleted = BTreeSet::new();
    while deleted.len() < 4 {
        match reader.next().await {
            Event::Delete { key, revision, previous } => {
                assert!(revision > newest);
                deleted.insert((key, previous.expect("the deleted value").value));
            }
            Event::Put { kv, .. } => panic!("{:?} was put", kv.key),
        }
    }
    let want = ["/d/a", "/d/b/c", "/d/b/d"].map(|key| (bytes(key), bytes(format!("value of {key}"))));
    assert_eq!(deleted, want.into_iter().chain([(bytes("/d/b"), bytes("newest"))]).collect());
    // The past is not deleted, and the keys can be created again.
    let before = list(&*store, "/d/", Some(last), 0).await;
    assert_eq!(before.kvs.len(), 4);
    let again = put_if(&*store, "/d/a", Expect::Absent, "again").await;
    assert!(matches!(again, TxnResponse::Done { .. }), "{again:?}");
}

/// A range with more keys than a batch is deleted completely, each key once.
pub async fn deletes_more_keys_than_a_batch_has(store: Arc<dyn Store>) {
    let names: Vec<_> = (0..MANY).map(|n| format!("/many/{n:05}")).collect();
    join_all(names.iter().map(|name| put(&*store, name, "x"))).await;
    let last = put(&*store, "/other", "stays").await;
    let mut reader = Reader::open(&store, "/many/", last).await;
    assert_eq!(store.delete_range(prefix_range(b"/many/")).await.expect("a deletion"), MANY as u64);
    assert_eq!(list(&*store, "/many/", None, 0).await.count, 0);
    assert!(get(&*store, "/other").await.is_some());
    let mut deleted = Vec::new();
    while deleted.len() < MANY {
        deleted.push(reader.next().await.key().clone());
    }
    assert_eq!(deleted, names.iter().map(bytes).collect::<Vec<_>>());
}

/// Nothing is written if there is nothing to delete.
pub async fn deleting_an_empty_range_changes_nothing(store: Arc<dyn Store>) {
    let last = put(&*store, "/d0", "stays").await;
    assert_eq!(store.delete_range(prefix_range(b"/d/")).await.expect("a deletion"), 0);
    assert_eq!(store.current_revision().await.expect("a revision"), last);
}

/// A deleted key does not belong to its lease any more.
pub async fn deletes_keys_of_leases(store: Arc<dyn Store>) {
    let lease = store.grant_lease(3600).await.expect("a lease");
    put_with_lease(&*store, "/d/a", lease).await;
    put_with_lease(&*store, "/l/b", lease).await;
    assert_eq!(store.delete_range(prefix_range(b"/d/")).await.expect("a deletion"), 1);
    put(&*store, "/d/a", "without a lease").await;
    store.revoke_lease(lease).await.expect("a revocation");
    assert!(get(&*store, "/d/a").await.is_some());
    assert_eq!(get(&*store, "/l/b").await, None);
}
