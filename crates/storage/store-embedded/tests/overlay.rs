//! A store on top of a snapshot: the contract, and random work compared with the same work on one store.

mod support;

use std::sync::Arc;

use binnacle_store::{
    Count, Event, Expect, KeyValue, Op, OverlayStore, Pages, RangeRequest, Revision, Snapshot, SnapshotWriter, Store,
    Txn, TxnResponse, WatchMessage, prefix_range,
};
use binnacle_store_embedded::EmbeddedStore;
use bytes::Bytes;
use futures::StreamExt;
use support::work::Rng;

/// Copies all keys of a store.
async fn snapshot(of: &dyn Store) -> Arc<Snapshot> {
    let copy = Arc::new(EmbeddedStore::ephemeral());
    let writer = SnapshotWriter::new(copy.clone());
    let mut pages = Pages::new(of, prefix_range(b""), Revision(0));
    while let Some(page) = pages.next().await.expect("a page") {
        for kv in page {
            writer.add(kv).await.expect("a copy");
        }
    }
    Arc::new(Snapshot::load(copy, b"").await.expect("a snapshot"))
}

async fn put(store: &dyn Store, key: &str, value: &str) {
    let op = Op::Put { value: value.to_owned().into(), lease: None };
    store.txn(Txn { key: key.to_owned().into(), expect: Expect::Anything, op }).await.expect("a put");
}

mod on_nothing {
    use super::*;

    async fn store() -> ((), Arc<dyn Store>) {
        let base = snapshot(&EmbeddedStore::ephemeral()).await;
        ((), Arc::new(OverlayStore::new(Arc::new(EmbeddedStore::ephemeral()), base)))
    }

    binnacle_store::contract_tests!(store);
}

#[tokio::test]
async fn deleted_keys_of_the_snapshot_are_not_there() {
    let original = EmbeddedStore::ephemeral();
    for key in ["/d", "/d/a", "/d/b"] {
        put(&original, key, "of the snapshot").await;
    }
    let store = OverlayStore::new(Arc::new(EmbeddedStore::ephemeral()), snapshot(&original).await);
    assert_eq!(store.delete_range(prefix_range(b"")).await.expect("a deletion"), 3);
    let request = RangeRequest { range: prefix_range(b""), revision: None, limit: 0, count: Count::All };
    assert_eq!(store.range(request.clone()).await.expect("a range").kvs, []);
    assert_eq!(store.range(RangeRequest { count: Count::Only, ..request }).await.expect("a range").count, 0);
}

/// A key without its revisions, which differ between the two stores.
fn plain(kv: &KeyValue) -> (Bytes, Bytes) {
    (kv.key.clone(), kv.value.clone())
}

fn plain_event(event: &Event) -> (bool, Bytes, Option<Bytes>, Option<Bytes>) {
    let value = |kv: &KeyValue| kv.value.clone();
    match event {
        Event::Put { kv, previous } => (true, kv.key.clone(), Some(value(kv)), previous.as_ref().map(value)),
        Event::Delete { key, previous, .. } => (false, key.clone(), None, previous.as_ref().map(value)),
    }
}

/// The overlay and the store that it is compared with.
struct Pair {
    overlay: OverlayStore,
    model: EmbeddedStore,
}

impl Pair {
    async fn new(random: &mut Rng) -> Self {
        let model = EmbeddedStore::ephemeral();
        for _ in 0..random.below(30) {
            put(&model, &key(random), &format!("base {}", random.below(60_000))).await;
        }
        let own = EmbeddedStore::ephemeral();
        // The revisions of the overlay are above those of the snapshot.
        for _ in 0..model.current_revision().await.expect("a revision").0 + 5 {
            put(&own, "/outside", "").await;
        }
        Self { overlay: OverlayStore::new(Arc::new(own), snapshot(&model).await), model }
    }

    /// Executes a transaction with a kind of expectation on both stores.
    async fn write(&self, random: &mut Rng) {
        let (key, kind) = (Bytes::from(key(random)), random.below(5));
        let op = match random.below(3) {
            0 => Op::Delete,
            _ => Op::Put { value: format!("own {}", random.below(60_000)).into(), lease: None },
        };
        let mut responses = Vec::new();
        for store in [&self.overlay as &dyn Store, &self.model] {
            let (current, _) = store.get(key.clone(), None).await.expect("a read");
            let expect = match (kind, current) {
                (0, _) => Expect::Absent,
                (1, _) => Expect::ModRevision(Revision(1)),
                (2 | 3, Some(current)) => Expect::ModRevision(current.mod_revision),
                _ => Expect::Anything,
            };
            let txn = Txn { key: key.clone(), expect, op: op.clone() };
            responses.push(match store.txn(txn).await.expect("a response") {
                TxnResponse::Done { previous, .. } => (true, previous.as_ref().map(plain)),
                TxnResponse::Unmet { current, .. } => (false, current.as_ref().map(plain)),
            });
        }
        assert_eq!(responses[0], responses[1], "{key:?} {op:?}");
    }

