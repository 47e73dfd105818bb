//! Writes in flight: they are staged, executed in turn, and retried if there is no response.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use binnacle_store::{Op, Revision, StoreError};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::{BoxFuture, join_all};
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep};

/// One write.
pub(super) struct Write {
    pub(super) key: Bytes,
    pub(super) op: Op,
}

/// The outcome of a request.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The values were staged at this revision.
    Staged(Revision),
    /// The turn of the next write to be executed, and etcd's revision.
    NextTurn { turn: u64, revision: Revision },
    /// The outcome is unknown: the write may have been executed, or may still be.
    Lost(String),
    /// Nothing was staged, because a lease has expired.
    LeaseExpired,
    /// The key whose turn it is was deleted after it was staged, for example by an expired lease.
    KeyDeleted,
    /// The request will never be executed.
    Refused(StoreError),
}

/// Sends requests to etcd.
pub(super) trait Transport {
    /// Puts values under their keys if the next turn is `first`.
    fn stage(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Outcome>;

    /// Executes the write whose turn it is. `first` is the turn of the first write.
    fn take_turn(&self, first: u64, writes: &[&Write]) -> BoxFuture<'static, Outcome>;

    /// Switches to another member after a response was lost.
    fn switch_member(&mut self);
}

/// The writes that may not have been executed yet.
pub(super) struct Pipeline<C> {
    transport: C,
    writes: VecDeque<Write>,
    /// The turn of the first of them.
    first: u64,
    bytes: usize,
    /// The time since when there has been no response.
    unanswered_since: Option<Instant>,
    timeout: Duration,
    revision: Revision,
}

/// The reason why the writes of a batch have to be staged again.
enum StageFailure {
    Lost(String),
    /// A response has shown that the batch has changed.
    Again,
    Refused(StoreError),
}

/// The number of writes, and of bytes, in a batch.
const BATCH: usize = 256;
const BATCH_BYTES: usize = 4 << 20;
/// The number of values, and of bytes, staged in one transaction. etcd allows 128 and 1.5 MiB.
const STAGE_WRITES: usize = 32;
const STAGE_BYTES: usize = 256 << 10;
/// The number of concurrent requests to take a turn. Each contains this many writes, since all writes before it may
/// have been executed when it arrives.
const WINDOW: usize = 24;
const RETRY_PAUSE: Duration = Duration::from_millis(100);

// === impl Pipeline ===

impl<C: Transport> Pipeline<C> {
    /// Creates a pipeline that starts with turn 1.
    pub(super) fn new(transport: C, revision: Revision, timeout: Duration) -> Self {
        Self { transport, writes: VecDeque::new(), first: 1, bytes: 0, unanswered_since: None, timeout, revision }
    }

    pub(super) async fn add(&mut self, write: Write) -> Result<(), StoreError> {
        self.bytes += size(&write);
        self.writes.push_back(write);
        while self.writes.len() >= BATCH || self.bytes >= BATCH_BYTES {
            self.run_batch().await?;
        }
        Ok(())
    }

    pub(super) async fn flush(&mut self) -> Result<(), StoreError> {
        while !self.writes.is_empty() {
            self.run_batch().await?;
        }
        Ok(())
    }

    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn waiting(&self) -> usize {
        self.writes.len()
    }

    /// Executes the first writes, as many as have different keys.
    async fn run_batch(&mut self) -> Result<(), StoreError> {
        let mut keys = HashSet::new();
        let count = self.writes.iter().take(BATCH).take_while(|write| keys.insert(write.key.clone())).count();
        let end = self.first + count as u64;
        while self.first < end {
            let done = match self.stage(end).await {
                Ok(()) => self.take_turns(end).await,
                trouble => trouble,
            };
            match done {
                Ok(()) | Err(StageFailure::Again) => {}
                Err(StageFailure::Lost(reason)) => {
                    if self.unanswered_since.get_or_insert_with(Instant::now).elapsed() >= self.timeout {
                        return Err(StoreError::Unavailable(reason));
                    }
                    sleep(RETRY_PAUSE).await;
                    self.transport.switch_member();
                }
                Err(StageFailure::Refused(error)) => return Err(error),
            }
        }
        Ok(())
    }

