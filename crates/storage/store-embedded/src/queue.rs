//! The commands that wait for the committer, and how long it lets a group of them grow.
//!
//! Durable steps are the costly part of a write: a group of one costs as much as a group of thirty. While several callers
//! write at once, a step begins only when those that wrote with the last one are back, or after the time that a step
//! takes: each write waits for at most one step more, and the processors do the work of fewer. PostgreSQL has
//! `commit_delay` and `commit_siblings` for the same. A caller that writes alone never waits.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use binnacle_store::StoreError;
use parking_lot::{Condvar, Mutex};

use crate::committer::Command;

/// The maximum length of the queue.
const MAX_QUEUED_COMMANDS: usize = 64 << 10;
const MAX_QUEUED_BYTES: usize = 256 << 20;
/// The maximum size of a group. A larger one would increase the latency of its first command.
const MAX_GROUP_COMMANDS: usize = 1024;
pub(crate) const MAX_GROUP_BYTES: usize = 8 << 20;
/// The longest wait for others, however slow the disk is: on a slow one, groups grow during the steps.
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
    /// The committer sleeps until there are so many commands.
    wake_at: usize,
}

/// Knowledge of the callers that write at the same time.
#[derive(Default)]
pub(crate) struct GroupEstimate {
    /// How many commands are likely to come together.
    expected: usize,
    /// How long a durable step takes.
    step: Duration,
}

// === impl Queue ===

impl Queue {
    /// Hands a command to the committer.
    pub(crate) fn submit(&self, command: Command) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(StoreError::Closed);
        }
        // The queue becomes so long only when the disk hangs.
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

    /// Waits for commands until `deadline`, and then for those that are likely to follow. `None` when the queue is closed
    /// and no commands are left.
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

    /// The number of commands that wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().commands.len()
    }

    /// Refuses commands from now on; queued ones are still executed.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_one();
    }

    /// Drops commands that will not be executed; their callers see that the reply channel closes.
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
    /// Takes note of a group of commands, how many had come when it was done, and how long its durable step took.
    pub(crate) fn observe(&mut self, group: usize, queued: usize, step: Duration) {
        let seen = group + queued;
        // Who has not come back is given up soon, so that nobody waits for them in vain for long.
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
        // (commands of the group, commands that came meanwhile, expected then)
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
