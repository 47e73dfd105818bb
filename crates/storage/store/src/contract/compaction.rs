//! Reads at earlier revisions, and the effect of compaction on them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{PATIENCE, bytes, delete, list, pairs, put, text};
use crate::{Revision, Store, StoreError, spawn_compactor};

async fn value_at(store: &dyn Store, key: &str, revision: Revision) -> Option<String> {
    let (kv, _) = store.get(bytes(key), Some(revision)).await.expect("the past can be read");
    kv.map(|kv| text(&kv.value))
}

/// A read at a revision returns the contents at that revision.
pub async fn reads_return_contents_at_revision(store: Arc<dyn Store>) {
    let start = store.current_revision().await.expect("a revision");
    let one = put(&*store, "/h/a", "1").await;
    let two = put(&*store, "/h/a", "2").await;
    let gone = delete(&*store, "/h/a").await;
    let three = put(&*store, "/h/a", "3").await;
    let other_key = put(&*store, "/h/b", "x").await;
    for (revision, a, b) in [
        (start, None, None),
        (one, Some("1"), None),
        (two, Some("2"), None),
        (gone, None, None),
        (three, Some("3"), None),
        (other_key, Some("3"), Some("x")),
    ] {
        assert_eq!(value_at(&*store, "/h/a", revision).await.as_deref(), a, "a at {revision:?}");
        assert_eq!(value_at(&*store, "/h/b", revision).await.as_deref(), b, "b at {revision:?}");
        let listed = list(&*store, "/h/", Some(revision), 0).await;
        let expected: Vec<_> = [a, b].into_iter().flatten().map(str::to_owned).collect();
        let values: Vec<_> = pairs(&listed.kvs).into_iter().map(|(_, value)| value).collect();
        assert_eq!((values, listed.count), (expected.clone(), expected.len()), "list at {revision:?}");
        assert_eq!(listed.revision, other_key);
    }
    let (kv, _) = store.get(bytes("/h/a"), Some(two)).await.expect("the past");
    let kv = kv.expect("the key existed");
    assert_eq!((kv.create_revision, kv.mod_revision), (one, two));
    let future = Revision(other_key.0 + 1);
    assert!(matches!(store.get(bytes("/h/a"), Some(future)).await, Err(StoreError::FutureRevision { .. })));
}

/// Reads before a compacted revision fail; later ones return the same as before.
pub async fn compaction_drops_earlier_revisions(store: Arc<dyn Store>) {
    assert_eq!(store.compacted_revision().await.expect("a revision"), Revision(0));
    let one = put(&*store, "/h/a", "1").await;
    put(&*store, "/h/gone", "x").await;
    let gone = delete(&*store, "/h/gone").await;
    let two = put(&*store, "/h/a", "2").await;
    let three = put(&*store, "/h/a", "3").await;
    store.compact(two).await.expect("a compaction");
    assert_eq!(store.compacted_revision().await.expect("a revision"), two);
    for revision in [one, gone] {
        let answer = store.get(bytes("/h/a"), Some(revision)).await;
        assert!(matches!(answer, Err(StoreError::Compacted { compacted }) if compacted == two), "{answer:?}");
        let range = crate::RangeRequest {
            range: crate::prefix_range(b"/h/"),
            revision: Some(revision),
            limit: 0,
            count: crate::Count::All,
        };
        let answer = store.range(range).await;
        assert!(matches!(answer, Err(StoreError::Compacted { .. })), "{answer:?}");
    }
    assert_eq!(value_at(&*store, "/h/a", two).await.as_deref(), Some("2"));
    assert_eq!(value_at(&*store, "/h/gone", two).await, None);
    assert_eq!(value_at(&*store, "/h/a", three).await.as_deref(), Some("3"));
    assert_eq!(store.current_revision().await.expect("a revision"), three, "a compaction is no write");
    assert_eq!(put(&*store, "/h/gone", "back").await, Revision(three.0 + 1));
}

/// A compaction to an earlier or a future revision fails.
pub async fn rejects_compaction_to_past_or_future_revision(store: Arc<dyn Store>) {
    put(&*store, "/h/a", "1").await;
    let two = put(&*store, "/h/a", "2").await;
    let future = store.compact(Revision(two.0 + 1)).await;
    assert!(matches!(future, Err(StoreError::FutureRevision { .. })), "{future:?}");
    store.compact(two).await.expect("a compaction");
    for revision in [two, Revision(two.0 - 1)] {
        let again = store.compact(revision).await;
        assert!(matches!(again, Err(StoreError::Compacted { .. })), "{again:?}");
    }
}

/// A compactor's first round compacts to the revision at its start, whether or not an earlier process compacted.
pub async fn compactor_compacts_after_its_first_interval(store: Arc<dyn Store>) {
    for round in 0..2 {
        put(&*store, "/h/a", "before").await;
        let start = put(&*store, "/h/a", "start").await;
        let (sender, mut compacted) = tokio::sync::mpsc::unbounded_channel();
        let _compactor = spawn_compactor(store.clone(), Duration::from_millis(50), Duration::ZERO, move |revision| {
            // The receiver only takes the first revision.
            let _ = sender.send(revision);
        });
        let first = tokio::time::timeout(PATIENCE, compacted.recv()).await.expect("it compacts").expect("it runs");
        assert_eq!(first, start, "round {round}");
        // Another round may have followed.
        assert!(store.compacted_revision().await.expect("a revision") >= start, "round {round}");
    }
}

/// The compactor compacts to the revision of the previous round, and the compactor of every server reports it.
pub async fn compactor_compacts_to_previous_revision(store: Arc<dyn Store>) {
    let reported: [Arc<AtomicU64>; 2] = Default::default();
    let _compactors = reported.clone().map(|reported| {
        spawn_compactor(store.clone(), Duration::from_millis(50), Duration::ZERO, move |revision| {
            reported.fetch_max(revision.0, Ordering::SeqCst);
        })
    });
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while store.compacted_revision().await.expect("a revision") < Revision(3) {
        assert!(tokio::time::Instant::now() < deadline, "nothing was compacted");
        put(&*store, "/h/a", "x").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let compacted = store.compacted_revision().await.expect("a revision");
    assert!(compacted < store.current_revision().await.expect("a revision"), "the newest history is left alone");
    for reported in reported {
        while reported.load(Ordering::SeqCst) < compacted.0 {
            assert!(tokio::time::Instant::now() < deadline, "a compactor kept it to itself");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
