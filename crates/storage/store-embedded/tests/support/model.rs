//! The expected contents of a store, stored in the simplest way: every state it ever had.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use binnacle_store::{
    Count, Event, Expect, KeyValue, LeaseId, Op, RangeRequest, Revision, Store, StoreError, Txn, TxnResponse,
    WatchMessage, prefix_range,
};
use bytes::Bytes;
use futures::StreamExt;

type Contents = BTreeMap<Bytes, KeyValue>;

#[derive(Clone, Debug)]
pub(crate) struct Model {
    /// By revision. The first state is the empty store's, at revision 1.
    states: Vec<Contents>,
    pub(crate) compacted: u64,
    pub(crate) leases: BTreeSet<i64>,
}

impl Default for Model {
    fn default() -> Self {
        Self { states: vec![Contents::new()], compacted: 0, leases: BTreeSet::new() }
    }
}

impl Model {
    pub(crate) fn revision(&self) -> u64 {
        self.states.len() as u64
    }

    pub(crate) fn live(&self) -> &Contents {
        &self.states[self.states.len() - 1]
    }

    pub(crate) fn at(&self, revision: u64) -> &Contents {
        &self.states[revision as usize - 1]
    }

    /// Executes a transaction. Returns the store's expected response.
    pub(crate) fn txn(&mut self, txn: &Txn) -> Result<TxnResponse, StoreError> {
        let current = self.live().get(&txn.key).cloned();
        let met = match txn.expect {
            Expect::Anything => true,
            Expect::Absent => current.is_none(),
            Expect::ModRevision(revision) => current.as_ref().is_some_and(|kv| kv.mod_revision == revision),
        };
        if !met {
            return Ok(TxnResponse::Unmet { current, revision: Revision(self.revision()) });
        }
        let mut next = self.live().clone();
        let revision = Revision(self.revision() + 1);
        match &txn.op {
            Op::Put { lease: Some(lease), .. } if !self.leases.contains(&lease.0) => {
                return Err(StoreError::LeaseNotFound);
            }
            Op::Put { value, lease } => {
                let create_revision = current.as_ref().map_or(revision, |kv| kv.create_revision);
                let (key, value, lease) = (txn.key.clone(), value.clone(), *lease);
                next.insert(key.clone(), KeyValue { key, value, create_revision, mod_revision: revision, lease });
            }
            Op::Delete => {
                if next.remove(&txn.key).is_none() {
                    return Ok(TxnResponse::Done { revision: Revision(self.revision()), previous: None });
                }
            }
        }
        self.states.push(next);
        Ok(TxnResponse::Done { revision, previous: current })
    }

    pub(crate) fn revoke(&mut self, lease: i64) -> bool {
        if !self.leases.remove(&lease) {
            return false;
        }
        let mut next = self.live().clone();
        next.retain(|_, kv| kv.lease != Some(LeaseId(lease)));
        if next.len() < self.live().len() {
            self.states.push(next);
        }
        true
    }

    /// Returns the events of a range after a revision, one line each.
    pub(crate) fn events(&self, range: &Range<Bytes>, after: u64) -> Vec<String> {
        let mut events = Vec::new();
        for revision in after + 1..=self.revision() {
            let (old, new) = (self.at(revision - 1), self.at(revision));
            let keys: BTreeSet<_> = old.keys().chain(new.keys()).filter(|key| range.contains(*key)).collect();
            for key in keys {
                if old.get(key) != new.get(key) {
                    events.push(match new.get(key) {
                        Some(kv) => describe(&Event::Put { kv: kv.clone(), previous: old.get(key).cloned() }),
                        None => describe(&Event::Delete {
                            key: key.clone(),
                            revision: Revision(revision),
                            previous: old.get(key).cloned(),
                        }),
                    });
                }
            }
        }
        events
    }

    /// Compares everything that a store returns with the model.
    pub(crate) async fn check(&self, store: &dyn Store, context: &str) {
        assert_eq!(store.current_revision().await.expect("a revision").0, self.revision(), "{context}: revision");
        assert_eq!(store.compacted_revision().await.expect("a revision").0, self.compacted, "{context}: compaction");
        for revision in self.compacted.max(1)..=self.revision() {
            self.check_at(store, revision, context).await;
        }
        let everything = prefix_range(b"/");
        let live = list(store, &everything, None).await.expect("a list");
        assert_eq!(live, self.live().values().cloned().collect::<Vec<_>>(), "{context}: live objects");
        if self.compacted > 1 {
            let past = list(store, &everything, Some(self.compacted - 1)).await;
            assert!(matches!(past, Err(StoreError::Compacted { .. })), "{context}: {past:?}");
        }
        for range in [everything, prefix_range(b"/a/"), prefix_range(b"/b/")] {
            let expected = self.events(&range, self.compacted.max(1));
            let seen = events(store, range, self.compacted.max(1), expected.len()).await;
            assert_eq!(seen, expected, "{context}: events");
        }
    }

    async fn check_at(&self, store: &dyn Store, revision: u64, context: &str) {
        let listed = list(store, &prefix_range(b"/"), Some(revision)).await.expect("a list");
        let expected: Vec<_> = self.at(revision).values().cloned().collect();
        assert_eq!(listed, expected, "{context}: at revision {revision}");
    }
}

pub(crate) async fn list(
    store: &dyn Store,
    range: &Range<Bytes>,
    revision: Option<u64>,
) -> Result<Vec<KeyValue>, StoreError> {
    let revision = revision.map(Revision);
    let response = store.range(RangeRequest { range: range.clone(), revision, limit: 0, count: Count::All }).await?;
    assert_eq!((response.count, response.more), (response.kvs.len(), false));
    Ok(response.kvs)
}

/// Returns the first `count` events of a watch.
pub(crate) async fn events(store: &dyn Store, range: Range<Bytes>, after: u64, count: usize) -> Vec<String> {
    let mut watch = store.watch(range, Revision(after)).await.expect("a watch");
    let mut seen = Vec::new();
    while seen.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(30), watch.messages.next());
        match next.await.expect("an event in time").expect("the watch goes on").expect("the watch goes on") {
            WatchMessage::Events(events) => seen.extend(events.iter().map(describe)),
            WatchMessage::Progress(_) => {}
        }
    }
    seen
}

pub(crate) fn describe(event: &Event) -> String {
    let show = |kv: &KeyValue| {
        let (key, value) = (String::from_utf8_lossy(&kv.key), String::from_utf8_lossy(&kv.value));
        format!("{key}={value}@{}/{} {:?}", kv.mod_revision.0, kv.create_revision.0, kv.lease)
    };
    match event {
        Event::Put { kv, previous } => format!("put {} was {:?}", show(kv), previous.as_ref().map(show)),
        Event::Delete { key, revision, previous } => {
            let key = String::from_utf8_lossy(key);
            format!("delete {key} @{} was {:?}", revision.0, previous.as_ref().map(show))
        }
    }
}
