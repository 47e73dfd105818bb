//! Past states: the current one with all later events undone. The window has the replaced objects, so that a state can
//! be computed as long as watches can continue from it, and costs nothing before that.

use std::sync::Arc;

use binnacle_store::Revision;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::entry::Event;
use crate::shared::Shared;
use crate::snapshot::{Snapshot, SnapshotInner};

/// The number of events undone before other tasks run.
const TURN: usize = 256;

impl Shared {
    /// Returns the state at a revision in the window, unless more than `most` events came after it.
    pub(crate) async fn rewound(&self, revision: Revision, most: usize, deadline: Instant) -> Option<Snapshot> {
        if self.is_forgotten(revision) {
            return None;
        }
        // One at a time: the next caller finds the same state already kept.
        let _turn = timeout_at(deadline, self.rewinding.lock()).await.ok()?;
        if let Some(kept) = self.snapshot_at(revision) {
            return Some(kept);
        }
        let present = self.current();
        self.handed_out(present.changed, deadline).await?;
        let (changed, events) = self.since(revision, present.changed, most)?;
        let (mut objects, mut written) = (present.objects.clone(), present.written);
        for (count, event) in events.iter().rev().enumerate() {
            if count % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            let undone = match (event.new_entry(), event.old()) {
                (_, Some(old)) => objects.insert(old.meta.clone(), Arc::clone(old)),
                (Some(new), None) => objects.remove(new.path()),
                (None, None) => continue,
            };
            // The undone entry must be the event's new one. Otherwise the event is not from this state's history, for
            // example because the store was restored from a backup.
            if undone.as_ref() != event.new_entry() {
                tracing::debug!(?revision, "a state of the past does not lead to the present one");
                return None;
            }
            // Entries read from the store's history are not included in `written`.
            written = written.saturating_sub(undone.map_or(0, |entry| entry.size() as u64));
        }
        let inner = SnapshotInner {
            objects,
            indexes: Vec::new(),
            changed,
            written,
            era: present.era,
            owner: present.owner.clone(),
            counts: Mutex::default(),
        };
        let snapshot = Snapshot::new(Arc::new(inner), revision);
        self.retain(&snapshot);
        Some(snapshot)
    }

    /// Waits until the events up to `revision` are in the window, which gets them after the state.
    async fn handed_out(&self, revision: Revision, deadline: Instant) -> Option<()> {
        loop {
            let changed = self.changed.notified();
            if self.progress() >= revision {
                return Some(());
            }
            timeout_at(deadline, changed).await.ok()?;
        }
    }

    /// Returns the events after `from` up to `until`, and the revision of the last change before them, if it is known.
    fn since(&self, from: Revision, until: Revision, most: usize) -> Option<(Revision, Vec<Arc<Event>>)> {
        let hub = self.hub.lock();
        let first = hub.window.after(from)?;
        let events = hub.window.up_to(first, until);
        if events.len() > most {
            return None;
        }
        Some((hub.window.change_before(first), events.cloned().collect()))
    }
}
