//! The queue of commands for the committer, and the time for which a group of commands may grow.
//!
//! Durable steps are the expensive part of a write: a group of one costs as much as a group of thirty. While several
//! callers write concurrently, a step only starts when the writers of the previous group have sent their next commands,
//! or after the duration of a step. Each write waits for at most one more step, and fewer steps need less CPU.
//! PostgreSQL has `commit_delay` and `commit_siblings` for the same purpose. A caller that writes alone never waits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use binnacle_store::StoreError;
use parking_lot::{Condvar, Mutex};

use crate::command::Command;

/// The maximum length of the queue.
const MAX_QUEUED_COMMANDS: usize = 64 << 10;
const MAX_QUEUED_BYTES: usize = 256 << 20;
/// The maximum size of a group. A larger one would increase the latency of its first command.
const MAX_GROUP_COMMANDS: usize = 1024;
pub(crate) const MAX_GROUP_BYTES: usize = 8 << 20;
/// The maximum wait for other writers, however slow the disk is: on a slow disk, groups grow during the steps.
const MAX_WAIT: Duration = Duration::from_micros(500);

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<QueueState>,
    work: Condvar,
}

#[derive(Default)]
struct QueueState {
    commands: VecDeque<Command>,
    bytes: usize,
    closed: bool,
    /// The committer sleeps until there are this many commands.
    wake_at: usize,
}

/// An estimate of the number of concurrent writers.
#[derive(Default)]
pub(crate) struct GroupEstimate {
    /// The number of commands that are likely to arrive together.
    expected: usize,
    /// The duration of a durable step.
    step: Duration,
}

// === impl Queue ===

impl Queue {
    /// Adds a command for the committer.
    pub(crate) fn submit(&self, command: Command) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        // The queue only gets this long if the disk hangs.
        if state.commands.len() >= MAX_QUEUED_COMMANDS || state.bytes >= MAX_QUEUED_BYTES {
            return Err(StoreError::Timeout);
        }
        state.bytes += command.bytes();
        state.commands.push_back(command);
        let wake = state.is_group_complete();
        drop(state);
        if wake {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Waits for commands until `deadline`, and then for those that are likely to follow. Returns `None` when the queue
    /// is closed and no commands are left.
    pub(crate) fn next_group(&self, deadline: Instant, estimate: &GroupEstimate) -> Option<Vec<Command>> {
        let mut state = self.state.lock();
        self.work.wait_while_until(&mut state, |state| state.commands.is_empty() && !state.closed, deadline);
        if state.commands.is_empty() {
            return (!state.closed).then(Vec::new);
        }
        state.wake_at = estimate.expected.min(MAX_GROUP_COMMANDS);
        let end = Instant::now() + estimate.step.min(MAX_WAIT);
        self.work.wait_while_until(&mut state, |state| !state.is_group_complete() && !state.closed, end);
        state.wake_at = 0;
        let count = state.commands.len().min(MAX_GROUP_COMMANDS);
        let commands: Vec<_> = state.commands.drain(..count).collect();
        state.bytes -= commands.iter().map(Command::bytes).sum::<usize>();
        Some(commands)
    }

    /// Returns the number of queued commands.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().commands.len()
    }

    /// Rejects commands from now on. Queued ones are still executed.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_one();
    }

    /// Drops commands that will not be executed. For their callers, the reply channel closes.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.bytes = 0;
        let abandoned = std::mem::take(&mut state.commands);
        drop(state);
        drop(abandoned);
    }
}

// === impl QueueState ===

impl QueueState {
    fn is_group_complete(&self) -> bool {
        self.commands.len() >= self.wake_at || self.bytes >= MAX_GROUP_BYTES
    }
}

// === impl GroupEstimate ===

impl GroupEstimate {
    /// Updates the estimate after a group of commands. `queued` is the number of commands that had arrived when the
    /// group was finished, and `step` the duration of its durable step.
    pub(crate) fn observe(&mut self, group: usize, queued: usize, step: Duration) {
        let seen = group + queued;
        // Writers that have stopped are dropped from the estimate quickly, so that nobody waits for them for long.
        self.expected = if seen < self.expected { (self.expected + seen) / 2 } else { seen };
        self.step = (self.step * 3 + step) / 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_shrinks_when_writers_leave() {
        let step = Duration::from_millis(1);
        let mut estimate = GroupEstimate::default();
        // (commands of the group, commands that arrived in the meantime, expected afterwards)
        for (group, queued, expected) in [
            (1, 0, 1),
            (1, 1, 2),
            (2, 0, 2),
            (2, 30, 32),
            (30, 2, 32),
            (4, 0, 18),
            (1, 0, 9),
            (1, 0, 5),
            (1, 0, 3),
            (1, 0, 2),
            (1, 0, 1),
        ] {
            estimate.observe(group, queued, step);
            assert_eq!(estimate.expected, expected, "{group} {queued}");
        }
        assert!(estimate.step > step / 2 && estimate.step <= step);
    }
}
