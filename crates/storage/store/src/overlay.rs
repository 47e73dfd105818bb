//! A store on top of a snapshot: nothing of the snapshot is copied until it is written.

mod merge;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt, stream};

use self::merge::Merge;
use crate::{
    Answer, Barrier, Count, Event, Expect, KeyValue, LeaseId, Op, Pages, RangeRequest, RangeResponse, Revision,
    Snapshot, Store, StoreError, Txn, TxnResponse, Watch, WatchControl, WatchMessage,
};

/// A store whose contents are those of a snapshot with the overlay's own writes and deletions. The snapshot is never
/// written. Revisions are those of the own store, and history begins there: the keys of the snapshot keep the revisions
/// at which they were written in its original, which must be older.
///
/// Two details differ from other stores. A key of the snapshot never expires, since its earlier value would appear
/// again: leases are ignored when it is written. And a response that has left keys out counts a key twice that is in
/// both parts of the store behind the limit.
pub struct OverlayStore {
    own: Arc<dyn Store>,
    base: Arc<Snapshot>,
}

/// The own value of a key of the snapshot that was deleted. No stored object has this value.
const DELETED: &[u8] = b"\0deleted";
/// The number of concurrent deletions.
const CONCURRENT: usize = 64;

fn is_deleted(kv: &KeyValue) -> bool {
    kv.value == DELETED
}

/// The parts of an [`OverlayStore`].
pub struct Layers {
    /// The own keys, of which some say that one of the snapshot was deleted.
    pub own: Arc<dyn Store>,
    pub base: Arc<Snapshot>,
}

impl Layers {
    /// Returns true for an own key that was deleted from the snapshot.
    pub fn is_deleted(kv: &KeyValue) -> bool {
        is_deleted(kv)
    }
}

impl OverlayStore {
    pub fn new(own: Arc<dyn Store>, base: Arc<Snapshot>) -> Self {
        Self { own, base }
    }

    /// Executes a transaction on a key that the snapshot has.
    async fn write_base_key(&self, base: KeyValue, txn: Txn) -> Result<TxnResponse, StoreError> {
        loop {
            let (own, revision) = self.own.get(txn.key.clone(), None).await?;
            let expect = own.as_ref().map_or(Expect::Absent, |kv| Expect::ModRevision(kv.mod_revision));
            let current = match own {
                None => Some(base.clone()),
                Some(kv) => (!is_deleted(&kv)).then_some(kv),
            };
            let is_met = match txn.expect {
                Expect::Anything => true,
                Expect::Absent => current.is_none(),
                Expect::ModRevision(expected) => current.as_ref().is_some_and(|kv| kv.mod_revision == expected),
            };
            if !is_met {
                return Ok(TxnResponse::Unmet { current, revision });
            }
            let value = match &txn.op {
                Op::Delete if current.is_none() => return Ok(TxnResponse::Done { revision, previous: None }),
                Op::Delete => Bytes::from_static(DELETED),
                Op::Put { value, .. } => value.clone(),
            };
            let op = Op::Put { value, lease: None };
            match self.own.txn(Txn { key: txn.key.clone(), expect, op }).await? {
                TxnResponse::Done { revision, .. } => return Ok(TxnResponse::Done { revision, previous: current }),
                // Another writer was faster.
                TxnResponse::Unmet { .. } => {}
            }
        }
    }

    /// Returns the number of keys in a range.
    async fn count(&self, request: RangeRequest) -> Result<RangeResponse, StoreError> {
        let own = self.own.range(RangeRequest { limit: 1, count: Count::Returned, ..request.clone() }).await?;
        let mut count = self.base.range(&request.range).len();
        if own.count == 0 {
            return Ok(RangeResponse { kvs: Vec::new(), count, ..own });
        }
        let mut pages = Pages::new(&*self.own, request.range, request.revision.unwrap_or(own.revision));
        while let Some(page) = pages.next().await? {
            for kv in page {
                match (is_deleted(&kv), self.base.get(&kv.key).is_some()) {
                    (true, true) => count -= 1,
                    (false, false) => count += 1,
                    _ => {}
                }
            }
        }
        Ok(RangeResponse { kvs: Vec::new(), more: false, count, revision: own.revision })
    }

    async fn merged(&self, request: RangeRequest) -> Result<RangeResponse, StoreError> {
        let limit = request.limit;
        let mut merge = Merge::begin(&*self.own, &self.base, request).await?;
        let mut kvs = Vec::new();
        while limit == 0 || kvs.len() < limit {
            let Some(kv) = merge.next().await? else { break };
            kvs.push(kv);
        }
        let more = merge.next().await?.is_some();
        let count = if more { kvs.len() + 1 + merge.rest() } else { kvs.len() };
        Ok(RangeResponse { kvs, more, count, revision: merge.current() })
    }

