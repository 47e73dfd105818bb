//! A resource of small text objects, a store with failures and faults on demand, and a checker of watch streams.
#![allow(dead_code, reason = "each test program uses a part of the module")]
#![allow(clippy::unwrap_used, reason = "test helpers panic on errors")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use binnacle_meta::{FieldSelector, LabelSelector, Text};
use binnacle_store::{
    Event, Expect, KeyValue, Op, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, Watch,
    WatchMessage,
};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_watchcache::{Attrs, Cache, Change, IndexError, Indexer, Interest, WatchError, WatchItem, Watcher};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::Instant;

pub(crate) const PREFIX: &str = "/registry/things/";

/// A value that makes the indexer panic.
pub(crate) const PANIC: &str = "panic";

/// The indexer of values such as `app=web,tier=back|node-1,Running|anything`.
pub(crate) struct Things {
    fields: Vec<Text>,
    /// The number of indexed objects.
    pub(crate) indexed: AtomicUsize,
    /// True if caches share what it reads of a snapshot.
    is_shared: bool,
}

impl Things {
    pub(crate) fn new() -> Arc<Self> {
        Self::with(false)
    }

    pub(crate) fn sharing() -> Arc<Self> {
        Self::with(true)
    }

    fn with(is_shared: bool) -> Arc<Self> {
        let fields = ["spec.nodeName", "status.phase"].map(Text::new).to_vec();
        Arc::new(Self { fields, indexed: 0.into(), is_shared })
    }
}

impl Indexer for Things {
    fn fields(&self) -> &[Text] {
        &self.fields
    }

    fn index(&self, _key: &[u8], value: &Bytes, _revision: Revision) -> Result<Attrs, IndexError> {
        self.indexed.fetch_add(1, Ordering::Relaxed);
        let text = std::str::from_utf8(value).map_err(|error| IndexError(error.to_string()))?;
        assert_ne!(text, PANIC, "a value that nobody survives looking at");
        let mut parts = text.split('|');
        let labels = parts.next().unwrap_or_default().split(',').filter_map(|label| label.split_once('='));
        let labels = labels.map(|(key, value)| (Text::new(key), Text::new(value))).collect();
        let fields = parts.next().unwrap_or_default().split(',').map(Text::new).collect();
        Ok(Attrs { labels, fields, value: None })
    }

    fn sharing_key(&self) -> Option<Bytes> {
        self.is_shared.then(|| Bytes::from_static(b"things"))
    }
}

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// Returns the key of a thing. A path that begins with a slash is a complete key outside the range.
pub(crate) fn key(path: &str) -> Bytes {
    if path.starts_with('/') { path.to_owned().into() } else { format!("{PREFIX}{path}").into() }
}

pub(crate) async fn put(store: &dyn Store, path: &str, value: &str) -> Revision {
    write(store, path, Op::Put { value: Bytes::copy_from_slice(value.as_bytes()), lease: None }).await
}

pub(crate) async fn delete(store: &dyn Store, path: &str) -> Revision {
    write(store, path, Op::Delete).await
}

async fn write(store: &dyn Store, path: &str, op: Op) -> Revision {
    match store.txn(Txn { key: key(path), expect: Expect::Anything, op }).await {
        Ok(TxnResponse::Done { revision, .. }) => revision,
        other => panic!("{path}: {other:?}"),
    }
}

pub(crate) fn interest(namespace: &str, labels: &str, fields: &str) -> Interest {
    Interest {
        namespace: (!namespace.is_empty()).then(|| Text::new(namespace)),
        name: None,
        labels: LabelSelector::parse(labels).unwrap(),
        fields: FieldSelector::parse(fields).unwrap(),
        shard: None,
    }
}

/// The contents of a list: path, revision and value of each object.
pub(crate) type Listing = BTreeMap<String, (u64, String)>;

pub(crate) async fn list(cache: &Cache, interest: Interest) -> (Revision, Listing) {
    let snapshot = cache.wait_consistent(soon()).await.unwrap();
    let selection = cache.selection(interest);
    let listing = snapshot.iter(&selection, "").map(|entry| {
        let value = String::from_utf8(entry.value().to_vec()).unwrap();
        (entry.path().to_owned(), (entry.revision().0, value))
    });
    (snapshot.revision(), listing.collect())
}

