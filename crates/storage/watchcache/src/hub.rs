//! Dispatch of events to watchers, which are grouped by their selections.
//!
//! A watcher is in one bucket, whose key is the most selective property that all its events have: a name, a field's
//! value, a label's value, or a namespace. An event is dispatched to the buckets of its object's old and new state. Its
//! cost is proportional to the watchers in these buckets, plus one lookup for each kind of bucket.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use tokio::time::Instant;

use crate::attrs::Meta;
use crate::backlog::Backlog;
use crate::bucket::{BucketKey, BucketKind};
use crate::entry::{Change, Event};
use crate::mailbox::{EndReason, Mailbox};
use crate::selection::Selection;
use crate::stats::ShardStats;
use crate::window::{Window, WindowLimits};
use crate::window_index::WindowIndex;

/// The window of events and all watchers. One lock protects both, so that it is always clear which events are in the
/// window and which ones a new watcher will receive.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) window: Window,
    index: WindowIndex,
    groups: Vec<Group>,
    hasher: RandomState,
    watchers: usize,
    pub(crate) shards: ShardStats,
    closed: bool,
}

/// The watchers whose buckets have one kind of key.
#[derive(Debug)]
struct Group {
    kind: BucketKind,
    buckets: HashMap<u64, Vec<Arc<Mailbox>>>,
}

/// The maximum number of kinds of buckets. Each one costs a lookup per event, and clients can use arbitrary label keys.
const MAX_GROUPS: usize = 64;
/// The number of events behind the newest one from which a watcher on one name, field or label has an index built.
const FAR: u64 = 2048;

impl Hub {
    pub(crate) fn new(limits: WindowLimits, backlog: Arc<Backlog>) -> Self {
        let window = Window::new(limits, backlog);
        Self {
            window,
            index: WindowIndex::default(),
            groups: Vec::new(),
            hasher: RandomState::new(),
            watchers: 0,
            shards: ShardStats::default(),
            closed: false,
        }
    }

    /// Returns the bucket of a watcher with this selection.
    pub(crate) fn bucket_key(&self, selection: &Selection) -> BucketKey {
        let namespaced = selection.namespace().is_some();
        let (property, value) = selection.equalities().next().unzip();
        let mut kind = BucketKind { namespaced, property };
        let mut value = value;
        if self.groups.len() >= MAX_GROUPS && !self.groups.iter().any(|group| group.kind == kind) {
            (kind.property, value) = (None, None);
        }
        let hash = self.hasher.hash_one((selection.namespace(), value));
        BucketKey { kind, hash }
    }

    /// Returns an equal selection of a watcher in the same bucket, if there is one. All kubelets and proxies use the
    /// same selections, and a shared selection is matched once per event.
    pub(crate) fn share_selection(&self, bucket_key: &BucketKey, selection: Arc<Selection>) -> Arc<Selection> {
        let group = self.groups.iter().find(|group| group.kind == bucket_key.kind);
        let neighbor = group.and_then(|group| group.buckets.get(&bucket_key.hash)?.last());
        match neighbor.map(|mailbox| mailbox.selection()) {
            Some(same) if **same == *selection => Arc::clone(same),
            _ => selection,
        }
    }

    pub(crate) fn add(&mut self, mailbox: &Arc<Mailbox>) {
        if self.closed {
            mailbox.end(EndReason::Closed);
            return;
        }
        let BucketKey { kind, hash } = mailbox.bucket_key();
        let index = match self.groups.iter().position(|group| group.kind == *kind) {
            Some(index) => index,
            None => {
                self.groups.push(Group { kind: kind.clone(), buckets: HashMap::new() });
                self.groups.len() - 1
            }
        };
        let bucket = self.groups[index].buckets.entry(*hash).or_default();
        mailbox.set_slot(bucket.len());
        bucket.push(Arc::clone(mailbox));
        self.watchers += 1;
        if mailbox.selection().is_of_shard() {
            self.shards.watchers += 1;
            self.shards.watched += 1;
        }
    }

    pub(crate) fn remove(&mut self, mailbox: &Arc<Mailbox>) {
        let BucketKey { kind, hash } = mailbox.bucket_key();
        let Some(index) = self.groups.iter().position(|group| group.kind == *kind) else { return };
        let buckets = &mut self.groups[index].buckets;
        let Some(bucket) = buckets.get_mut(hash) else { return };
        let slot = mailbox.slot();
        if !bucket.get(slot).is_some_and(|own| Arc::ptr_eq(own, mailbox)) {
            return;
        }
        bucket.swap_remove(slot);
        if let Some(moved) = bucket.get(slot) {
            moved.set_slot(slot);
        }
        self.watchers -= 1;
        if mailbox.selection().is_of_shard() {
            self.shards.watchers -= 1;
        }
        if bucket.is_empty() {
            buckets.remove(hash);
            if buckets.is_empty() {
                self.groups.swap_remove(index);
            }
        }
    }

