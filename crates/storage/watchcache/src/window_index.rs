//! Finds the events of a bucket in the window, for watches that continue far back.
//!
//! Thousands of nodes may reconnect at once, and each needs a few of a hundred thousand events. The first of them has
//! the index built, for its kind of bucket; until then and later it costs nothing.

use std::collections::{HashMap, VecDeque};
use std::hash::RandomState;
use std::ops::Range;
use std::time::Duration;

use tokio::time::Instant;

use crate::bucket::BucketKind;
use crate::window::Window;

/// The number of events that are indexed at once under the hub's lock.
const STEP: usize = 256;
/// The maximum number of kinds.
const MAX_KINDS: usize = 4;
/// The time after which an unused index is removed.
const UNUSED: Duration = Duration::from_secs(30);
/// The number of outdated positions that is always tolerated.
const FEW: usize = 1024;

#[derive(Debug, Default)]
pub(crate) struct WindowIndex(Vec<KindIndex>);

/// The index of one kind of bucket.
#[derive(Debug)]
pub(crate) struct KindIndex {
    kind: BucketKind,
    /// The numbers of the events that are in the index.
    covered: Range<u64>,
    /// The numbers of the events whose object was or is in the bucket with this hash, in ascending order. Those of
    /// dropped events are removed when the bucket is read.
    buckets: HashMap<u64, VecDeque<u64>>,
    positions: usize,
    used: Instant,
}

impl WindowIndex {
    /// Returns the index of a kind, which is new and empty if there was none. Returns `None` if others are in use.
    pub(crate) fn of(&mut self, kind: &BucketKind, window: &Window, now: Instant) -> Option<&mut KindIndex> {
        self.remove_unused(now);
        let at = match self.0.iter().position(|index| index.kind == *kind) {
            Some(at) => at,
            None if self.0.len() < MAX_KINDS => {
                self.0.push(KindIndex::new(kind.clone(), window.first(), now));
                self.0.len() - 1
            }
            None => return None,
        };
        let index = &mut self.0[at];
        index.used = now;
        let is_outdated = index.positions > 4 * window.len() + FEW;
        // Events were prepended to the window, or most of those in the index are dropped.
        if is_outdated || index.covered.start > window.first() {
            *index = KindIndex::new(index.kind.clone(), window.first(), now);
        }
        Some(index)
    }

    pub(crate) fn remove_unused(&mut self, now: Instant) {
        self.0.retain(|index| now.saturating_duration_since(index.used) < UNUSED);
    }

    /// Removes everything, for a window that starts again.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

impl KindIndex {
    fn new(kind: BucketKind, first: u64, used: Instant) -> Self {
        Self { kind, covered: first..first, buckets: HashMap::new(), positions: 0, used }
    }

    /// Adds the next events. Returns true if the index has all up to the end of the window.
    pub(crate) fn extend(&mut self, window: &Window, hasher: &RandomState) -> bool {
        // The window may have dropped events that the index never had.
        self.covered.end = self.covered.end.max(window.first());
        let mut events = Vec::with_capacity(STEP);
        if window.read(self.covered.end, STEP, &mut events).is_none() {
            return false;
        }
        for event in &events {
            let bucket = |entry: Option<&std::sync::Arc<crate::Entry>>| self.kind.hash(hasher, &entry?.meta);
            let (before, after) = (bucket(event.old()), bucket(event.new_entry()));
            for hash in [after, before.filter(|before| after != Some(*before))].into_iter().flatten() {
                self.buckets.entry(hash).or_default().push_back(event.sequence);
                self.positions += 1;
            }
        }
        self.covered.end += events.len() as u64;
        self.covered.end == window.end()
    }

