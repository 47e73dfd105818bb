//! Watches deliver every change once, in order.

use std::sync::Arc;

use super::{PATIENCE, Reader, delete, event_revision, put};
use crate::{Event, Revision, Store, StoreError, prefix_range};
use futures::StreamExt;

async fn now(store: &Arc<dyn Store>) -> Revision {
    store.current_revision().await.expect("a revision")
}

/// Events have the key, the revision, the value and the previous value.
pub async fn events_have_previous_values(store: Arc<dyn Store>) {
    let start = now(&store).await;
    let mut reader = Reader::open(&store, "/w/", start).await;
    let one = put(&*store, "/w/a", "1").await.0;
    let two = put(&*store, "/w/a", "2").await.0;
    let gone = delete(&*store, "/w/a").await.0;
    let again = put(&*store, "/w/a", "3").await.0;
    let expected = [
        format!("put /w/a 1@{one} was -"),
        format!("put /w/a 2@{two} was 1@{one}"),
        format!("delete /w/a @{gone} was 2@{two}"),
        format!("put /w/a 3@{again} was -"),
    ];
    assert_eq!(reader.take(4).await, expected);
    // Events from history are the same.
    let mut reader = Reader::open(&store, "/w/", start).await;
    assert_eq!(reader.take(4).await, expected);
}

/// A watch from an older revision delivers history first, then new changes.
pub async fn watch_from_older_revision_replays_history(store: Arc<dyn Store>) {
    let mut revisions = Vec::new();
    for n in 0..5 {
        revisions.push(put(&*store, "/w/a", &n.to_string()).await.0);
    }
    let mut reader = Reader::open(&store, "/w/", Revision(revisions[1])).await;
    revisions.push(put(&*store, "/w/a", "5").await.0);
    let expected: Vec<_> =
        (2..6).map(|n| format!("put /w/a {n}@{} was {}@{}", revisions[n], n - 1, revisions[n - 1])).collect();
    assert_eq!(reader.take(4).await, expected);
}

/// A watch delivers no changes of keys outside its range.
pub async fn watch_delivers_only_its_range(store: Arc<dyn Store>) {
    let start = now(&store).await;
    let mut inner = Reader::open(&store, "/w/a/", start).await;
    let mut outer = Reader::open(&store, "/w/", start).await;
    let mut everything = Reader::open(&store, "", start).await;
    let mut other = Reader::open(&store, "/w/b/", start).await;
    for key in ["/v", "/w/a", "/w/a/1", "/w/b/1", "/w/c", "/x", "/w/a/2"] {
        put(&*store, key, "x").await;
    }
    let key = |line: String| line.split(' ').nth(1).expect("a key").to_owned();
    let keys = |lines: Vec<String>| lines.into_iter().map(key).collect::<Vec<_>>();
    assert_eq!(keys(inner.take(2).await), ["/w/a/1", "/w/a/2"]);
    assert_eq!(keys(outer.take(5).await), ["/w/a", "/w/a/1", "/w/b/1", "/w/c", "/w/a/2"]);
    assert_eq!(keys(everything.take(7).await).len(), 7);
    assert_eq!(keys(other.take(1).await), ["/w/b/1"]);
}

/// A watch from a compacted revision fails, with the oldest available revision.
pub async fn rejects_watch_of_compacted_history(store: Arc<dyn Store>) {
    let one = put(&*store, "/w/a", "1").await;
    for n in 2..6 {
        put(&*store, "/w/a", &n.to_string()).await;
    }
    let last = put(&*store, "/w/a", "6").await;
    let compacted = Revision(last.0 - 1);
    store.compact(compacted).await.expect("a compaction");
    let refused = match store.watch(prefix_range(b"/w/"), one).await {
        Err(error) => error,
        // An engine may return the error with the first events.
        Ok(mut watch) => match watch.messages.next().await {
            Some(Err(error)) => error,
            other => panic!("the watch goes on: {other:?}"),
        },
    };
    assert!(matches!(refused, StoreError::Compacted { compacted: said } if said == compacted), "{refused:?}");
    let mut reader = Reader::open(&store, "/w/", compacted).await;
    assert_eq!(reader.take(1).await, [format!("put /w/a 6@{} was 5@{}", last.0, compacted.0)]);
}

