//! Many random writers and watchers. Every stream must match the store's history exactly.

#![allow(clippy::unwrap_used, reason = "test helpers panic on errors")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use binnacle_store::{Revision, Store};
use binnacle_watchcache::{Cache, Interest, Selection, Start, WatchError, WatchItem, Watcher, WindowLimits};
use support::*;

const WRITERS: u64 = 6;
const WRITES: u64 = 400;
const WATCHERS: u64 = 60;

fn value(dice: &mut Dice) -> String {
    let label = |dice: &mut Dice, key: &str| match dice.roll(4) {
        0 => String::new(),
        n => format!("{key}={n}"),
    };
    let labels = [label(dice, "app"), label(dice, "tier")].join(",");
    let node = match dice.roll(5) {
        0 => String::new(),
        n => format!("node-{n}"),
    };
    format!("{labels}|{node},{}|{}", dice.roll(2), dice.roll(1_000_000))
}

fn random_interest(dice: &mut Dice) -> Interest {
    let namespace = ["", "", "ns-0", "ns-1"][dice.roll(4) as usize];
    let labels =
        ["", "", "app=1", "app in (1,2)", "app!=1", "tier", "!tier", "app=2,tier=3", "tier>1"][dice.roll(9) as usize];
    let fields =
        ["", "", "spec.nodeName=node-1", "spec.nodeName=", "spec.nodeName!=node-2,status.phase=1", "metadata.name=3"]
            [dice.roll(6) as usize];
    interest(namespace, labels, fields)
}

