//! Writes: their revisions and conditions.

use std::sync::Arc;

use bytes::Bytes;

use super::{bytes, delete, delete_if, done, get, put, put_if, text, unmet};
use crate::{Expect, Op, Revision, Store, Txn, TxnResponse};

/// Each write gets the next revision, for any key.
pub async fn each_write_gets_the_next_revision(store: Arc<dyn Store>) {
    let start = store.current_revision().await.expect("a revision");
    assert!(start >= Revision(1), "0 stands for none");
    for (n, key) in (1..).zip(["/t/a", "/t/b", "/t/a", "/t/c"]) {
        assert_eq!(put(&*store, key, "x").await, Revision(start.0 + n));
        assert_eq!(store.current_revision().await.expect("a revision"), Revision(start.0 + n));
    }
    assert_eq!(delete(&*store, "/t/a").await, Revision(start.0 + 5));
    let (_, revision) = store.get(bytes("/t/b"), None).await.expect("a read");
    assert_eq!(revision, Revision(start.0 + 5));
}

/// A key has the revisions of its creation and of its last write.
pub async fn key_has_create_and_mod_revision(store: Arc<dyn Store>) {
    let created = put(&*store, "/t/a", "1").await;
    let updated = put(&*store, "/t/a", "2").await;
    let kv = get(&*store, "/t/a").await.expect("the key exists");
    assert_eq!((kv.create_revision, kv.mod_revision, text(&kv.value)), (created, updated, "2".to_owned()));
    assert_eq!((text(&kv.key), kv.lease), ("/t/a".to_owned(), None));
    delete(&*store, "/t/a").await;
    assert_eq!(get(&*store, "/t/a").await, None);
    let again = put(&*store, "/t/a", "3").await;
    let kv = get(&*store, "/t/a").await.expect("the key exists");
    assert_eq!((kv.create_revision, kv.mod_revision), (again, again));
}

/// A write is only executed if its condition holds.
pub async fn writes_only_if_expectation_holds(store: Arc<dyn Store>) {
    let (first, previous) = done(put_if(&*store, "/t/a", Expect::Absent, "1").await);
    assert_eq!(previous, None);

    let (current, revision) = unmet(put_if(&*store, "/t/a", Expect::Absent, "no").await);
    assert_eq!(current.map(|kv| (kv.mod_revision, text(&kv.value))), Some((first, "1".to_owned())));
    assert_eq!(revision, first);

    let (second, previous) = done(put_if(&*store, "/t/a", Expect::ModRevision(first), "2").await);
    assert_eq!(previous.map(|kv| (kv.mod_revision, text(&kv.value))), Some((first, "1".to_owned())));

    let (current, _) = unmet(put_if(&*store, "/t/a", Expect::ModRevision(first), "no").await);
    assert_eq!(current.map(|kv| kv.mod_revision), Some(second));
    let (current, _) = unmet(delete_if(&*store, "/t/a", Expect::ModRevision(first)).await);
    assert_eq!(current.map(|kv| text(&kv.value)), Some("2".to_owned()));
    let (current, _) = unmet(delete_if(&*store, "/t/a", Expect::Absent).await);
    assert_eq!(current.map(|kv| kv.mod_revision), Some(second));

    let (current, revision) = unmet(put_if(&*store, "/t/none", Expect::ModRevision(first), "no").await);
    assert_eq!((current, revision), (None, second), "an expectation that is not met costs no revision");

    let (third, previous) = done(delete_if(&*store, "/t/a", Expect::ModRevision(second)).await);
    assert_eq!(third, Revision(second.0 + 1));
    assert_eq!(previous.map(|kv| (kv.create_revision, kv.mod_revision)), Some((first, second)));
    let (current, _) = unmet(put_if(&*store, "/t/a", Expect::ModRevision(second), "no").await);
    assert_eq!(current, None);
    done(put_if(&*store, "/t/a", Expect::Absent, "3").await);
}

/// Deleting an absent key changes nothing, not even the revision.
pub async fn deleting_absent_key_changes_nothing(store: Arc<dyn Store>) {
    let before = put(&*store, "/t/a", "1").await;
    for expect in [Expect::Anything, Expect::Absent] {
        let (revision, previous) = done(delete_if(&*store, "/t/none", expect).await);
        assert_eq!((revision, previous), (before, None), "{expect:?}");
    }
    assert_eq!(store.current_revision().await.expect("a revision"), before);
}

/// Empty values, binary keys, and an object of the largest usual size are stored.
pub async fn stores_empty_binary_and_large_values(store: Arc<dyn Store>) {
    let large = Bytes::from(vec![0xa5; 1 << 20]);
    let cases = [
        (Bytes::from_static(b"/t/empty"), Bytes::new()),
        (Bytes::from_static(b"/t/\x00\xff\x80"), Bytes::from_static(b"\x00\xff")),
        (Bytes::from_static(b"\xff"), Bytes::from_static(b"last")),
        (Bytes::from_static(b"/t/large"), large),
    ];
    for (key, value) in cases {
        let op = Op::Put { value: value.clone(), lease: None };
        done(store.txn(Txn { key: key.clone(), expect: Expect::Absent, op }).await.expect("a put"));
        let (kv, _) = store.get(key.clone(), None).await.expect("a read");
        let kv = kv.expect("the key exists");
        assert!(kv.value == value && kv.key == key, "{key:?}");
    }
}

/// Concurrent writers lose no increment, and each increment has its own revision.
pub async fn concurrent_writers_lose_no_increment(store: Arc<dyn Store>) {
    const WRITERS: usize = 16;
    const INCREMENTS: usize = 25;
    put(&*store, "/t/counter", "0").await;
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        let store = store.clone();
        writers.push(tokio::spawn(async move {
            let mut revisions = Vec::new();
            let mut current = get(&*store, "/t/counter").await.expect("the counter");
            while revisions.len() < INCREMENTS {
                let next = text(&current.value).parse::<u64>().expect("a number") + 1;
                let expect = Expect::ModRevision(current.mod_revision);
                match put_if(&*store, "/t/counter", expect, &next.to_string()).await {
                    TxnResponse::Done { revision, .. } => {
                        revisions.push(revision);
                        current = get(&*store, "/t/counter").await.expect("the counter");
                        assert!(current.mod_revision >= revision, "a write is seen by those that follow it");
                    }
                    TxnResponse::Unmet { current: found, .. } => current = found.expect("the counter"),
                }
            }
            revisions
        }));
    }
    let mut revisions = Vec::new();
    for writer in writers {
        revisions.extend(writer.await.expect("a writer"));
    }
    let total = revisions.len();
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), total, "no revision is given twice");
    let counter = get(&*store, "/t/counter").await.expect("the counter");
    assert_eq!(text(&counter.value), (WRITERS * INCREMENTS).to_string());
}

/// Of several concurrent creates of one key, exactly one succeeds; the others get its value.
pub async fn concurrent_creates_have_one_winner(store: Arc<dyn Store>) {
    for round in 0..20 {
        let key = format!("/t/{round}");
        let creates = (0..8).map(|n| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { put_if(&*store, &key, Expect::Absent, &n.to_string()).await })
        });
        let (mut won, mut seen) = (Vec::new(), Vec::new());
        for create in futures::future::join_all(creates).await {
            match create.expect("a create") {
                TxnResponse::Done { revision, .. } => won.push(revision),
                TxnResponse::Unmet { current, .. } => seen.push(current.expect("the key").mod_revision),
            }
        }
        assert_eq!(won.len(), 1, "{key}");
        assert!(seen.iter().all(|revision| *revision == won[0]), "{key}");
    }
}