/// A watcher that has read up to a barrier has received every write that was acknowledged before the barrier was
/// requested.
pub async fn barrier_covers_acknowledged_writes(store: Arc<dyn Store>) {
    let start = now(&store).await;
    let mut reader = Reader::open(&store, "/w/", start).await;
    let barrier = reader.control().barrier().await.expect("a barrier");
    assert_eq!(barrier.last_event, Revision(0));
    assert!(barrier.current >= start);
    for n in 0..50 {
        let written = put(&*store, &format!("/w/{n}"), "x").await;
        let outside = put(&*store, "/elsewhere", "x").await;
        let barrier = reader.control().barrier().await.expect("a barrier");
        assert!(barrier.current >= outside, "{barrier:?}");
        assert_eq!(barrier.last_event, written);
        assert_eq!(event_revision(&reader.next().await), written);
    }
}

/// The same applies to a watch whose first events come from history.
pub async fn barrier_covers_history_of_watch(store: Arc<dyn Store>) {
    let start = now(&store).await;
    put(&*store, "/w/a", "1").await;
    let last = put(&*store, "/w/b", "1").await;
    let current = put(&*store, "/elsewhere", "1").await;
    let mut reader = Reader::open(&store, "/w/", start).await;
    let control = reader.control().barrier();
    let barrier = tokio::time::timeout(PATIENCE, control).await.expect("in time").expect("a barrier");
    assert!(barrier.current >= current);
    assert_eq!(barrier.last_event, last);
    reader.next().await;
    assert_eq!(event_revision(&reader.next().await), last);
}

/// With many concurrent writers and watchers that start at any time, each watcher gets all events once, in order.
pub async fn watches_are_complete_and_ordered_under_load(store: Arc<dyn Store>) {
    const WRITERS: u64 = 8;
    const WRITES: u64 = 100;
    let start = now(&store).await;
    let writers = (0..WRITERS).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..WRITES {
                put(&*store, &format!("/w/{writer}/{}", n % 7), "x").await;
            }
        })
    });
    let watchers = (0..4).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            // Start when some events are already history.
            while now(&store).await.0 < start.0 + n * 50 {
                tokio::task::yield_now().await;
            }
            let mut reader = Reader::open(&store, "/w/", start).await;
            for expected in start.0 + 1..=start.0 + WRITERS * WRITES {
                assert_eq!(event_revision(&reader.next().await), Revision(expected));
            }
        })
    });
    let (writers, watchers): (Vec<_>, Vec<_>) = (writers.collect(), watchers.collect());
    for task in writers.into_iter().chain(watchers) {
        task.await.expect("a writer or watcher");
    }
}

/// A watcher that does not read blocks no writer, and gets all events later.
pub async fn slow_reader_misses_no_event(store: Arc<dyn Store>) {
    const WRITES: u64 = 2000;
    let start = now(&store).await;
    let mut slow = Reader::open(&store, "/w/", start).await;
    let value = "x".repeat(1000);
    let writers = (0..8).map(|writer| {
        let (store, value) = (store.clone(), value.clone());
        tokio::spawn(async move {
            for n in 0..WRITES / 8 {
                put(&*store, &format!("/w/{writer}/{}", n % 5), &value).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer");
    }
    let barrier = slow.control().barrier().await.expect("a barrier");
    assert_eq!(barrier.last_event, Revision(start.0 + WRITES));
    let mut latest = std::collections::HashMap::new();
    for expected in start.0 + 1..=start.0 + WRITES {
        let event = slow.next().await;
        assert_eq!(event_revision(&event), Revision(expected));
        let Event::Put { kv, previous } = event else { panic!("nothing was deleted") };
        let before = latest.insert(kv.key.clone(), kv.mod_revision);
        assert_eq!(previous.map(|kv| kv.mod_revision), before, "the previous version of {:?}", kv.key);
    }
}

/// A watch may start at a future revision.
pub async fn watch_starts_at_future_revision(store: Arc<dyn Store>) {
    let start = now(&store).await;
    let mut reader = Reader::open(&store, "/w/", Revision(start.0 + 2)).await;
    for n in 1..=3 {
        put(&*store, "/w/a", &n.to_string()).await;
    }
    assert_eq!(reader.take(1).await, [format!("put /w/a 3@{} was 2@{}", start.0 + 3, start.0 + 2)]);
}
