//! Caches of stores above one snapshot: they share its objects, and nothing else.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use binnacle_store::{KeyValue, OverlayStore, Pages, Revision, Snapshot, SnapshotWriter, Store, prefix_range};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_watchcache::{Cache, EncodingBudget, EncodingId, WindowLimits};
use bytes::Bytes;
use support::{PREFIX, Things, delete, interest, list, put, soon};

/// Copies all keys of a store to a snapshot.
async fn snapshot(of: &dyn Store) -> Arc<Snapshot> {
    let copy = Arc::new(EmbeddedStore::ephemeral());
    let writer = SnapshotWriter::new(copy.clone());
    let mut pages = Pages::new(of, prefix_range(b"/"), Revision(0));
    while let Some(page) = pages.next().await.expect("a page") {
        for kv in page {
            let revisions = KeyValue { create_revision: Revision(1), mod_revision: Revision(1), ..kv };
            writer.add(revisions).await.expect("a copy");
        }
    }
    Arc::new(Snapshot::load(copy, b"/").await.expect("a snapshot"))
}

#[tokio::test]
async fn objects_of_the_snapshot_are_shared() {
    let original = EmbeddedStore::ephemeral();
    for name in ["a", "b", "c"] {
        put(&original, &format!("ns/{name}"), "app=web|node-1|of the snapshot").await;
    }
    let base = snapshot(&original).await;
    let things = Things::sharing();
    let opened = [(); 2].map(|()| {
        let store = Arc::new(OverlayStore::new(Arc::new(EmbeddedStore::ephemeral()), base.clone()));
        (store.clone(), Cache::new(store, PREFIX, things.clone(), WindowLimits::default()))
    });
    let [(one, cache_of_one), (other, cache_of_other)] = &opened;
    put(&**one, "ns/a", "app=db|node-2|own").await;
    delete(&**one, "ns/b").await;
    put(&**one, "ns/d", "app=web|node-1|new").await;
    for (cache, want) in [(cache_of_one, ["a", "c", "d"]), (cache_of_other, ["a", "b", "c"])] {
        cache.start();
        let (_, listing) = list(cache, interest("", "", "")).await;
        assert!(listing.keys().map(String::as_str).eq(want.map(|name| format!("ns/{name}")).iter()), "{listing:?}");
    }
    let (_, web) = list(cache_of_one, interest("ns", "app=web", "")).await;
    assert_eq!(web.keys().collect::<Vec<_>>(), ["ns/c", "ns/d"]);
    // Three of the snapshot, once, and two of its first user.
    assert_eq!(things.indexed.load(Ordering::Relaxed), 5);

    let [of_one, of_other] = [cache_of_one, cache_of_other].map(|cache| cache.get("ns/c").unwrap());
    assert!(Arc::ptr_eq(&of_one, &of_other));
    // The first reader may end: its encoding is the snapshot's.
    let own = EncodingBudget::new(1 << 20);
    let encode = || Ok::<_, ()>(Bytes::from_static(b"encoded"));
    of_one.encoding(&own, EncodingId(0), encode).unwrap();
    assert_eq!(own.used(), 0);
    assert_eq!(of_other.cached_encoding(EncodingId(0)), Some(Bytes::from_static(b"encoded")));

    // A change in one is nothing in the other.
    put(&**one, "ns/c", "app=web|node-3|changed").await;
    let (_, listing) = list(cache_of_one, interest("", "", "spec.nodeName=node-3")).await;
    assert_eq!(listing.keys().collect::<Vec<_>>(), ["ns/c"]);
    other.current_revision().await.unwrap();
    cache_of_other.wait_consistent(soon()).await.unwrap();
    assert!(Arc::ptr_eq(&cache_of_other.get("ns/c").unwrap(), &of_other));
}

#[tokio::test]
async fn indexers_that_differ_share_nothing() {
    let original = EmbeddedStore::ephemeral();
    put(&original, "ns/a", "app=web||of the snapshot").await;
    let base = snapshot(&original).await;
    let entries = [Things::sharing(), Things::new(), Things::new()].map(async |things| {
        let store = Arc::new(OverlayStore::new(Arc::new(EmbeddedStore::ephemeral()), base.clone()));
        let cache = Cache::new(store, PREFIX, things, WindowLimits::default());
        cache.start();
        cache.wait_consistent(soon()).await.unwrap();
        cache.get("ns/a").unwrap()
    });
    let [sharing, own, other] = entries;
    let (sharing, own, other) = (sharing.await, own.await, other.await);
    assert!(!Arc::ptr_eq(&sharing, &own) && !Arc::ptr_eq(&own, &other));
}