    /// Compares a range: at a revision of each, with and without a limit, page by page, and its count.
    async fn compare(&self, revisions: Option<(Revision, Revision)>, random: &mut Rng) {
        let range = match random.below(3) {
            0 => prefix_range(b"/k"),
            1 => prefix_range(format!("/k/{}", random.below(4)).as_bytes()),
            _ => Bytes::from(key(random))..Bytes::from(key(random)),
        };
        let limit = random.below(6) as usize;
        let mut seen = Vec::new();
        let stores = [
            (&self.overlay as &dyn Store, revisions.map(|(own, _)| own)),
            (&self.model, revisions.map(|(_, model)| model)),
        ];
        for (store, revision) in stores {
            let request = RangeRequest { range: range.clone(), revision, limit, count: Count::All };
            let response = store.range(request.clone()).await.expect("a range");
            let count = store.range(RangeRequest { count: Count::Only, ..request }).await.expect("a count").count;
            assert!(response.count >= response.kvs.len() + usize::from(response.more));
            let mut pages = Pages::new(store, range.clone(), revision.unwrap_or_default());
            let mut all = Vec::new();
            while let Some(page) = pages.next().await.expect("a page") {
                all.extend(page.iter().map(plain));
            }
            seen.push((response.kvs.iter().map(plain).collect::<Vec<_>>(), response.more, count, all));
        }
        assert_eq!(seen[0], seen[1], "{range:?} limit {limit} at {revisions:?}");
    }
}

fn key(random: &mut Rng) -> String {
    format!("/k/{}/{}", random.below(4), random.below(6))
}

async fn events(store: &dyn Store, after: Revision, count: usize) -> Vec<(bool, Bytes, Option<Bytes>, Option<Bytes>)> {
    let mut watch = store.watch(prefix_range(b"/k/"), after).await.expect("a watch");
    let mut seen = Vec::new();
    while seen.len() < count {
        match watch.messages.next().await.expect("the watch continues").expect("a message") {
            WatchMessage::Events(events) => seen.extend(events.iter().map(plain_event)),
            WatchMessage::Progress(_) => {}
        }
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overlay_is_one_store() {
    for seed in 0..60 {
        let mut random = Rng::new(seed);
        let pair = Pair::new(&mut random).await;
        let now = async || {
            let of = async |store: &dyn Store| store.current_revision().await.expect("a revision");
            (of(&pair.overlay).await, of(&pair.model).await)
        };
        let begin = now().await;
        let mut moments = vec![begin];
        for _ in 0..60 {
            pair.write(&mut random).await;
            moments.push(now().await);
            let moment = moments[random.below(moments.len() as u64) as usize];
            let past = random.below(3) == 0;
            pair.compare(past.then_some(moment), &mut random).await;
        }
        // Each write of the model is one event of both.
        let count = (now().await.1.0 - begin.1.0) as usize;
        let (own, model) = (events(&pair.overlay, begin.0, count).await, events(&pair.model, begin.1, count).await);
        assert_eq!(own, model, "seed {seed}");
        let start = random.below(4);
        let range = prefix_range(format!("/k/{start}").as_bytes());
        let deleted = pair.overlay.delete_range(range.clone()).await.expect("a deletion");
        assert_eq!(deleted, pair.model.delete_range(range).await.expect("a deletion"));
        pair.compare(None, &mut random).await;
    }
}

#[tokio::test]
async fn keys_of_the_snapshot_keep_their_revisions_and_never_expire() {
    let original = EmbeddedStore::ephemeral();
    put(&original, "/a", "one").await;
    put(&original, "/a", "two").await;
    let (before, _) = original.get("/a".into(), None).await.expect("a read");
    let store = OverlayStore::new(Arc::new(EmbeddedStore::ephemeral()), snapshot(&original).await);
    assert_eq!(store.get("/a".into(), None).await.expect("a read").0, before);
    let lease = store.grant_lease(3600).await.expect("a lease");
    let op = Op::Put { value: "three".into(), lease: Some(lease) };
    store.txn(Txn { key: "/a".into(), expect: Expect::Anything, op }).await.expect("a put");
    store.revoke_lease(lease).await.expect("a revocation");
    assert_eq!(store.get("/a".into(), None).await.expect("a read").0.expect("a key").value, "three");
}
