//! Watches: their starts, events, and ends.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use binnacle_meta::Text;
use binnacle_store::{Revision, Store};
use binnacle_watchcache::{
    Backlog, Cache, CacheError, Change, EncodingBudget, EncodingId, Interest, Start, WatchError, WatchItem,
    WindowLimits,
};
use bytes::Bytes;
use support::*;
use tokio::time::Instant;

fn setup(limits: WindowLimits) -> (Arc<FaultyStore>, Cache) {
    let store = FaultyStore::new();
    let cache = Cache::new(store.clone(), PREFIX, Things::new(), limits);
    (store, cache)
}

fn describe(items: &[WatchItem]) -> Vec<String> {
    let word = |item: &WatchItem| match observed(item) {
        Some(observed) => format!("{:?} {} {}", observed.change, observed.path, observed.value),
        None => format!("End {}", item.revision().0),
    };
    items.iter().map(word).collect()
}

#[tokio::test]
async fn objects_enter_and_leave_selection() {
    let (store, cache) = setup(WindowLimits::default());
    let start = put(&*store, "a/old", "app=web|node-1,|0").await;
    let mut watchers = Vec::new();
    for (labels, fields) in [("app=web", ""), ("", "spec.nodeName=node-1"), ("app", "spec.nodeName!=node-1")] {
        let selection = cache.selection(interest("a", labels, fields));
        watchers.push(cache.subscribe(selection, Start::After(start), soon()).await.unwrap());
    }
    put(&*store, "a/x", "app=web|node-1,|1").await;
    put(&*store, "a/x", "app=web|node-1,|2").await;
    put(&*store, "a/x", "app=db|node-2,|3").await;
    put(&*store, "a/x", "app=web|node-1,|4").await;
    put(&*store, "b/x", "app=web|node-1,|5").await;
    let last = delete(&*store, "a/x").await;
    let in_and_out = [
        "Added a/x app=web|node-1,|1",
        "Modified a/x app=web|node-1,|2",
        "Deleted a/x app=web|node-1,|2",
        "Added a/x app=web|node-1,|4",
        "Deleted a/x app=web|node-1,|4",
    ];
    let other = ["Added a/x app=db|node-2,|3", "Deleted a/x app=db|node-2,|3"];
    for (watcher, want) in watchers.iter_mut().zip([&in_and_out[..], &in_and_out[..], &other[..]]) {
        let items = read_until(watcher, last).await;
        assert_eq!(describe(&items), want);
        let deleted = items.iter().rfind(|item| item.change() == Some(Change::Deleted)).unwrap();
        assert!(deleted.revision() > deleted.entry().unwrap().revision(), "a deletion has a revision of its own");
    }
}

#[tokio::test]
async fn starts_watches_at_every_kind_of_start() {
    let (store, cache) = setup(WindowLimits::default());
    let first = put(&*store, "a/one", "||1").await;
    let everything = cache.selection(Interest::default());
    cache.ready(soon()).await.unwrap();
    let second = put(&*store, "a/two", "||2").await;
    cache.wait_consistent(soon()).await.unwrap();
    let snapshot = cache.wait_consistent(soon()).await.unwrap();
    let third = put(&*store, "a/two", "||3").await;
    cache.wait_consistent(soon()).await.unwrap();

    let end = format!("End {}", second.0);
    for (start, want) in [
        (Start::After(first), vec!["Added a/two ||2", "Modified a/two ||3"]),
        (Start::After(second), vec!["Modified a/two ||3"]),
        (Start::After(third), vec![]),
        (Start::Now, vec![]),
        (
            Start::Snapshot { snapshot: snapshot.clone(), mark_end: true },
            vec!["Added a/one ||1", "Added a/two ||2", &end, "Modified a/two ||3"],
        ),
        (
            Start::Snapshot { snapshot: snapshot.clone(), mark_end: false },
            vec!["Added a/one ||1", "Added a/two ||2", "Modified a/two ||3"],
        ),
    ] {
        let mut watcher = cache.subscribe(everything.clone(), start, soon()).await.unwrap();
        assert_eq!(describe(&read_until(&mut watcher, third).await), want);
        assert!(watcher.progress() >= third);
    }
    // Events from before the cache's start come from the store until it compacts them.
    put(&*store, "a/before", "||").await;
    store.compact(first).await.unwrap();
    let too_old = cache.subscribe(everything, Start::After(Revision(first.0 - 1)), soon()).await;
    let want = WatchError::Expired { requested: Revision(first.0 - 1), oldest: first };
    assert_eq!(too_old.map(|_| ()), Err(want));
    assert_eq!(want.to_string(), format!("too old resource version: {} ({})", first.0 - 1, first.0));
}