    /// Returns the numbers of up to `max` events of a bucket, from number `next` on.
    pub(crate) fn events_of(&mut self, hash: u64, window: &Window, next: u64, max: usize) -> Vec<u64> {
        let Some(bucket) = self.buckets.get_mut(&hash) else { return Vec::new() };
        let dropped = bucket.partition_point(|sequence| *sequence < window.first());
        bucket.drain(..dropped);
        self.positions -= dropped;
        let start = bucket.partition_point(|sequence| *sequence < next);
        bucket.range(start..).take(max).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_meta::{FieldSelector, Text};
    use binnacle_store::{KeyValue, Revision};
    use bytes::Bytes;

    use super::*;
    use crate::Entry;
    use crate::attrs::Meta;
    use crate::backlog::Backlog;
    use crate::entry::Event;
    use crate::hub::Hub;
    use crate::selection::{Interest, Selection};
    use crate::window::WindowLimits;

    const NODES: u64 = 7;

    fn selection(terms: &str) -> Selection {
        let fields = FieldSelector::parse(terms).unwrap();
        Selection::new(Interest { fields, ..Interest::default() }, &[Text::new("spec.nodeName")])
    }

    fn pod(node: Option<u64>) -> Option<Arc<Entry>> {
        let node = node.map(|node| Text::from(format!("n{node}")))?;
        let (create_revision, mod_revision) = (Revision(1), Revision(1));
        let (key, value) = (Bytes::from_static(b"/pods/ns/p"), Bytes::new());
        let kv = KeyValue { key, value, create_revision, mod_revision, lease: None };
        Some(Arc::new(Entry::new(Meta::new("ns/p", &[], &[node]), Bytes::new(), false, &kv)))
    }

    /// Publishes changes of a pod that is moved, deleted and created again.
    fn publish(hub: &mut Hub, state: &mut u64, old: &mut Option<u64>, events: u64) {
        for _ in 0..events {
            *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let new = Some(*state >> 60).filter(|node| *node < NODES);
            let revision = Revision(hub.window.newest().0 + 1);
            hub.publish_all(vec![Event::new(revision, pod(*old), pod(new), Instant::now())]);
            *old = new;
        }
    }

    fn selects(selection: &Selection, event: &Event) -> bool {
        let meta = |entry: Option<&Arc<Entry>>| entry.map(|entry| entry.meta.clone());
        selection.change(meta(event.old()).as_ref(), meta(event.new_entry()).as_ref()).is_some()
    }

    /// Reads as a watcher does, and returns the numbers of the events that it selects.
    fn read(hub: &mut Hub, selection: &Selection, mut next: u64) -> Vec<u64> {
        let bucket_key = hub.bucket_key(selection);
        let (mut events, mut found) = (Vec::new(), Vec::new());
        while next < hub.window.end() {
            next = hub.read(&bucket_key, next, 100, &mut events).expect("the window has the event");
            found.extend(events.drain(..).filter(|event| selects(selection, event)).map(|event| event.sequence));
        }
        found
    }

    #[test]
    fn a_watch_on_one_node_gets_the_same_events_with_the_index_as_without() {
        let limits = WindowLimits { max_events: 20_000, ..WindowLimits::default() };
        let mut hub = Hub::new(limits, Backlog::with_default_limit());
        let (mut state, mut old) = (1, None);
        // Beyond the limit, so that the window drops events that the index has.
        for round in 0..30 {
            publish(&mut hub, &mut state, &mut old, 1_500);
            let oldest = hub.window.first();
            let everything = read(&mut hub, &selection(""), oldest);
            assert_eq!(everything, selected_one_by_one(&hub, &selection(""), oldest));
            for (node, skipped) in [(round % NODES, 0), ((round + 1) % NODES, hub.window.len() as u64 / 3)] {
                let only = selection(&format!("spec.nodeName=n{node}"));
                let start = hub.window.first() + skipped;
                let found = read(&mut hub, &only, start);
                assert!(found.len() > hub.window.len() / 40, "{} of {}", found.len(), hub.window.len());
                assert_eq!(found, selected_one_by_one(&hub, &only, start), "round {round}, node {node}");
            }
        }
        assert_eq!(hub.window.len(), 20_000, "events were dropped");
    }

    fn selected_one_by_one(hub: &Hub, selection: &Selection, start: u64) -> Vec<u64> {
        let events = (start..hub.window.end()).filter_map(|sequence| hub.window.get(sequence));
        events.filter(|event| selects(selection, event)).map(|event| event.sequence).collect()
    }
}
