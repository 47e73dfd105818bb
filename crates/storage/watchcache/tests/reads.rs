//! Lists and gets: snapshots, consistency, revisions, indexes, pages.

mod support;

use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{Expect, Op, Revision, Store, Txn, TxnResponse};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_watchcache::{Cache, CacheError, Interest, Snapshot, Start, WindowLimits};
use bytes::Bytes;
use support::*;
use tokio::time::Instant;

fn setup() -> (Arc<dyn Store>, Cache) {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::ephemeral());
    let cache = Cache::new(store.clone(), PREFIX, Things::new(), WindowLimits::default());
    (store, cache)
}

#[tokio::test]
async fn rewinds_to_past_states() {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::ephemeral());
    let limits = WindowLimits { min_events: 1, max_events: 200, ..WindowLimits::default() };
    let cache = Cache::new(store.clone(), PREFIX, Things::new(), limits);
    let everything = cache.selection(interest("", "", ""));
    let listing = |snapshot: &Snapshot| -> Vec<(String, Revision)> {
        snapshot.iter(&everything, "").map(|entry| (entry.path().to_owned(), entry.revision())).collect()
    };
    let mut dice = Dice(7);
    let mut past = Vec::new();
    for step in 0..400 {
        let path = format!("ns-{}/{}", dice.roll(3), dice.roll(12));
        let revision = match dice.roll(6) {
            0 => delete(&*store, &path).await,
            1 => put(&*store, "/registry/elsewhere", "").await,
            n => put(&*store, &path, &format!("app={n}||{step}")).await,
        };
        past.push((revision, listing(&cache.wait_consistent(soon()).await.unwrap())));
    }
    let stats = cache.stats();
    let mut found = 0;
    for (revision, then) in past.iter().rev() {
        let Some(snapshot) = cache.rewind(*revision, usize::MAX, soon()).await else { continue };
        assert_eq!((snapshot.revision(), &listing(&snapshot)), (*revision, then));
        found += 1;
    }
    // States are available as far back as watches may start, and no further.
    assert!(found > stats.window_events, "{found} states of {} events", stats.window_events);
    assert!(cache.rewind(past[0].0, usize::MAX, soon()).await.is_none());
    // States that need too many events are not computed. Neither are states that the store has compacted.
    let (middle, last) = (past[300].0, past[399].0);
    cache.forget_before(middle);
    assert!(cache.rewind(past[299].0, usize::MAX, soon()).await.is_none());
    assert!(cache.rewind(middle, usize::MAX, soon()).await.is_some());
    put(&*store, "ns-0/0", "||").await;
    put(&*store, "ns-0/1", "||").await;
    cache.wait_consistent(soon()).await.unwrap();
    let cache = Cache::new(store.clone(), PREFIX, Things::new(), limits);
    cache.ready(soon()).await.unwrap();
    let started = cache.progress();
    for name in 0..3 {
        put(&*store, &format!("ns-0/{name}"), "||").await;
    }
    cache.wait_consistent(soon()).await.unwrap();
    for (revision, most, want) in [(last, usize::MAX, false), (started, 2, false), (started, 3, true)] {
        assert_eq!(cache.rewind(revision, most, soon()).await.is_some(), want, "{revision:?} {most}");
    }
    // A watch from an earlier revision loads the events that are needed.
    let (revision, then) = &past[250];
    cache.subscribe(everything.clone(), Start::After(*revision), soon()).await.unwrap();
    let snapshot = cache.rewind(*revision, usize::MAX, soon()).await.unwrap();
    assert_eq!(&listing(&snapshot), then);
}

