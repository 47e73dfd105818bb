//! Earlier states: the current one with all later events undone. The window has the replaced objects, so a state can be
//! computed as long as watches can continue from it, and costs nothing until then.

use std::sync::Arc;

use binnacle_store::Revision;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::entry::Event;
use crate::shared::Shared;
use crate::snapshot::{Snapshot, SnapshotInner};

/// The number of events undone before other tasks run.
const YIELD_INTERVAL: usize = 256;

impl Shared {
    /// Returns the state at a revision in the window, unless more than `max_events` events came after it.
    pub(crate) async fn rewind(&self, revision: Revision, max_events: usize, deadline: Instant) -> Option<Snapshot> {
        if self.is_forgotten(revision) {
            return None;
        }
        // One at a time: the next caller finds the same state already retained.
        let _turn = timeout_at(deadline, self.rewind_lock.lock()).await.ok()?;
        if let Some(retained) = self.snapshot_at(revision) {
            return Some(retained);
        }
        let current = self.current();
        self.wait_published(current.changed, deadline).await?;
        let (changed, events) = self.events_between(revision, current.changed, max_events)?;
        let (mut objects, mut written) = (current.objects.clone(), current.written);
        for (count, event) in events.iter().rev().enumerate() {
            if count % YIELD_INTERVAL == YIELD_INTERVAL - 1 {
                tokio::task::yield_now().await;
            }
            let replaced = match (event.new_entry(), event.old()) {
                (_, Some(old)) => objects.insert(old.meta.clone(), Arc::clone(old)),
                (Some(new), None) => objects.remove(new.path()),
                (None, None) => continue,
            };
            // The undone entry must be the event's new one. Otherwise the event is not from the history of this state,
            // for example because the store was restored from a backup.
            if replaced.as_ref() != event.new_entry() {
                tracing::debug!(?revision, "a state of the past does not lead to the present one");
                return None;
            }
            // Entries read from the store's history are not included in `written`.
            written = written.saturating_sub(replaced.map_or(0, |entry| entry.size() as u64));
        }
        let inner = SnapshotInner {
            objects,
            indexes: Vec::new(),
            changed,
            written,
            era: current.era,
            owner: current.owner.clone(),
            counts: Mutex::default(),
        };
        let snapshot = Snapshot::new(Arc::new(inner), revision);
        self.retain(&snapshot);
        Some(snapshot)
    }

    /// Waits until the window has the events up to `revision`, which are added to it after the state.
    async fn wait_published(&self, revision: Revision, deadline: Instant) -> Option<()> {
        loop {
            let changed = self.changed.notified();
            if self.progress() >= revision {
                return Some(());
            }
            timeout_at(deadline, changed).await.ok()?;
        }
    }

    /// Returns the events after `from` up to `until`, and the revision of the last change before them, if it is
    /// available.
    fn events_between(
        &self,
        from: Revision,
        until: Revision,
        max_events: usize,
    ) -> Option<(Revision, Vec<Arc<Event>>)> {
        let hub = self.hub.lock();
        let first = hub.window.after(from)?;
        let events = hub.window.up_to(first, until);
        if events.len() > max_events {
            return None;
        }
        Some((hub.window.change_before(first), events.cloned().collect()))
    }
}