/// After a restart the window is empty, and clients reconnect with the last revision that they received.
#[tokio::test]
async fn watch_from_before_cache_start_reads_store_history() {
    for max_events in [1_000, 20] {
        let store = FaultyStore::new();
        let mut revisions = vec![put(&*store, "a/first", "||").await];
        for number in 0..100 {
            let value = if number % 3 == 0 { "app=web||" } else { "||" };
            revisions.push(match number % 10 {
                9 => delete(&*store, &format!("a/{}", number % 7)).await,
                _ => put(&*store, &format!("a/{}", number % 7), value).await,
            });
            put(&*store, "/registry/elsewhere", "").await;
        }
        let limits = WindowLimits { min_events: 5, max_events, ..WindowLimits::default() };
        let cache = Cache::new(store.clone(), PREFIX, Things::new(), limits);
        cache.ready(soon()).await.unwrap();
        revisions.push(put(&*store, "a/last", "app=web||").await);
        cache.wait_consistent(soon()).await.unwrap();
        let last = *revisions.last().unwrap();
        for start in revisions.iter().rev().step_by(3).chain(&revisions) {
            let selection = cache.selection(interest("", "app=web", ""));
            let watcher = cache.subscribe(selection, Start::After(*start), soon()).await;
            let fits = revisions.iter().filter(|revision| *revision > start).count() <= max_events;
            match watcher {
                Ok(mut watcher) => {
                    let items: Vec<ObservedItem> =
                        read_until(&mut watcher, last).await.iter().filter_map(observed).collect();
                    let history = history(&store.inner, last).await;
                    assert_eq!(items, expected(&history, *start, |_, value| value.starts_with("app=web")));
                }
                Err(WatchError::Expired { .. }) => assert!(!fits, "{start:?} with room for {max_events}"),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(cache.stats().window_events <= max_events);
        // No client received the state of the empty store.
        let selection = cache.selection(Interest::default());
        let nothing = cache.subscribe(selection, Start::After(Revision(1)), soon()).await;
        assert!(matches!(nothing, Err(WatchError::Expired { .. })));
    }
}

/// After a restart, clients resume from older and older revisions, or from newer and newer ones that do not fit.
#[tokio::test]
async fn many_resumed_watches_read_store_history_a_few_times() {
    for (max_events, is_ascending) in [(1_000, false), (1_000, true), (100, false), (100, true)] {
        let store = FaultyStore::new();
        let mut revisions = Vec::new();
        for number in 0..500 {
            revisions.push(put(&*store, &format!("a/{}", number % 7), "||").await);
        }
        let limits = WindowLimits { min_events: 5, max_events, ..WindowLimits::default() };
        let cache = Cache::new(store.clone(), PREFIX, Things::new(), limits);
        cache.ready(soon()).await.unwrap();
        if !is_ascending {
            revisions.reverse();
        }
        let before = store.watches.load(Ordering::Relaxed);
        let mut resumed = 0;
        for start in &revisions {
            let selection = cache.selection(Interest::default());
            resumed += usize::from(cache.subscribe(selection, Start::After(*start), soon()).await.is_ok());
        }
        let opened = store.watches.load(Ordering::Relaxed) - before;
        assert!(opened <= 12, "{opened} reads of the history with room for {max_events}, {is_ascending}");
        assert_eq!(resumed, 500.min(max_events + 1), "room for {max_events}, {is_ascending}");
    }
}

/// Each change drops events of the window that are too old, also while history is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_is_read_beside_a_flow_of_changes() {
    let store = FaultyStore::new();
    let start = put(&*store, "a/first", "||").await;
    for number in 0..3000 {
        put(&*store, &format!("a/{}", number % 7), "||").await;
    }
    let limits = WindowLimits { min_events: 1, freshness: Duration::from_secs(1), ..WindowLimits::default() };
    let cache = Cache::new(store.clone(), PREFIX, Things::new(), limits);
    cache.ready(soon()).await.unwrap();
    let written = Arc::new(AtomicUsize::new(0));
    let writer = tokio::spawn({
        let (store, written) = (store.clone(), written.clone());
        async move {
            loop {
                let number = written.fetch_add(1, Ordering::Relaxed);
                put(&*store, &format!("a/{}", number % 7), "||").await;
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
        }
    });
    // Until the window has dropped events.
    while cache.stats().window_events + 100 > written.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for _ in 0..3 {
        let selection = cache.selection(interest("", "", "metadata.name=first"));
        let resumed = cache.subscribe(selection, Start::After(start), soon()).await;
        assert!(resumed.is_ok(), "{:?}", resumed.err());
    }
    writer.abort();
}

/// A resource with many large objects has a window in proportion.
#[tokio::test]
async fn window_grows_with_objects() {
    let limits = WindowLimits { max_bytes: MEGABYTE, ..WindowLimits::default() };
    let (store, cache) = setup(limits);
    for number in 0..20 {
        put_large(&store, &format!("a/n{number}"), 1).await;
    }
    cache.wait_consistent(soon()).await.unwrap();
    let start = put_large(&store, "a/n0", 1).await;
    for number in 0..8 {
        put_large(&store, &format!("a/n{number}"), 1).await;
    }
    let last = put(&*store, "a/last", "||").await;
    cache.wait_consistent(soon()).await.unwrap();
    assert!(cache.stats().window_bytes > 8 * MEGABYTE, "{}", cache.stats().window_bytes);
    let selection = cache.selection(interest("", "", "metadata.name=last"));
    let mut watcher = cache.subscribe(selection, Start::After(start), soon()).await.unwrap();
    assert_eq!(describe(&read_until(&mut watcher, last).await), ["Added a/last ||"]);
    for number in 0..20 {
        delete(&*store, &format!("a/n{number}")).await;
    }
    cache.wait_consistent(soon()).await.unwrap();
    assert!(cache.stats().window_bytes <= 2 * MEGABYTE, "{}", cache.stats().window_bytes);
}

#[tokio::test]
async fn delivers_only_selected_name() {
    let (store, cache) = setup(WindowLimits::default());
    let named = Interest { name: Some(Text::new("x")), ..interest("a", "", "") };
    let mut watcher = cache.subscribe(cache.selection(named), Start::Now, soon()).await.unwrap();
    let mut anywhere =
        cache.subscribe(cache.selection(interest("", "", "metadata.name=x")), Start::Now, soon()).await.unwrap();
    for path in ["a/x", "a/y", "b/x", "a/xx"] {
        put(&*store, path, "||").await;
    }
    let last = delete(&*store, "a/x").await;
    assert_eq!(describe(&read_until(&mut watcher, last).await), ["Added a/x ||", "Deleted a/x ||"]);
    assert_eq!(describe(&read_until(&mut anywhere, last).await), ["Added a/x ||", "Added b/x ||", "Deleted a/x ||"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_reader_catches_up_from_window_or_expires() {
    for (max_events, survives) in [(100_000, true), (500, false)] {
        let limits = WindowLimits { max_events, ..WindowLimits::default() };
        let (store, cache) = setup(limits);
        let selection = cache.selection(interest("", "app=web", ""));
        let start = put(&*store, "a/first", "||").await;
        let mut watcher = cache.subscribe(selection, Start::After(start), soon()).await.unwrap();
        let mut last = start;
        for number in 0..5000 {
            let value = if number % 4 == 0 { "||" } else { "app=web||" };
            last = put(&*store, &format!("a/{}", number % 10), value).await;
        }
        cache.wait_consistent(soon()).await.unwrap();
        if survives {
            let items: Vec<ObservedItem> = read_until(&mut watcher, last).await.iter().filter_map(observed).collect();
            let want = expected(&history(&store.inner, last).await, start, |_, value| value.starts_with("app=web"));
            assert_eq!(items, want);
        } else {
            let mut items = Vec::new();
            let ended = loop {
                if let Err(error) = watcher.next_batch(10, &mut items).await {
                    break error;
                }
            };
            assert!(matches!(ended, WatchError::Expired { .. }), "{ended:?}");
            let again = watcher.next_batch(10, &mut items).await;
            assert_eq!(again, Err(ended));
        }
    }
}

#[tokio::test]
async fn progress_advances_without_events() {
    let (store, cache) = setup(WindowLimits::default());
    let mut watcher = cache.subscribe(cache.selection(interest("a", "", "")), Start::Now, soon()).await.unwrap();
    let outside = put(&*store, "/registry/elsewhere", "").await;
    assert_eq!(cache.refresh_progress(soon()).await.unwrap(), outside);
    assert_eq!(watcher.progress(), outside);
    let mine = put(&*store, "a/x", "||").await;
    cache.wait_consistent(soon()).await.unwrap();
    assert!(watcher.progress() < mine, "the event was not taken yet");
    let mut items = Vec::new();
    watcher.next_batch(10, &mut items).await.unwrap();
    assert_eq!(watcher.progress(), mine);
}

#[tokio::test]
async fn encodes_frame_once_for_all_watchers() {
    let (store, cache) = setup(WindowLimits::default());
    let budget = EncodingBudget::new(1 << 20);
    let mut watchers = Vec::new();
    for _ in 0..10 {
        let selection = cache.selection(interest("a", "", ""));
        watchers.push(cache.subscribe(selection, Start::Now, soon()).await.unwrap());
    }
    let last = put(&*store, "a/x", "||").await;
    let mut encoded = 0;
    for watcher in &mut watchers {
        for item in read_until(watcher, last).await {
            let frame = item.frame(&budget, EncodingId(1), || {
                encoded += 1;
                let entry = item.entry().unwrap();
                let encoding = entry.encoding(&budget, EncodingId(1), || Ok::<_, ()>(entry.value().clone()))?;
                Ok::<_, ()>(Bytes::from([b"frame ", encoding.as_ref()].concat()))
            });
            assert_eq!(frame.unwrap().as_ref(), b"frame ||");
        }
    }
    assert_eq!(encoded, 1);
}

#[tokio::test]
async fn resumes_broken_store_watch() {
    let (store, cache) = setup(WindowLimits::default());
    let start = put(&*store, "a/x", "||0").await;
    let mut watcher =
        cache.subscribe(cache.selection(interest("a", "", "")), Start::After(start), soon()).await.unwrap();
    for round in 1..=5 {
        store.down.store(true, Ordering::Relaxed);
        store.cut();
        let last = put(&*store, "a/x", &format!("||{round}")).await;
        store.down.store(false, Ordering::Relaxed);
        assert_eq!(describe(&read_until(&mut watcher, last).await), [format!("Modified a/x ||{round}")]);
        let snapshot = cache.wait_consistent(soon()).await.unwrap();
        assert_eq!(snapshot.get("a/x").map(|entry| entry.revision()), Some(last));
    }
    assert_eq!(store.ranges.load(Ordering::Relaxed), 1, "the range was read again without need");
}

/// A temporarily missing encryption key affects no watch.
#[tokio::test]
async fn delivers_unreadable_event_once_readable() {
    let (store, cache) = setup(WindowLimits::default());
    let start = put(&*store, "a/x", "||0").await;
    let selection = cache.selection(interest("a", "", ""));
    let mut watcher = cache.subscribe(selection, Start::After(start), soon()).await.unwrap();
    for round in 1..=3 {
        store.sealed.store(true, Ordering::Relaxed);
        let last = put(&*store, "a/x", &format!("||{round}")).await;
        while !cache.is_unreadable() {
            tokio::task::yield_now().await;
        }
        // For a while this is the same as a cache that is behind.
        let soon_over = Instant::now() + Duration::from_millis(20);
        match cache.wait_consistent(soon_over).await {
            Err(CacheError::TooLargeRevision { requested, current }) => assert!(requested == last && current < last),
            other => panic!("{other:?}"),
        }
        assert!(!cache.is_unavailable());
        store.sealed.store(false, Ordering::Relaxed);
        // Either may succeed first: resuming, or reading everything, which leaves a gap.
        match try_read_until(&mut watcher, last).await {
            Ok(items) => assert_eq!(describe(&items), [format!("Modified a/x ||{round}")]),
            Err(WatchError::Expired { .. }) => {
                let selection = cache.selection(interest("a", "", ""));
                watcher = cache.subscribe(selection, Start::After(last), soon()).await.unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        let entry = cache.get_consistent("a/x", soon()).await.unwrap().0.unwrap();
        assert_eq!(entry.revision(), last);
    }
}

#[tokio::test]
async fn gap_in_history_expires_watches_and_relists() {
    let (store, cache) = setup(WindowLimits::default());
    let start = put(&*store, "a/x", "||0").await;
    put(&*store, "a/same", "||0").await;
    put(&*store, "a/gone", "||0").await;
    let selection = cache.selection(interest("a", "", ""));
    let mut watcher = cache.subscribe(selection.clone(), Start::Now, soon()).await.unwrap();
    let same = cache.get("a/same").unwrap();
    store.down.store(true, Ordering::Relaxed);
    store.cut();
    // Reads of the old state are still served, consistent reads are not.
    assert_eq!(cache.snapshot(soon()).await.unwrap().len(), 3);
    while cache.is_ready() {
        tokio::task::yield_now().await;
    }
    assert!(cache.wait_consistent(Instant::now() + Duration::from_millis(50)).await.is_err());
    put(&*store, "a/x", "||1").await;
    delete(&*store, "a/gone").await;
    let last = put(&*store, "a/new", "||1").await;
    store.compact(last).await.unwrap();
    store.down.store(false, Ordering::Relaxed);
    let mut items = Vec::new();
    let ended = watcher.next_batch(10, &mut items).await;
    assert!(matches!(ended, Err(WatchError::Expired { oldest, .. }) if oldest == last), "{ended:?}");
    assert!(items.is_empty());
    let (_, listing) = list(&cache, Interest::default()).await;
    assert_eq!(listing.keys().collect::<Vec<_>>(), ["a/new", "a/same", "a/x"]);
    assert!(Arc::ptr_eq(&same, &cache.get("a/same").unwrap()), "an unchanged object was read again");
    let expired = cache.subscribe(selection.clone(), Start::After(start), soon()).await;
    assert!(matches!(expired, Err(WatchError::Expired { .. })));
    let mut watcher = cache.subscribe(selection, Start::After(last), soon()).await.unwrap();
    let next = put(&*store, "a/x", "||2").await;
    assert_eq!(describe(&read_until(&mut watcher, next).await), ["Modified a/x ||2"]);
}

#[tokio::test]
async fn cache_is_idle_before_first_use_and_closed_after_drop() {
    let (store, cache) = setup(WindowLimits::default());
    tokio::task::yield_now().await;
    assert_eq!(store.ranges.load(Ordering::Relaxed), 0);
    assert!(!cache.is_ready() && cache.get("a/x").is_none());
    let mut watcher = cache.subscribe(cache.selection(Interest::default()), Start::Now, soon()).await.unwrap();
    assert_eq!(cache.stats().watchers, 1);
    drop(cache);
    let mut items = Vec::new();
    assert_eq!(watcher.next_batch(10, &mut items).await, Err(WatchError::Closed));
}

#[tokio::test]
async fn dropped_watchers_are_removed() {
    let (_store, cache) = setup(WindowLimits::default());
    let mut watchers = Vec::new();
    for number in 0..300 {
        let interest = match number % 4 {
            0 => interest("", "", ""),
            1 => interest("a", "", ""),
            2 => interest("", &format!("label-{number}=x"), ""),
            _ => interest("", "", &format!("spec.nodeName=node-{number}")),
        };
        watchers.push(cache.subscribe(cache.selection(interest), Start::Now, soon()).await.unwrap());
    }
    assert_eq!(cache.stats().watchers, 300);
    let mut dice = Dice(9);
    while !watchers.is_empty() {
        let at = dice.roll(watchers.len() as u64) as usize;
        watchers.swap_remove(at);
        assert_eq!(cache.stats().watchers, watchers.len());
    }
}

const MEGABYTE: usize = 1 << 20;

/// Writes an object of a megabyte `times` times.
async fn put_large(store: &FaultyStore, path: &str, times: usize) -> binnacle_store::Revision {
    let mut last = binnacle_store::Revision(0);
    for number in 0..times {
        last = put(store, path, &format!("||{}{number}", "x".repeat(MEGABYTE))).await;
    }
    last
}

/// Reads the rest of a watch until it ends.
async fn drain(watcher: &mut binnacle_watchcache::Watcher) -> (usize, WatchError) {
    let mut read = 0;
    loop {
        let mut items = Vec::new();
        if let Err(error) = watcher.next_batch(256, &mut items).await {
            return (read, error);
        }
        let bytes = |item: &WatchItem| item.entry().map_or(0, |entry| entry.value_len());
        let batch: usize = items.iter().map(bytes).sum();
        assert!(batch <= 2 * MEGABYTE, "a batch of {batch} bytes is taken at once");
        read += batch;
    }
}

/// No reader reads, and far more is written than a mailbox and the window may hold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_bytes_of_each_mailbox() {
    let limits = WindowLimits { min_events: 2, max_bytes: 4 * MEGABYTE, ..WindowLimits::default() };
    let (store, cache) = setup(limits);
    let start = put(&*store, "a/x", "||").await;
    let selection = cache.selection(interest("", "", "metadata.name=x"));
    let mut stopped = cache.subscribe(selection.clone(), Start::After(start), soon()).await.unwrap();
    put_large(&store, "a/x", 60).await;
    cache.wait_consistent(soon()).await.unwrap();
    let (read, ended) = drain(&mut stopped).await;
    assert!(matches!(ended, WatchError::Expired { .. }), "{ended:?}");
    assert!(read <= 10 * MEGABYTE, "{read} bytes waited for a watcher that does not read");
}

/// All mailboxes together may hold a limited amount beyond the window. A watcher that reads is not ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bounds_bytes_of_all_mailboxes() {
    let limits = WindowLimits { min_events: 1, max_bytes: MEGABYTE, ..WindowLimits::default() };
    let store = FaultyStore::new();
    let backlog = Backlog::new(12 * MEGABYTE);
    let cache = Cache::with_backlog(store.clone(), PREFIX, Things::new(), limits, backlog.clone());
    let mut stopped = Vec::new();
    let mut last = put(&*store, "a/x", "||").await;
    let all = cache.selection(interest("a", "", ""));
    let mut reader = cache.subscribe(all, Start::After(last), soon()).await.unwrap();
    for number in 0..8 {
        let name = format!("n{number}");
        let selection = cache.selection(interest("", "", &format!("metadata.name={name}")));
        stopped.push(cache.subscribe(selection, Start::After(last), soon()).await.unwrap());
        for _ in 0..5 {
            last = put_large(&store, &format!("a/{name}"), 1).await;
            read_until(&mut reader, last).await;
        }
        assert!(backlog.used() <= backlog.limit() + 2 * MEGABYTE, "{} bytes are held", backlog.used());
    }
    let mut ended = 0;
    for mut watcher in stopped {
        let all = tokio::time::timeout(Duration::from_millis(100), drain(&mut watcher)).await;
        ended += usize::from(matches!(all, Ok((_, WatchError::Expired { .. }))));
    }
    assert!(ended >= 5, "{ended} of 8 watchers that hold 5 MB each were ended");
    assert_eq!(cache.stats().terminated as usize, ended);
    drop(reader);
    drop(cache);
    assert_eq!(backlog.used(), 0);
}

/// The initial state of a watch is not retained for a reader that does not read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_watch_with_unread_initial_state() {
    let limits = WindowLimits { min_events: 1, max_bytes: MEGABYTE, ..WindowLimits::default() };
    let (store, cache) = setup(limits);
    for number in 0..4 {
        put_large(&store, &format!("a/n{number}"), 1).await;
    }
    let snapshot = cache.wait_consistent(soon()).await.unwrap();
    let selection = cache.selection(interest("a", "", ""));
    let start = Start::Snapshot { snapshot, mark_end: true };
    let mut watcher = cache.subscribe(selection, start, soon()).await.unwrap();
    let mut items = Vec::new();
    watcher.next_batch(1, &mut items).await.unwrap();
    assert_eq!(items.len(), 1);
    put_large(&store, "a/n0", 70).await;
    cache.wait_consistent(soon()).await.unwrap();
    let (read, ended) = drain(&mut watcher).await;
    assert_eq!((read, cache.stats().terminated), (0, 1));
    assert!(matches!(ended, WatchError::Expired { .. }), "{ended:?}");
}

/// A reflector that panics is restarted: the cache continues, and watches end because of the gap.
#[tokio::test]
async fn restarts_panicked_reflector() {
    let (store, cache) = setup(WindowLimits::default());
    let start = put(&*store, "a/x", "||0").await;
    let selection = cache.selection(interest("a", "", ""));
    let mut watcher = cache.subscribe(selection.clone(), Start::After(start), soon()).await.unwrap();
    let before = binnacle_supervise::restarts("watch cache");
    store.panics.store(true, Ordering::Relaxed);
    store.cut();
    let last = put(&*store, "a/x", "||1").await;
    let snapshot = cache.wait_consistent(soon()).await.unwrap();
    assert_eq!(snapshot.get("a/x").map(|entry| entry.revision()), Some(last));
    assert_eq!(binnacle_supervise::restarts("watch cache"), before + 1);
    let mut items = Vec::new();
    let ended = watcher.next_batch(10, &mut items).await;
    assert!(matches!(ended, Err(WatchError::Expired { .. })), "{ended:?} {items:?}");
    let mut again = cache.subscribe(selection, Start::After(last), soon()).await.unwrap();
    let next = put(&*store, "a/x", "||2").await;
    assert_eq!(describe(&read_until(&mut again, next).await), ["Modified a/x ||2"]);
}
