//! The committer, the only thread that writes: it evaluates transactions, makes many of them durable in one step, makes
//! them visible to readers and watches, and then replies to their callers.

use std::collections::HashMap;
use std::io;
use std::ops::{ControlFlow, Range};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use binnacle_store::{Event, Expect, KeyValue, LeaseId, Op, Revision, StoreError, Txn, TxnResponse};
use bytes::Bytes;

use crate::command::{Command, DeletedKeys, Reply};
use crate::disk::{Batch, Disk};
use crate::error::{no_space, read_error};
use crate::files::{is_out_of_space, is_transient};
use crate::history;
use crate::hub::Wakers;
use crate::index::{LiveVersion, VersionLookup, lease_id};
use crate::lease::MAX_TTL_SECONDS;
use crate::queue::{GroupEstimate, MAX_GROUP_BYTES};
use crate::record::{self, Deletion, Put};
use crate::recovery;
use crate::shared::{Shared, State};

/// The maximum number of keys that are deleted together. Other writers wait for them.
const MAX_DELETED_KEYS: usize = 512;
/// The pause before the end of a lease is retried after the disk failed the write.
const EXPIRY_RETRY: Duration = Duration::from_secs(1);

/// Runs until the queue is closed.
pub(crate) fn run(shared: &Shared, disk: &dyn Disk) {
    let now = Instant::now();
    let next_progress = now + shared.watch.progress_interval;
    let mut committer = Committer { shared, disk, next_progress, next_expiry: now, estimate: GroupEstimate::default() };
    // A panic here is a bug: callers must not wait forever, and later writes must not build on this state.
    if catch_unwind(AssertUnwindSafe(|| committer.run())).is_err() {
        shared.fail(&io::Error::other("the committer stopped unexpectedly"));
        shared.queue.abandon();
    }
}

struct Committer<'a> {
    shared: &'a Shared,
    disk: &'a dyn Disk,
    next_progress: Instant,
    /// No lease is ended before this time.
    next_expiry: Instant,
    estimate: GroupEstimate,
}

/// Transactions that have been evaluated but are not durable yet.
struct Draft {
    /// The revision of its newest transaction, or the store's revision if it has none.
    revision: u64,
    batch: Batch,
    bytes: usize,
    /// Values that are not visible to readers yet, for later transactions of the same draft. `None` means deleted.
    pending: HashMap<Bytes, Option<KeyValue>>,
    changes: Vec<Change>,
    effects: Vec<Effect>,
    replies: Vec<PendingReply>,
}

struct Change {
    key: Bytes,
    revision: u64,
    /// `None` means deleted.
    kv: Option<KeyValue>,
    previous: Option<KeyValue>,
}

/// A change in memory, other than of a key, that is applied when the draft is durable.
enum Effect {
    Granted { lease: i64, ttl_seconds: u64 },
    Revoked { lease: i64 },
    Compacted { revision: u64 },
}

enum PendingReply {
    Txn(Reply<TxnResponse>, TxnResponse),
    Granted(Reply<LeaseId>, LeaseId),
    Deleted(Reply<DeletedKeys>, DeletedKeys),
    Done(Reply<()>),
}

// === impl Committer ===