/// One item of a watch: its type, object, revision and value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ObservedItem {
    pub(crate) change: Change,
    pub(crate) path: String,
    pub(crate) revision: u64,
    pub(crate) value: String,
}

pub(crate) fn observed(item: &WatchItem) -> Option<ObservedItem> {
    let entry = item.entry()?;
    Some(ObservedItem {
        change: item.change()?,
        path: entry.path().to_owned(),
        revision: item.revision().0,
        value: String::from_utf8(entry.value().to_vec()).unwrap(),
    })
}

/// Reads until everything up to `revision` has been delivered.
pub(crate) async fn read_until(watcher: &mut Watcher, revision: Revision) -> Vec<WatchItem> {
    try_read_until(watcher, revision).await.unwrap()
}

/// Reads like [`read_until`], from a watch that may end.
pub(crate) async fn try_read_until(watcher: &mut Watcher, revision: Revision) -> Result<Vec<WatchItem>, WatchError> {
    let mut items = Vec::new();
    while watcher.progress() < revision {
        let next = tokio::time::timeout(Duration::from_millis(5), watcher.next_batch(100, &mut items)).await;
        if let Ok(result) = next {
            result?;
        }
    }
    Ok(items)
}

/// Returns the whole history of the things up to `revision`, from the store's own watch.
pub(crate) async fn history(store: &dyn Store, revision: Revision) -> Vec<binnacle_store::Event> {
    // The first write has a revision above 1.
    let start = Revision(1).max(store.compacted_revision().await.unwrap());
    let mut watch = store.watch(binnacle_store::prefix_range(PREFIX.as_bytes()), start).await.unwrap();
    let last = watch.control.barrier().await.unwrap().last_event.min(revision);
    let mut events = Vec::new();
    let mut reached = Revision(0);
    while reached < last {
        match watch.messages.next().await {
            Some(Ok(binnacle_store::WatchMessage::Events(more))) => {
                for event in more {
                    reached = revision_of(&event);
                    if reached <= revision {
                        events.push(event);
                    }
                }
            }
            Some(Ok(binnacle_store::WatchMessage::Progress(_))) => {}
            other => panic!("{other:?}"),
        }
    }
    events
}

pub(crate) fn revision_of(event: &binnacle_store::Event) -> Revision {
    match event {
        binnacle_store::Event::Put { kv, .. } => kv.mod_revision,
        binnacle_store::Event::Delete { revision, .. } => *revision,
    }
}

/// Returns the items that a watcher of `wants(path, value)` must receive for `history` after `from`.
pub(crate) fn expected(
    history: &[binnacle_store::Event],
    from: Revision,
    wants: impl Fn(&str, &str) -> bool,
) -> Vec<ObservedItem> {
    let mut present: BTreeMap<String, String> = BTreeMap::new();
    let mut out = Vec::new();
    for event in history {
        let (key, new) = match event {
            binnacle_store::Event::Put { kv, .. } => (&kv.key, Some(String::from_utf8(kv.value.to_vec()).unwrap())),
            binnacle_store::Event::Delete { key, .. } => (key, None),
        };
        let path = std::str::from_utf8(&key[PREFIX.len()..]).unwrap().to_owned();
        let old = match &new {
            Some(new) => present.insert(path.clone(), new.clone()),
            None => present.remove(&path),
        };
        let was = old.as_deref().is_some_and(|value| wants(&path, value));
        let is = new.as_deref().is_some_and(|value| wants(&path, value));
        let (change, value) = match (was, is) {
            (false, true) => (Change::Added, new),
            (true, true) => (Change::Modified, new),
            (true, false) => (Change::Deleted, old),
            (false, false) => continue,
        };
        let revision = revision_of(event).0;
        if revision > from.0 {
            out.push(ObservedItem { change, path, revision, value: value.unwrap_or_default() });
        }
    }
    out
}

/// Applies a stream to a listing. Panics if the stream contradicts itself.
pub(crate) fn replay(mut listing: Listing, items: &[ObservedItem]) -> Listing {
    let mut newest = 0;
    for item in items {
        assert!(item.revision >= newest, "{item:?} after {newest}");
        newest = item.revision;
        let old = match item.change {
            Change::Deleted => listing.remove(&item.path),
            _ => listing.insert(item.path.clone(), (item.revision, item.value.clone())),
        };
        assert_eq!(old.is_some(), item.change != Change::Added, "{item:?} but there was {old:?}");
        assert!(old.is_none_or(|(revision, _)| revision < item.revision), "{item:?} twice");
    }
    listing
}