    pub(crate) fn publish_all(&mut self, events: Vec<Event>) {
        if let Some(last) = events.last() {
            self.index.remove_unused(last.at);
        }
        for event in events {
            self.publish(event);
        }
    }

    /// Copies events that a watcher in this bucket may select, from number `next` on: at most `max`, or none while an
    /// index is being built. Returns the number from which the watcher continues, or `None` if that event was dropped.
    pub(crate) fn read(
        &mut self,
        bucket_key: &BucketKey,
        next: u64,
        max: usize,
        out: &mut Vec<Arc<Event>>,
    ) -> Option<u64> {
        let all = |window: &Window, max: usize, out: &mut Vec<Arc<Event>>| {
            let before = out.len();
            window.read(next, max, out)?;
            Some(next + (out.len() - before) as u64)
        };
        let BucketKey { kind, hash } = bucket_key;
        if kind.property.is_none() || self.window.end().saturating_sub(next) < FAR || next < self.window.first() {
            return all(&self.window, max, out);
        }
        let Some(index) = self.index.of(kind, &self.window, Instant::now()) else {
            return all(&self.window, max, out);
        };
        if !index.extend(&self.window, &self.hasher) {
            return Some(next);
        }
        let found = index.events_of(*hash, &self.window, next, max);
        let is_last = found.len() < max;
        let last = found.last().copied();
        out.extend(found.into_iter().filter_map(|sequence| self.window.get(sequence)).cloned());
        match last {
            Some(last) if !is_last => Some(last + 1),
            _ => Some(self.window.end()),
        }
    }

    /// Adds an event to the window and passes it to the watchers that select it.
    fn publish(&mut self, event: Event) {
        let event = self.window.push(event);
        let meta = |entry: Option<&Arc<crate::Entry>>| entry.map(|entry| entry.meta.clone());
        let (old, new) = (meta(event.old()), meta(event.new_entry()));
        for group in &self.groups {
            let before = old.as_ref().and_then(|meta| group.kind.hash(&self.hasher, meta));
            let after = new.as_ref().and_then(|meta| group.kind.hash(&self.hasher, meta));
            let both = [after, before.filter(|before| after != Some(*before))];
            for bucket in both.into_iter().flatten().filter_map(|hash| group.buckets.get(&hash)) {
                let mut last: Option<(&Arc<Selection>, Option<Change>)> = None;
                for mailbox in bucket {
                    let selection = mailbox.selection();
                    let change = match last {
                        Some((previous, result)) if Arc::ptr_eq(previous, selection) => result,
                        _ => selection.change(old.as_ref(), new.as_ref()),
                    };
                    last = Some((selection, change));
                    self.shards.filtered += selection.count_of_other_shards(old.as_ref(), new.as_ref());
                    if let Some(change) = change {
                        mailbox.offer(&event, change);
                    }
                }
            }
        }
    }

    /// Ends the watches that hold events dropped by the window, and returns their number.
    pub(crate) fn end_late_watchers(&mut self) -> usize {
        let first = self.window.first();
        let mailboxes = self.groups.iter().flat_map(|group| group.buckets.values()).flatten();
        let ended = mailboxes.filter(|mailbox| mailbox.end_if_late(first)).count();
        // The remaining dropped events have been taken by a reader.
        self.window.clear_dropped();
        ended
    }

    /// Ends every watch because of a gap in the events. The window starts again after `baseline`.
    pub(crate) fn end_with_gap(&mut self, baseline: binnacle_store::Revision) {
        self.window.reset(baseline);
        self.index.clear();
        self.end_all(EndReason::Gap);
    }

    /// Ends every watch silently. The clients reconnect, and get the error then.
    pub(crate) fn dismiss(&mut self) {
        self.end_all(EndReason::Dismissed);
    }

    /// Ends every watch like [`Hub::dismiss`], but permanently: no new watch can start.
    pub(crate) fn retire(&mut self) {
        self.closed = true;
        self.end_all(EndReason::Dismissed);
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.end_all(EndReason::Closed);
    }

    pub(crate) fn watchers(&self) -> usize {
        self.watchers
    }

    fn end_all(&mut self, end_reason: EndReason) {
        for mailbox in self.groups.iter().flat_map(|group| group.buckets.values()).flatten() {
            mailbox.end(end_reason);
        }
        self.groups.clear();
        self.watchers = 0;
    }
}

impl BucketKind {
    /// Returns the hash of an object's bucket, or `None` if the object does not have the property, so that no watcher
    /// in the group selects it.
    pub(crate) fn hash(&self, hasher: &RandomState, meta: &Meta) -> Option<u64> {
        let namespace = self.namespaced.then(|| meta.namespace());
        let value = match &self.property {
            Some(property) => Some(property.of(meta)?),
            None => None,
        };
        Some(hasher.hash_one((namespace, value)))
    }
}