impl Committer<'_> {
    fn run(&mut self) {
        while let Some(commands) = self.next_commands() {
            self.expire_leases();
            self.send_progress();
            let (count, started) = (commands.len(), Instant::now());
            let mut draft = self.draft();
            for command in commands {
                // A lease and a range are deleted in a step of their own: they delete the keys that are visible to readers,
                // so no write may be pending before them, and no later write may attach a key to the lease.
                let is_exclusive = matches!(command, Command::Revoke { .. } | Command::DeleteRange { .. });
                if is_exclusive || draft.bytes >= MAX_GROUP_BYTES {
                    self.commit(draft);
                    draft = self.draft();
                }
                self.execute(&mut draft, command);
                if is_exclusive {
                    self.commit(draft);
                    draft = self.draft();
                }
            }
            self.commit(draft);
            if count > 0 {
                self.estimate.observe(count, self.shared.queue.len(), started.elapsed());
            }
        }
    }

    /// Waits for commands or for the next deadline. Returns `None` when the store is closed and idle.
    fn next_commands(&mut self) -> Option<Vec<Command>> {
        let lease = self.shared.state.read().leases.next_deadline();
        // If nothing can be written, expired leases must not keep this thread awake.
        let lease = lease.filter(|_| self.shared.check_writable().is_ok()).map(|lease| lease.max(self.next_expiry));
        let deadline = lease.map_or(self.next_progress, |lease| lease.min(self.next_progress));
        self.shared.queue.next_group(deadline, &self.estimate)
    }

    fn expire_leases(&mut self) {
        loop {
            if self.shared.failed.get().is_some() {
                return;
            }
            let now = Instant::now();
            if now < self.next_expiry {
                return;
            }
            let Some(lease) = self.shared.state.read().leases.first_expired(now) else { return };
            let mut draft = self.draft();
            if let Err(error) = self.end_lease(&mut draft, lease) {
                tracing::error!(%error, "failed to revoke lease");
                let _ = self.shared.failed.set(error.to_string());
                return;
            }
            if !self.commit(draft) {
                self.next_expiry = Instant::now() + EXPIRY_RETRY;
                return;
            }
        }
    }

    fn send_progress(&mut self) {
        let now = Instant::now();
        if now < self.next_progress {
            return;
        }
        self.next_progress = now + self.shared.watch.progress_interval;
        let mut wakers = Wakers::default();
        let state = self.shared.state.read();
        state.hub.send_progress(state.revision, &mut wakers);
        drop(state);
        wakers.wake();
    }

    fn draft(&self) -> Draft {
        Draft::new(self.shared.current().0)
    }

    fn execute(&self, draft: &mut Draft, command: Command) {
        if let Err(error) = self.shared.check_writable() {
            return command.refuse(error);
        }
        match command {
            // The caller is gone: its write has not started, and is skipped.
            Command::Txn { reply, .. } if reply.is_closed() => {}
            Command::Txn { txn, reply } => match self.execute_txn(draft, txn) {
                Ok(response) => draft.replies.push(PendingReply::Txn(reply, response)),
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Grant { ttl_seconds, reply } => {
                let ttl_seconds = ttl_seconds.clamp(1, MAX_TTL_SECONDS);
                let lease = self.shared.state.read().leases.fresh_id();
                draft.batch.meta.push(recovery::lease_fact(lease, Some(ttl_seconds)));
                draft.effects.push(Effect::Granted { lease, ttl_seconds });
                draft.replies.push(PendingReply::Granted(reply, LeaseId(lease)));
            }
            Command::Revoke { lease, reply } => match self.end_lease(draft, lease) {
                Ok(()) => draft.replies.push(PendingReply::Done(reply)),
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::DeleteRange { range, reply } => match self.delete_range(draft, &range) {
                Ok(deleted) => draft.replies.push(PendingReply::Deleted(reply, deleted)),
                Err(error) => drop(reply.send(Err(error))),
            },
            Command::Compact { marker, reply } => {
                draft.batch.meta.push(marker.fact());
                draft.effects.push(Effect::Compacted { revision: marker.revision });
                draft.replies.push(PendingReply::Done(reply));
            }
        }
    }

    fn execute_txn(&self, draft: &mut Draft, txn: Txn) -> Result<TxnResponse, StoreError> {
        let state = self.shared.state.read();
        let current = draft.current(&state, self.disk, &txn.key)?;
        let holds = match (txn.expect, &current) {
            (Expect::Anything, _) | (Expect::Absent, None) => true,
            (Expect::ModRevision(expected), Some(current)) => current.mod_revision == expected,
            _ => false,
        };
        if !holds {
            return Ok(TxnResponse::Unmet { current, revision: Revision(draft.revision) });
        }
        if let Op::Put { lease: Some(lease), .. } = &txn.op
            && !state.leases.contains(lease.0)
        {
            return Err(StoreError::LeaseNotFound);
        }
        drop(state);
        if let Op::Put { value, .. } = &txn.op {
            self.shared.check_room_for(self.disk, &txn.key, value.len(), draft.bytes)?;
        }
        match txn.op {
            Op::Put { value, lease } => draft.put(txn.key, value, lease.map_or(0, |lease| lease.0), current.clone()),
            Op::Delete => {
                if let Some(current) = current.clone() {
                    draft.delete(vec![current]);
                }
            }
        }
        Ok(TxnResponse::Done { revision: Revision(draft.revision), previous: current })
    }

    /// Deletes a lease and its keys, all at one revision. The draft must have no pending writes.
    fn end_lease(&self, draft: &mut Draft, lease: i64) -> Result<(), StoreError> {
        let state = self.shared.state.read();
        let keys = state.keys_of_lease(lease)?.ok_or(StoreError::LeaseNotFound)?;
        let current = keys.iter().filter_map(|key| draft.current(&state, self.disk, key).transpose());
        let current = current.collect::<Result<Vec<_>, _>>()?;
        drop(state);
        if !current.is_empty() {
            draft.delete(current);
        }
        draft.batch.meta.push(recovery::lease_fact(lease, None));
        draft.effects.push(Effect::Revoked { lease });
        Ok(())
    }

    /// Deletes the first keys of a range, all at one revision. The draft must have no pending writes.
    fn delete_range(&self, draft: &mut Draft, range: &Range<Bytes>) -> Result<DeletedKeys, StoreError> {
        let state = self.shared.state.read();
        let (mut keys, mut more, revision) = (Vec::new(), false, draft.revision);
        let visited = state.index.range(range, None, &mut |key, entry| {
            if matches!(entry.at(revision), VersionLookup::Absent) {
                return ControlFlow::Continue(());
            }
            more = keys.len() == MAX_DELETED_KEYS;
            if more {
                return ControlFlow::Break(());
            }
            keys.push(key.clone());
            ControlFlow::Continue(())
        });
        visited.map_err(|error| read_error(&error))?;
        let (mut current, mut bytes) = (Vec::new(), 0);
        for key in &keys {
            if bytes >= MAX_GROUP_BYTES {
                more = true;
                break;
            }
            // The deletion's event has the value, for watches.
            if let Some(kv) = draft.current(&state, self.disk, key)? {
                bytes += kv.key.len() + kv.value.len();
                current.push(kv);
            }
        }
        drop(state);
        let deleted = current.len() as u64;
        if deleted > 0 {
            draft.delete(current);
        }
        Ok(DeletedKeys { deleted, more })
    }

    /// Makes a draft durable, then visible, and then replies to its callers. Returns false if it was not written.
    fn commit(&self, draft: Draft) -> bool {
        let wrote = !draft.batch.records.is_empty() || !draft.batch.meta.is_empty();
        let written = if wrote { self.shared.time_write(|| self.disk.commit(&draft.batch)) } else { Ok(()) };
        let visible = match written {
            // Nothing of the group was written. A later group may succeed, since space and descriptors are freed over
            // time.
            Err(error) if is_transient(&error) => {
                let refused = self.shared.refused.fetch_add(1, Ordering::Relaxed);
                if refused == 0 {
                    tracing::error!(%error, "writes are refused until the disk, or the limits of the process, allow them");
                }
                for pending in draft.replies {
                    pending.fail(match is_out_of_space(&error) {
                        true => no_space(self.disk),
                        false => StoreError::Unavailable(format!("storage cannot be written to now: {error}")),
                    });
                }
                return false;
            }
            written => written.and_then(|()| self.publish(draft.revision, draft.changes, draft.effects)),
        };
        if let Err(error) = visible {
            let detail = error.to_string();
            for pending in draft.replies {
                pending.fail(StoreError::Io(detail.clone()));
            }
            // Callers get their replies first, since the process may end here.
            self.shared.fail(&error);
            return false;
        }
        if wrote {
            match self.shared.refused.swap(0, Ordering::Relaxed) {
                0 => {}
                refused => tracing::info!(refused, "writes are accepted again"),
            }
        }
        for pending in draft.replies {
            pending.succeed();
        }
        true
    }

    fn publish(&self, revision: u64, changes: Vec<Change>, effects: Vec<Effect>) -> io::Result<()> {
        if changes.is_empty() && effects.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        let mut wakers = Wakers::default();
        let mut state = self.shared.state.write();
        for effect in effects {
            match effect {
                Effect::Granted { lease, ttl_seconds } => state.leases.grant(lease, ttl_seconds, now),
                Effect::Revoked { lease } => state.leases.remove(lease),
                Effect::Compacted { revision } => state.compacted = revision,
            }
        }
        let mut events = Vec::new();
        let mut changes = changes.into_iter().peekable();
        while let Some(change) = changes.next() {
            let revision = change.revision;
            events.push(state.apply(change)?);
            if changes.peek().is_none_or(|next| next.revision != revision) {
                state.hub.dispatch(revision, &events, &mut wakers);
                events.clear();
            }
        }
        state.revision = revision;
        self.shared.revision.store(revision, Ordering::Release);
        drop(state);
        wakers.wake();
        Ok(())
    }
}

// === impl State ===

impl State {
    fn apply(&mut self, change: Change) -> io::Result<Event> {
        let Change { key, revision, kv, previous } = change;
        if let Some(lease) = previous.as_ref().and_then(|previous| previous.lease) {
            self.leases.detach(lease.0, &key);
        }
        self.digests.record_change(&key, previous.as_ref(), kv.as_ref());
        let Some(mut kv) = kv else {
            self.index.delete(&key, revision)?;
            return Ok(Event::Delete { key, revision: Revision(revision), previous });
        };
        // The index holds its own copy of the key, which the event shares.
        kv.key = self.index.put(&key, LiveVersion::of(&kv))?;
        if let Some(lease) = kv.lease
            && !self.index.is_on_disk()
        {
            self.leases.attach(lease.0, kv.key.clone());
        }
        Ok(Event::Put { kv, previous })
    }

    /// Returns the keys of a lease, or `None` if the lease does not exist.
    fn keys_of_lease(&self, lease: i64) -> Result<Option<Vec<Bytes>>, StoreError> {
        if !self.leases.contains(lease) {
            return Ok(None);
        }
        let kept = self.index.keys_of_lease(lease).map_err(|error| read_error(&error))?;
        Ok(kept.or_else(|| self.leases.keys(lease)))
    }
}

// === impl Draft ===

impl Draft {
    fn new(revision: u64) -> Self {
        Self {
            revision,
            batch: Batch::default(),
            bytes: 0,
            pending: HashMap::new(),
            changes: Vec::new(),
            effects: Vec::new(),
            replies: Vec::new(),
        }
    }

    fn current(&self, state: &State, disk: &dyn Disk, key: &Bytes) -> Result<Option<KeyValue>, StoreError> {
        if let Some(pending) = self.pending.get(key) {
            return Ok(pending.clone());
        }
        let Some((key, live)) = state.index.live(key).map_err(|error| read_error(&error))? else { return Ok(None) };
        match &live.value {
            Some(value) => Ok(Some(live.key_value(key, value))),
            None => history::read_version(disk, &key, live.modified).map(Some),
        }
    }

    fn put(&mut self, key: Bytes, value: Bytes, lease: i64, previous: Option<KeyValue>) {
        self.revision += 1;
        let created = previous.as_ref().map_or(self.revision, |previous| previous.create_revision.0);
        let replaced = previous.as_ref().map_or(0, |previous| previous.mod_revision.0);
        let put = Put { key: key.clone(), value, created, previous: replaced, lease };
        let (record, value) = record::encode_put(self.revision, &put);
        self.write(record);
        let (create_revision, mod_revision) = (Revision(created), Revision(self.revision));
        let kv = KeyValue { key: key.clone(), value, create_revision, mod_revision, lease: lease_id(lease) };
        self.change(key, Some(kv), previous);
    }

    fn delete(&mut self, current: Vec<KeyValue>) {
        self.revision += 1;
        let deletions: Vec<_> =
            current.iter().map(|kv| Deletion { key: kv.key.clone(), previous: kv.mod_revision.0 }).collect();
        self.write(record::encode_delete(self.revision, &deletions));
        for kv in current {
            self.change(kv.key.clone(), None, Some(kv));
        }
    }

    fn write(&mut self, record: Bytes) {
        self.bytes += record.len();
        self.batch.records.push((self.revision, record));
    }

    fn change(&mut self, key: Bytes, kv: Option<KeyValue>, previous: Option<KeyValue>) {
        self.pending.insert(key.clone(), kv.clone());
        self.changes.push(Change { key, revision: self.revision, kv, previous });
    }
}

// === impl Command ===

impl Command {
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Txn { txn: Txn { key, op: Op::Put { value, .. }, .. }, .. } => key.len() + value.len(),
            _ => 0,
        }
    }

    /// Sends the error. The caller may have stopped waiting.
    fn refuse(self, error: StoreError) {
        match self {
            Self::Txn { reply, .. } => drop(reply.send(Err(error))),
            Self::Grant { reply, .. } => drop(reply.send(Err(error))),
            Self::DeleteRange { reply, .. } => drop(reply.send(Err(error))),
            Self::Revoke { reply, .. } | Self::Compact { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}

// === impl PendingReply ===

impl PendingReply {
    fn succeed(self) {
        match self {
            Self::Txn(reply, response) => drop(reply.send(Ok(response))),
            Self::Granted(reply, lease) => drop(reply.send(Ok(lease))),
            Self::Deleted(reply, deleted) => drop(reply.send(Ok(deleted))),
            Self::Done(reply) => drop(reply.send(Ok(()))),
        }
    }

    fn fail(self, error: StoreError) {
        match self {
            Self::Txn(reply, _) => drop(reply.send(Err(error))),
            Self::Granted(reply, _) => drop(reply.send(Err(error))),
            Self::Deleted(reply, _) => drop(reply.send(Err(error))),
            Self::Done(reply) => drop(reply.send(Err(error))),
        }
    }
}

/// Starts the committer. The thread ends when the queue is closed.
pub(crate) fn spawn(shared: Arc<Shared>, disk: Arc<dyn Disk>) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("store-committer".to_owned()).spawn(move || run(&shared, &*disk))
}