    /// Puts the values of the writes before the turn `end` under their keys.
    async fn stage(&mut self, end: u64) -> Result<(), StageFailure> {
        let groups = self.groups(self.until(end));
        let sent = groups.iter().map(|group| self.send_values(group));
        let answers = join_all(sent.collect::<Vec<_>>()).await;
        let mut result = Ok(());
        for (group, answer) in groups.iter().zip(answers) {
            let learned = match answer {
                // Staged one by one, to find the write with the expired lease.
                Outcome::LeaseExpired if result.is_ok() => self.stage_one_by_one(group).await,
                answer => self.handle_outcome(answer),
            };
            result = result.and(learned);
        }
        result
    }

    async fn stage_one_by_one(&mut self, group: &[usize]) -> Result<(), StageFailure> {
        for at in group {
            match self.send_values(&[*at]).await {
                Outcome::LeaseExpired => self.writes[*at].op = Op::Delete,
                answer => self.handle_outcome(answer)?,
            }
        }
        Ok(())
    }

    fn send_values(&self, group: &[usize]) -> BoxFuture<'static, Outcome> {
        let writes: Vec<_> = group.iter().map(|at| &self.writes[*at]).collect();
        self.transport.stage(self.first, &writes)
    }

    /// Returns the groups of the first `count` writes that are staged together.
    fn groups(&self, count: usize) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut bytes = 0;
        for (at, write) in self.writes.iter().take(count).enumerate() {
            if write.op == Op::Delete {
                continue;
            }
            bytes += size(write);
            match groups.last_mut() {
                Some(group) if group.len() < STAGE_WRITES && bytes <= STAGE_BYTES => group.push(at),
                _ => {
                    groups.push(vec![at]);
                    bytes = size(write);
                }
            }
        }
        groups
    }

    /// Takes the turns of the writes before the turn `end`, which have been staged.
    async fn take_turns(&mut self, end: u64) -> Result<(), StageFailure> {
        let mut running = FuturesUnordered::new();
        let mut result = Ok(());
        loop {
            while result.is_ok() && running.len() < WINDOW.min(self.until(end)) {
                let writes: Vec<_> = self.writes.iter().take(WINDOW.min(self.until(end))).collect();
                running.push(self.transport.take_turn(self.first, &writes));
            }
            match running.next().await {
                // Failed requests are waited for as well, because they must not compete with later ones.
                Some(outcome) => result = result.and(self.handle_turn(outcome)),
                None => return result,
            }
        }
    }

    fn handle_turn(&mut self, outcome: Outcome) -> Result<(), StageFailure> {
        match outcome {
            Outcome::NextTurn { turn, revision } => {
                self.advance(turn, revision);
                Ok(())
            }
            outcome => self.handle_outcome(outcome),
        }
    }

    /// Handles the outcome of staging.
    fn handle_outcome(&mut self, outcome: Outcome) -> Result<(), StageFailure> {
        match outcome {
            Outcome::Staged(revision) => {
                self.unanswered_since = None;
                self.revision = self.revision.max(revision);
                Ok(())
            }
            // An earlier response with this was lost.
            Outcome::NextTurn { turn, revision } => {
                self.advance(turn, revision);
                Err(StageFailure::Again)
            }
            Outcome::KeyDeleted | Outcome::LeaseExpired => Err(StageFailure::Again),
            Outcome::Lost(reason) => Err(StageFailure::Lost(reason)),
            Outcome::Refused(error) => Err(StageFailure::Refused(error)),
        }
    }

    /// Removes the writes before the turn `next`, which have been executed.
    fn advance(&mut self, next: u64, revision: Revision) {
        self.unanswered_since = None;
        self.revision = self.revision.max(revision);
        while self.first < next
            && let Some(write) = self.writes.pop_front()
        {
            self.bytes -= size(&write);
            self.first += 1;
        }
    }

    /// Returns the number of writes before the turn `end`.
    fn until(&self, end: u64) -> usize {
        usize::try_from(end.saturating_sub(self.first)).unwrap_or(usize::MAX)
    }
}

fn size(write: &Write) -> usize {
    let value = match &write.op {
        Op::Put { value, .. } => value.len(),
        Op::Delete => 0,
    };
    write.key.len() + value
}