/// Evaluates from the text alone whether an object is selected, independently of the cache's matching.
fn selects(interest: &Interest, path: &str, value: &str) -> bool {
    let (namespace, name) = path.split_once('/').unwrap();
    let mut parts = value.split('|');
    let labels: Vec<(&str, &str)> =
        parts.next().unwrap().split(',').filter_map(|label| label.split_once('=')).collect();
    let fields: Vec<&str> = parts.next().unwrap().split(',').collect();
    interest.namespace.as_ref().is_none_or(|own| own == namespace)
        && interest.labels.matches(|key| labels.iter().find(|(own, _)| *own == key).map(|(_, value)| *value))
        && interest.fields.matches(|field| match field {
            "metadata.name" => Some(name),
            "spec.nodeName" => Some(fields[0]),
            "status.phase" => fields.get(1).copied(),
            _ => None,
        })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_watch_matches_store_history() {
    for seed in 1..=4 {
        run(seed).await;
    }
}

async fn run(seed: u64) {
    let store = FaultyStore::new();
    let limits = WindowLimits { max_events: 1_000_000, max_bytes: usize::MAX, ..WindowLimits::default() };
    let cache = Arc::new(Cache::new(store.clone(), PREFIX, Things::new(), limits));
    let first_write = put(&*store, "ns-0/0", "||").await;
    cache.ready(soon()).await.unwrap();

    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        writers.push(tokio::spawn(write_at_random(store.clone(), writer, Dice(seed * 1000 + writer + 1))));
    }

    let (finish, finished) = tokio::sync::watch::channel(None::<Revision>);
    let mut watchers = Vec::new();
    for number in 0..WATCHERS {
        let (store, cache, finished) = (store.clone(), cache.clone(), finished.clone());
        let client = Client { store, cache, finished, first_write, dice: Dice(seed * 7919 + number + 1) };
        watchers.push(tokio::spawn(client.watch_and_compare()));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let last = store.current_revision().await.unwrap();
    cache.wait_consistent(soon()).await.unwrap();
    finish.send(Some(last)).unwrap();
    for watcher in watchers {
        watcher.await.unwrap();
    }
}

/// Writes random objects. The first writer also cuts the watches of the store.
async fn write_at_random(store: Arc<FaultyStore>, writer: u64, mut dice: Dice) {
    for step in 0..WRITES {
        let path = format!("ns-{}/{}", dice.roll(3), dice.roll(12));
        match dice.roll(4) {
            0 => delete(&*store, &path).await,
            _ => put(&*store, &path, &value(&mut dice)).await,
        };
        if writer == 0 && step % 100 == 50 {
            store.cut();
        }
    }
}

/// A client with a random watch.
struct Client {
    store: Arc<FaultyStore>,
    cache: Arc<Cache>,
    /// The last revision, once all writers have finished.
    finished: tokio::sync::watch::Receiver<Option<Revision>>,
    first_write: Revision,
    dice: Dice,
}

impl Client {
    async fn watch_and_compare(mut self) {
        // Some watches start early, some in the middle, some at the end.
        let started = self.first_write.0 + self.dice.roll(WRITERS * WRITES / 2);
        self.cache.wait_for(Revision(started), soon()).await.ok();
        let interest = random_interest(&mut self.dice);
        let selection = self.cache.selection(interest.clone());
        let (start, from, listing) = self.random_start(&selection).await;
        let with_state = matches!(start, Start::Snapshot { .. });
        let mut watcher = self.cache.subscribe(selection, start, soon()).await.unwrap();
        let mut items = self.read(&mut watcher).await;
        if with_state {
            take_initial_state(&mut items, from, listing);
        }
        let items: Vec<ObservedItem> = items.iter().filter_map(observed).collect();
        self.compare_with_history(interest, from, &items).await;
    }

    /// Returns the start of a watch, its revision, and the list that it starts with.
    async fn random_start(&mut self, selection: &Selection) -> (Start, Revision, Listing) {
        match self.dice.roll(3) {
            0 => (Start::After(self.first_write), self.first_write, Listing::new()),
            1 => {
                let snapshot = self.cache.snapshot(soon()).await.unwrap();
                let from = snapshot.revision();
                (Start::After(from), from, Listing::new())
            }
            _ => {
                let snapshot = self.cache.wait_consistent(soon()).await.unwrap();
                let from = snapshot.revision();
                let mut listing = Listing::new();
                for entry in snapshot.iter(selection, "") {
                    let value = String::from_utf8(entry.value().to_vec()).unwrap();
                    listing.insert(entry.path().to_owned(), (entry.revision().0, value));
                }
                (Start::Snapshot { snapshot, mark_end: true }, from, listing)
            }
        }
    }

    /// Reads up to the last revision. Some clients read slowly.
    async fn read(&mut self, watcher: &mut Watcher) -> Vec<WatchItem> {
        let mut items: Vec<WatchItem> = Vec::new();
        let lazy = self.dice.roll(3) == 0;
        let mut bookmark = Revision(0);
        loop {
            if let Some(last) = *self.finished.borrow()
                && watcher.progress() >= last
            {
                break;
            }
            if lazy {
                tokio::time::sleep(Duration::from_millis(self.dice.roll(20))).await;
            }
            let max = 1 + self.dice.roll(50) as usize;
            tokio::select! {
                next = watcher.next_batch(max, &mut items) => next.unwrap(),
                _ = self.finished.changed() => {}
                // Progress may be made without an event.
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
            bookmark = bookmark.max(watcher.progress());
            // After a bookmark, no events up to its revision may be sent.
            let bookmarked = bookmark;
            let before = items.len();
            if let Ok(next) = tokio::time::timeout(Duration::ZERO, watcher.next_batch(max, &mut items)).await {
                next.unwrap();
            }
            assert!(items[before..].iter().all(|item| item.revision() > bookmarked), "below a bookmark");
        }
        items
    }

    async fn compare_with_history(&self, interest: Interest, from: Revision, items: &[ObservedItem]) {
        let last = self.finished.borrow().unwrap();
        let all = history(&self.store.inner, last).await;
        let want = expected(&all, from, |path, value| selects(&interest, path, value));
        assert_eq!(items, want, "{interest:?} from {from:?}");
        // The initial state and the stream must lead to the final list.
        let before: Vec<ObservedItem> = expected(&all, Revision(0), |path, value| selects(&interest, path, value));
        let earlier: Vec<ObservedItem> = before.into_iter().filter(|observed| observed.revision <= from.0).collect();
        let end_state = replay(replay(Listing::new(), &earlier), items);
        assert_eq!(end_state, list(&self.cache, interest).await.1);
    }
}

/// Removes the initial state from the items of a watch. It must be the list that the watch starts with.
fn take_initial_state(items: &mut Vec<WatchItem>, from: Revision, listing: Listing) {
    let end = items.iter().position(|item| matches!(item, WatchItem::InitialEventsEnd(_))).unwrap();
    assert_eq!(items[end].revision(), from);
    let initial: Vec<ObservedItem> = items.drain(..=end).filter_map(|item| observed(&item)).collect();
    let received: Listing = initial.into_iter().map(|s| (s.path, (s.revision, s.value))).collect();
    assert_eq!(received, listing);
}

/// Clients with a very small window: each one lists, watches, and starts again when its revision is too old.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn expired_watchers_relist_without_missing_events() {
    let store = FaultyStore::new();
    let limits = WindowLimits { min_events: 5, max_events: 40, ..WindowLimits::default() };
    let cache = Arc::new(Cache::new(store.clone(), PREFIX, Things::new(), limits));
    let (finish, finished) = tokio::sync::watch::channel(None::<Revision>);
    let ended = Arc::new(AtomicUsize::new(0));
    let asleep_notice = Arc::new(tokio::sync::Notify::new());
    let mut clients = Vec::new();
    for number in 0..40 {
        let (store, cache, mut finished, ended) = (store.clone(), cache.clone(), finished.clone(), ended.clone());
        let asleep_notice = asleep_notice.clone();
        let mut dice = Dice(number + 77);
        clients.push(tokio::spawn(async move {
            let mut asleep = number == 0;
            let interest = if asleep { Interest::default() } else { random_interest(&mut dice) };
            let selection = cache.selection(interest.clone());
            'list: loop {
                let snapshot = cache.wait_consistent(soon()).await.unwrap();
                let from = snapshot.revision();
                let start = Start::Snapshot { snapshot, mark_end: false };
                let Ok(mut watcher) = cache.subscribe(selection.clone(), start, soon()).await else {
                    ended.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                // One client sleeps longer than any queue lasts.
                if std::mem::take(&mut asleep) {
                    asleep_notice.notify_one();
                    while cache.progress().0 < from.0 + 1300 {
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
                let mut items = Vec::new();
                let outcome = loop {
                    if finished.borrow().is_some_and(|last| watcher.progress() >= last) {
                        break Ok(());
                    }
                    if dice.roll(10) == 0 {
                        tokio::time::sleep(Duration::from_millis(dice.roll(30))).await;
                    }
                    tokio::select! {
                        next = watcher.next_batch(1 + dice.roll(20) as usize, &mut items) => if next.is_err() { break next },
                        _ = finished.changed() => {}
                        () = tokio::time::sleep(Duration::from_millis(5)) => {}
                    }
                };
                // The items sent before the end must be right in any case.
                let received: Vec<ObservedItem> = items.iter().filter_map(observed).collect();
                let until = received.iter().map(|observed| observed.revision).max().unwrap_or(0).max(from.0);
                let all = history(&store.inner, Revision(until)).await;
                let want = expected(&all, from, |path, value| selects(&interest, path, value));
                let initial = items.iter().filter(|item| matches!(item, WatchItem::Initial(_))).count();
                assert_eq!(received[initial..], want, "{interest:?} from {from:?} to {until}");
                match outcome {
                    Ok(()) => {
                        let mut state = Listing::new();
                        for observed in &received[..initial] {
                            state.insert(observed.path.clone(), (observed.revision, observed.value.clone()));
                        }
                        assert_eq!(replay(state, &received[initial..]), list(&cache, interest).await.1);
                        return;
                    }
                    Err(WatchError::Expired { .. }) => {
                        ended.fetch_add(1, Ordering::Relaxed);
                        continue 'list;
                    }
                    Err(other) => panic!("{other:?}"),
                }
            }
        }));
    }
    asleep_notice.notified().await;
    let mut dice = Dice(5);
    for step in 0..3000 {
        let path = format!("ns-{}/{}", dice.roll(3), dice.roll(12));
        match dice.roll(4) {
            0 => delete(&*store, &path).await,
            _ => put(&*store, &path, &value(&mut dice)).await,
        };
        if step % 500 == 499 {
            store.cut();
        }
    }
    let last = store.current_revision().await.unwrap();
    cache.wait_consistent(soon()).await.unwrap();
    finish.send(Some(last)).unwrap();
    for client in clients {
        client.await.unwrap();
    }
    assert!(ended.load(Ordering::Relaxed) > 0, "the window was never too small");
}