    async fn delete_each(&self, range: Range<Bytes>) -> Result<u64, StoreError> {
        let revision = self.own.current_revision().await?;
        let mut pages = Pages::new(self, range, revision);
        let mut deleted = 0;
        while let Some(page) = pages.next().await? {
            let delete = |kv: KeyValue| self.txn(Txn { key: kv.key, expect: Expect::Anything, op: Op::Delete });
            let responses = stream::iter(page).map(delete).buffer_unordered(CONCURRENT);
            let was_there = |response: &TxnResponse| matches!(response, TxnResponse::Done { previous: Some(_), .. });
            let count = responses.try_fold(0, async |count, response| Ok(count + u64::from(was_there(&response))));
            deleted += count.await?;
        }
        Ok(deleted)
    }
}

/// Returns an event of the own store as one of the overlay; `None` if it changes nothing.
fn overlay_event(base: &Snapshot, event: Event) -> Option<Event> {
    let Event::Put { kv, previous } = event else { return Some(event) };
    let previous = match previous {
        Some(previous) => (!is_deleted(&previous)).then_some(previous),
        None => base.get(&kv.key).cloned(),
    };
    match (is_deleted(&kv), previous) {
        (false, previous) => Some(Event::Put { kv, previous }),
        (true, None) => None,
        (true, previous) => Some(Event::Delete { key: kv.key, revision: kv.mod_revision, previous }),
    }
}

fn overlay_message(base: &Snapshot, message: WatchMessage) -> WatchMessage {
    let WatchMessage::Events(events) = message else { return message };
    let last = events.last().map_or(Revision(0), Event::revision);
    let own: Vec<_> = events.into_iter().filter_map(|event| overlay_event(base, event)).collect();
    if own.is_empty() { WatchMessage::Progress(last) } else { WatchMessage::Events(own) }
}

impl Store for OverlayStore {
    fn get(&self, key: Bytes, revision: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        Box::pin(async move {
            let (own, current) = self.own.get(key.clone(), revision).await?;
            let kv = match own {
                Some(kv) => (!is_deleted(&kv)).then_some(kv),
                None => self.base.get(&key).cloned(),
            };
            Ok((kv, current))
        })
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        match request.count {
            Count::Only => Box::pin(self.count(request)),
            Count::All | Count::Returned => Box::pin(self.merged(request)),
        }
    }

    fn txn(&self, txn: Txn) -> Answer<'_, TxnResponse> {
        match self.base.get(&txn.key) {
            None => self.own.txn(txn),
            Some(base) => Box::pin(self.write_base_key(base.clone(), txn)),
        }
    }

    fn delete_range(&self, range: Range<Bytes>) -> Answer<'_, u64> {
        match self.base.range(&range).is_empty() {
            true => self.own.delete_range(range),
            false => Box::pin(self.delete_each(range)),
        }
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        Box::pin(async move {
            let Watch { messages, control } = self.own.watch(range, after).await?;
            let base = self.base.clone();
            let messages = messages.map(move |message| Ok(overlay_message(&base, message?)));
            Ok(Watch { messages: messages.boxed(), control: Box::new(OverlayWatchControl(control)) })
        })
    }

    fn is_stale(&self, key: Bytes, revision: Revision) -> Answer<'_, bool> {
        Box::pin(async move {
            match self.own.get(key.clone(), None).await? {
                (Some(_), _) => self.own.is_stale(key, revision).await,
                (None, _) => self.base.is_stale(key).await,
            }
        })
    }

    fn layers(&self) -> Option<Layers> {
        Some(Layers { own: self.own.clone(), base: self.base.clone() })
    }

    /// Releases own values. Those of the snapshot are shared with other overlays.
    fn release(&self, key: &[u8], revision: Revision) {
        self.own.release(key, revision);
    }

    fn compact(&self, revision: Revision) -> Answer<'_, ()> {
        self.own.compact(revision)
    }

    fn current_revision(&self) -> Answer<'_, Revision> {
        self.own.current_revision()
    }

    fn compacted_revision(&self) -> Answer<'_, Revision> {
        self.own.compacted_revision()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> Answer<'_, LeaseId> {
        self.own.grant_lease(ttl_seconds)
    }

    fn revoke_lease(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.own.revoke_lease(lease)
    }

    fn lease_remaining(&self, lease: LeaseId) -> Answer<'_, Duration> {
        self.own.lease_remaining(lease)
    }

    fn health(&self) -> Answer<'_, ()> {
        self.own.health()
    }

    fn readiness(&self) -> Answer<'_, ()> {
        self.own.readiness()
    }

    fn is_remote(&self) -> bool {
        self.own.is_remote()
    }
}

/// The control of a watch of the own store, whose digest does not have the keys of the snapshot.
struct OverlayWatchControl(Box<dyn WatchControl>);

impl WatchControl for OverlayWatchControl {
    fn barrier(&self) -> BoxFuture<'_, Result<Barrier, StoreError>> {
        self.0.barrier()
    }
}