/// A fault in one message of a watch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Loss,
    Duplicate,
    Reorder,
    BitFlip,
}

/// Returns the messages to send instead of one. `held` holds a message that is delivered too late.
fn inject(fault: Option<Fault>, mut events: Vec<Event>, held: &mut Option<Vec<Event>>) -> Vec<Vec<Event>> {
    match fault {
        None => [Some(events), held.take()].into_iter().flatten().collect(),
        Some(Fault::Loss) => Vec::new(),
        Some(Fault::Duplicate) => vec![events.clone(), events],
        Some(Fault::Reorder) if events.len() > 1 => {
            events.reverse();
            vec![events]
        }
        Some(Fault::Reorder) => {
            *held = Some(events);
            Vec::new()
        }
        Some(Fault::BitFlip) => {
            for event in &mut events {
                if let Event::Put { kv, .. } = event {
                    let mut value = kv.value.to_vec();
                    let last = value.len() - 1;
                    value[last] ^= 1;
                    kv.value = value.into();
                }
            }
            vec![events]
        }
    }
}

/// A store whose watches can be interrupted and whose methods can fail.
pub(crate) struct FaultyStore {
    me: Weak<Self>,
    pub(crate) inner: EmbeddedStore,
    /// True if watches end at once and no new ones can start.
    pub(crate) down: AtomicBool,
    /// True if no value can be read.
    pub(crate) sealed: AtomicBool,
    /// True if the next watch panics.
    pub(crate) panics: AtomicBool,
    /// The fault that watches inject into the next message.
    pub(crate) fault: Arc<Mutex<Option<Fault>>>,
    cut: Mutex<Vec<tokio::sync::oneshot::Sender<()>>>,
    pub(crate) ranges: AtomicUsize,
    /// The number of watches that were opened.
    pub(crate) watches: AtomicUsize,
}

impl FaultyStore {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            inner: EmbeddedStore::ephemeral(),
            down: false.into(),
            sealed: false.into(),
            panics: false.into(),
            fault: Arc::default(),
            cut: Mutex::default(),
            ranges: 0.into(),
            watches: 0.into(),
        })
    }

    /// Ends all open watches.
    pub(crate) fn cut(&self) {
        for cut in self.cut.lock().drain(..) {
            let _ = cut.send(());
        }
    }

    fn check_sealed(&self) -> Result<(), StoreError> {
        if self.sealed.load(Ordering::Relaxed) {
            return Err(StoreError::Transform { key: PREFIX.to_owned(), why: "the key is gone".to_owned() });
        }
        Ok(())
    }

    fn check_down(&self) -> Result<(), StoreError> {
        if self.down.load(Ordering::Relaxed) { Err(StoreError::Timeout) } else { Ok(()) }
    }
}

impl Store for FaultyStore {
    binnacle_store::delegate_maintenance_to!(inner);

    fn get(&self, key: Bytes, at: Option<Revision>) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>> {
        self.inner.get(key, at)
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>> {
        self.ranges.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            self.check_down()?;
            self.check_sealed()?;
            self.inner.range(request).await
        })
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>> {
        self.inner.txn(txn)
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        self.watches.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            self.check_down()?;
            assert!(!self.panics.swap(false, Ordering::Relaxed), "a task that nobody expected to panic");
            let watch = self.inner.watch(range, after).await?;
            let (cut, end) = tokio::sync::oneshot::channel();
            self.cut.lock().push(cut);
            let me = self.me.clone();
            let (fault, mut held) = (Arc::clone(&self.fault), None);
            let messages = watch.messages.take_until(end).flat_map(move |message| {
                stream::iter(match message {
                    Ok(WatchMessage::Events(events)) => match me.upgrade().map_or(Ok(()), |me| me.check_sealed()) {
                        Ok(()) => {
                            let sent = inject(fault.lock().take(), events, &mut held);
                            sent.into_iter().map(|events| Ok(WatchMessage::Events(events))).collect()
                        }
                        Err(error) => vec![Err(error)],
                    },
                    other => vec![other],
                })
            });
            Ok(Watch { messages: messages.boxed(), control: watch.control })
        })
    }
}

/// A generator of pseudorandom numbers, the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}