#[tokio::test]
async fn lists_objects_by_selection() {
    let (store, cache) = setup();
    for (path, value) in [
        ("a/one", "app=web|node-1,Running|"),
        ("a/two", "app=db|node-2,Running|"),
        ("a-b/three", "app=web,tier=back|node-1,Pending|"),
        ("b/one", "|,|"),
        ("b/two", "app=web|node-2,|"),
    ] {
        put(&*store, path, value).await;
    }
    put(&*store, "/registry/others/x", "app=web|node-1,Running|").await;
    for (namespace, labels, fields, want) in [
        ("", "", "", vec!["a-b/three", "a/one", "a/two", "b/one", "b/two"]),
        ("a", "", "", vec!["a/one", "a/two"]),
        ("a-b", "", "", vec!["a-b/three"]),
        ("c", "", "", vec![]),
        ("", "app=web", "", vec!["a-b/three", "a/one", "b/two"]),
        ("a", "app in (web,db)", "", vec!["a/one", "a/two"]),
        ("", "app=web,tier!=back", "", vec!["a/one", "b/two"]),
        ("", "!app", "", vec!["b/one"]),
        ("", "", "spec.nodeName=node-1", vec!["a-b/three", "a/one"]),
        ("", "", "spec.nodeName=", vec!["b/one"]),
        ("b", "", "status.phase=,spec.nodeName!=", vec!["b/two"]),
        ("", "", "metadata.name=one", vec!["a/one", "b/one"]),
        ("", "", "metadata.name=one,metadata.namespace=b", vec!["b/one"]),
        ("a", "app=db", "metadata.name=one", vec![]),
    ] {
        let (_, listing) = list(&cache, interest(namespace, labels, fields)).await;
        assert_eq!(listing.keys().collect::<Vec<_>>(), want, "{namespace} {labels} {fields}");
    }
    assert_eq!(cache.stats().objects, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn consistent_reads_see_own_writes() {
    let (store, cache) = setup();
    let cache = Arc::new(cache);
    let mut writers = Vec::new();
    for writer in 0..8 {
        let (store, cache) = (store.clone(), cache.clone());
        writers.push(tokio::spawn(async move {
            for round in 0..200 {
                let path = format!("ns-{writer}/thing");
                let written = put(&*store, &path, &format!("||{round}")).await;
                let snapshot = cache.wait_consistent(soon()).await.unwrap();
                assert!(snapshot.revision() >= written);
                assert_eq!(snapshot.get(&path).map(|entry| entry.revision()), Some(written));
                let (entry, revision) = cache.get_consistent(&path, soon()).await.unwrap();
                assert!(revision >= written);
                assert_eq!(entry.map(|entry| entry.revision()), Some(written));
                let snapshot = cache.wait_for(written, soon()).await.unwrap();
                assert_eq!(snapshot.get(&path).map(|entry| entry.revision()), Some(written));
            }
            let deleted = delete(&*store, &format!("ns-{writer}/thing")).await;
            let snapshot = cache.wait_consistent(soon()).await.unwrap();
            assert!(snapshot.revision() >= deleted);
            assert!(snapshot.get(&format!("ns-{writer}/thing")).is_none());
        }));
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(cache.stats().objects, 0);
    assert_eq!(cache.stats().bytes, 0);
}

#[tokio::test]
async fn serves_current_and_retained_revisions() {
    let (store, cache) = setup();
    let first = put(&*store, "a/one", "||1").await;
    let snapshot = cache.wait_consistent(soon()).await.unwrap();
    assert_eq!(snapshot.revision(), first);
    // Other keys of the store change, and the state of the things stays valid.
    let outside = put(&*store, "/registry/elsewhere", "").await;
    assert_eq!(cache.wait_for(outside, soon()).await.unwrap().revision(), outside);
    assert_eq!(cache.wait_consistent(soon()).await.unwrap().revision(), outside);
    for (revision, want) in [(first, true), (outside, true), (Revision(outside.0 + 1), false)] {
        assert_eq!(cache.snapshot_at(revision).map(|s| s.revision()), want.then_some(revision));
    }
    cache.retain(&snapshot);
    let second = put(&*store, "a/one", "||2").await;
    let now = cache.wait_consistent(soon()).await.unwrap();
    assert_eq!(now.get("a/one").map(|entry| entry.revision()), Some(second));
    assert_eq!(snapshot.get("a/one").map(|entry| entry.revision()), Some(first));
    let then = cache.snapshot_at(first).unwrap();
    assert_eq!((then.revision(), then.get("a/one").map(|entry| entry.revision())), (first, Some(first)));
    assert!(cache.snapshot_at(Revision(first.0 - 1)).is_none());
    // The cache drops what the store has compacted: retained states, and revisions that the current state covers.
    cache.forget_before(second);
    assert!(cache.snapshot_at(first).is_none());
    let later = put(&*store, "/registry/elsewhere", "2").await;
    assert_eq!(cache.wait_consistent(soon()).await.unwrap().revision(), later);
    cache.forget_before(later);
    for (revision, want) in [(second, false), (later, true)] {
        assert_eq!(cache.snapshot_at(revision).is_some(), want, "{revision:?}");
    }

    let future = Revision(second.0 + 1000);
    let deadline = Instant::now() + Duration::from_millis(120);
    match cache.wait_for(future, deadline).await {
        Err(error @ CacheError::TooLargeRevision { .. }) => {
            assert_eq!(error.to_string(), format!("Too large resource version: {}, current: {}", future.0, later.0));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn waits_for_future_revision() {
    let (store, cache) = setup();
    let first = put(&*store, "a/one", "||1").await;
    let requested = Revision(first.0 + 3);
    let waiting = cache.wait_for(requested, soon());
    let writing = async {
        for round in 0..3 {
            put(&*store, "/registry/elsewhere", &round.to_string()).await;
        }
    };
    let (snapshot, ()) = tokio::join!(waiting, writing);
    assert_eq!(snapshot.unwrap().revision(), requested);
}

#[tokio::test]
async fn pages_are_complete_and_count_remaining() {
    let (store, cache) = setup();
    for namespace in ["a", "b", "c"] {
        for number in 0..25 {
            put(&*store, &format!("{namespace}/{number:02}"), if number % 2 == 0 { "app=even||" } else { "||" }).await;
        }
    }
    let snapshot = cache.wait_consistent(soon()).await.unwrap();
    for (namespace, labels, want) in [("", "", 75), ("b", "", 25), ("", "app=even", 39), ("c", "app=even", 13)] {
        let selection = cache.selection(interest(namespace, labels, ""));
        let mut cursor = snapshot.cursor(selection.clone(), "");
        let mut entries = Vec::new();
        while cursor.fill(7, &mut entries) {
            if labels.is_empty() {
                let next = format!("{}\0", entries.last().map(|entry| entry.path()).unwrap_or_default());
                let of = (!namespace.is_empty()).then_some(namespace);
                assert_eq!(snapshot.remaining(of, &next), want - entries.len());
            }
        }
        assert!(!cursor.fill(7, &mut entries));
        assert_eq!(entries.len(), want);
        assert!(entries.is_sorted_by_key(|entry| entry.path().to_owned()));
        let all: Vec<_> = snapshot.iter(&selection, "").map(|entry| entry.path()).collect();
        assert_eq!(entries.iter().map(|entry| entry.path()).collect::<Vec<_>>(), all);
    }
    assert_eq!(snapshot.remaining(Some("a"), "zzz"), 0);
    assert_eq!(snapshot.remaining(None, ""), 75);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn builds_missing_index_after_slow_list() {
    let (store, cache) = setup();
    for number in 0..3000 {
        let value = format!("app={},all=same|node-{},|", number % 1000, number % 100);
        put(&*store, &format!("ns-{}/{number}", number % 3), &value).await;
    }
    let check = async |store: &dyn Store| {
        for (namespace, labels, fields) in [
            ("", "app=17", ""),
            ("ns-1", "app=17", ""),
            ("", "app=17,all=same", ""),
            ("", "all=same,app=18", ""),
            ("", "", "spec.nodeName=node-5"),
            ("", "app=5", "spec.nodeName=node-5"),
            ("", "all=same", ""),
            ("", "app=nobody", ""),
            ("", "", "metadata.name=1234"),
        ] {
            let case = format!("{namespace} {labels} {fields}");
            let (revision, listing) = list(&cache, interest(namespace, labels, fields)).await;
            let selection = cache.selection(interest(namespace, labels, fields));
            let all = history(store, revision).await;
            let wants = |path: &str, value: &str| {
                let (own_namespace, name) = path.split_once('/').unwrap();
                let (own_labels, own_fields) = value.split_once('|').unwrap();
                (namespace.is_empty() || namespace == own_namespace)
                    && labels.split(',').filter(|l| !l.is_empty()).all(|l| own_labels.split(',').any(|own| own == l))
                    && fields
                        .strip_prefix("spec.nodeName=")
                        .is_none_or(|node| own_fields.starts_with(&format!("{node},")))
                    && fields.strip_prefix("metadata.name=").is_none_or(|wanted| wanted == name)
            };
            let want = replay(Listing::new(), &expected(&all, Revision(0), wants));
            assert_eq!(listing, want, "{case} {selection:?}");
        }
    };
    check(&*store).await;
    // Every list above requests one more index, which is built in the background.
    let until = soon();
    while cache.stats().indexes < 4 && Instant::now() < until {
        list(&cache, interest("", "app=17", "")).await;
        list(&cache, interest("", "all=other", "")).await;
        list(&cache, interest("", "", "spec.nodeName=node-5")).await;
        list(&cache, interest("", "", "metadata.name=1234")).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(cache.stats().indexes, 4);
    check(&*store).await;
    for number in 0..1500 {
        let path = format!("ns-{}/{number}", number % 3);
        match number % 3 {
            0 => delete(&*store, &path).await,
            1 => put(&*store, &path, "app=17|node-6,|").await,
            _ => put(&*store, &path, &format!("app={},all=same|node-{},|again", number % 1000, number % 100)).await,
        };
    }
    check(&*store).await;
    assert_eq!(cache.stats().indexes, 4);
}

#[tokio::test]
async fn unreadable_object_makes_cache_unavailable() {
    let bad = Bytes::from_static(&[0xff, 0xfe]);
    for bad in [bad, Bytes::from_static(PANIC.as_bytes())] {
        let (store, cache) = setup();
        put(&*store, "a/good", "app=web||").await;
        let write_bad =
            || Txn { key: key("a/bad"), expect: Expect::Anything, op: Op::Put { value: bad.clone(), lease: None } };
        store.txn(write_bad()).await.unwrap();
        // A value is unreadable when the cache reads its range for the first time: nothing is served.
        let why = cache.snapshot(soon()).await.unwrap_err();
        assert!(matches!(why, CacheError::NotReady(Some(failure)) if failure.error.is_unreadable()));
        assert!(cache.is_unreadable() && cache.is_unavailable());
        put(&*store, "a/bad", "app=web||").await;
        assert_eq!(names(&cache).await, ["a/bad", "a/good"]);
        // A change is unreadable: the old state is served for a while, and consistent reads get an error.
        store.txn(write_bad()).await.unwrap();
        while !cache.is_unreadable() {
            tokio::task::yield_now().await;
        }
        let why = cache.wait_consistent(Instant::now() + Duration::from_millis(20)).await.unwrap_err();
        assert!(matches!(why, CacheError::TooLargeRevision { requested, current } if current < requested));
        assert!(!cache.is_unavailable());
        assert_eq!(cache.snapshot(soon()).await.unwrap().len(), 2);
        delete(&*store, "a/bad").await;
        assert_eq!(names(&cache).await, ["a/good"]);
        assert!(!cache.is_unreadable());
        assert!(cache.stats().undecodable > 1);
    }
}

/// Returns the names in a consistent list, as soon as one is possible.
async fn names(cache: &Cache) -> Vec<String> {
    loop {
        match cache.wait_consistent(soon()).await {
            Ok(snapshot) => {
                let everything = cache.selection(Interest::default());
                return snapshot.iter(&everything, "").map(|entry| entry.path().to_owned()).collect();
            }
            Err(CacheError::NotReady(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn selects_historic_versions() {
    let (store, cache) = setup();
    let first = put(&*store, "a/x", "app=web|node-1,|").await;
    put(&*store, "a/x", "app=db|node-1,|").await;
    let selection = cache.selection(interest("a", "app=web", "spec.nodeName=node-1"));
    let (then, _) = store.get(key("a/x"), Some(first)).await.unwrap();
    let (now, _) = store.get(key("a/x"), None).await.unwrap();
    for (kv, want) in [(then, true), (now, false)] {
        let entry = cache.entry(&kv.unwrap()).unwrap();
        assert_eq!((entry.path(), selection.selects(&entry)), ("a/x", want));
    }
}

/// A key that is not a valid path is ignored, and blocks no reader.
#[tokio::test]
async fn ignores_keys_that_are_not_utf8() {
    let store = FaultyStore::new();
    let cache = Cache::new(store.clone(), PREFIX, Things::new(), WindowLimits::default());
    put(&*store, "a/x", "||").await;
    cache.wait_consistent(soon()).await.unwrap();
    let key = Bytes::from([PREFIX.as_bytes(), b"a/\xff\xfe"].concat());
    for op in [Op::Put { value: Bytes::from_static(b"||"), lease: None }, Op::Delete] {
        let txn = Txn { key: key.clone(), expect: Expect::Anything, op };
        let TxnResponse::Done { revision, .. } = store.txn(txn).await.unwrap() else { panic!("nothing was expected") };
        let snapshot = cache.wait_consistent(soon()).await.unwrap();
        assert!(snapshot.revision() >= revision);
        assert_eq!(snapshot.len(), 1);
    }
}
