//! States of the past: the present one, with the events since then undone. The window keeps replaced objects, so that a
//! state can be made for as long as watches can continue from it, and costs nothing before.

use std::sync::Arc;

use binnacle_store::Revision;
use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::entry::Event;
use crate::shared::Shared;
use crate::snapshot::{Snapshot, SnapshotInner};

/// Events undone before others get their turn.
const TURN: usize = 256;

impl Shared {
    /// The state at a revision that the window reaches back to, unless more than `most` events came after it.
    pub(crate) async fn rewound(&self, revision: Revision, most: usize, deadline: Instant) -> Option<Snapshot> {
        if self.is_forgotten(revision) {
            return None;
        }
        // One at a time: the next one for the same state finds it kept.
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
            // The undone entry is the event's new one, or this is not the past of that state: the store may have been
            // restored from a backup since.
            if undone.as_ref() != event.new_entry() {
                tracing::debug!(?revision, "a state of the past does not lead to the present one");
                return None;
            }
            // Entries read from the store's history were not written while the cache was there.
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

    /// Waits until the events up to `revision` have reached the window: they get there after the state.
    async fn handed_out(&self, revision: Revision, deadline: Instant) -> Option<()> {
        loop {
            let changed = self.changed.notified();
            if self.progress() >= revision {
                return Some(());
            }
            timeout_at(deadline, changed).await.ok()?;
        }
    }

    /// The events after `from` up to `until`, and when the last change before them was, as far as that is known.
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
