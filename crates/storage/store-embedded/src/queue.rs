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
const MAX_PATIENCE: Duration = Duration::from_micros(500);

#[derive(Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    work: Condvar,
}

#[derive(Default)]
struct Waiting {
    commands: VecDeque<Command>,
    bytes: usize,
    closed: bool,
    /// The committer sleeps until there are so many commands.
    wanted: usize,
}

/// Knowledge of the callers that write at the same time.
#[derive(Default)]
pub(crate) struct Company {
    /// How many commands are likely to come together.
    expected: usize,
    /// How long a durable step takes.
    step: Duration,
}

// === impl Queue ===

impl Queue {
    /// Hands a command to the committer.
    pub(crate) fn submit(&self, command: Command) -> Result<(), StoreError> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(StoreError::Closed);
        }
        // The queue becomes so long only when the disk hangs.
        if waiting.commands.len() >= MAX_QUEUED_COMMANDS || waiting.bytes >= MAX_QUEUED_BYTES {
            return Err(StoreError::Timeout);
        }
        waiting.bytes += command.bytes();
        waiting.commands.push_back(command);
        let wake = waiting.are_enough();
        drop(waiting);
        if wake {
            self.work.notify_one();
        }
        Ok(())
    }

    /// Waits for commands until `deadline`, and then for those that are likely to follow. `None` when the queue is closed
    /// and no commands are left.
    pub(crate) fn next_group(&self, deadline: Instant, company: &Company) -> Option<Vec<Command>> {
        let mut waiting = self.waiting.lock();
        self.work.wait_while_until(&mut waiting, |waiting| waiting.commands.is_empty() && !waiting.closed, deadline);
        if waiting.commands.is_empty() {
            return (!waiting.closed).then(Vec::new);
        }
        waiting.wanted = company.expected.min(MAX_GROUP_COMMANDS);
        let end = Instant::now() + company.step.min(MAX_PATIENCE);
        self.work.wait_while_until(&mut waiting, |waiting| !waiting.are_enough() && !waiting.closed, end);
        waiting.wanted = 0;
        let count = waiting.commands.len().min(MAX_GROUP_COMMANDS);
        let commands: Vec<_> = waiting.commands.drain(..count).collect();
        waiting.bytes -= commands.iter().map(Command::bytes).sum::<usize>();
        Some(commands)
    }

    /// The number of commands that wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.lock().commands.len()
    }

    /// Refuses commands from now on; queued ones are still executed.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.work.notify_one();
    }

    /// Drops commands that will not be executed; their callers see that the reply channel closes.
    pub(crate) fn abandon(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        waiting.bytes = 0;
        let abandoned = std::mem::take(&mut waiting.commands);
        drop(waiting);
        drop(abandoned);
    }
}

// === impl Waiting ===

impl Waiting {
    fn are_enough(&self) -> bool {
        self.commands.len() >= self.wanted || self.bytes >= MAX_GROUP_BYTES
    }
}

// === impl Company ===

impl Company {
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
    fn nobody_waits_for_those_who_are_gone() {
        let step = Duration::from_millis(1);
        let mut company = Company::default();
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
            company.observe(group, queued, step);
            assert_eq!(company.expected, expected, "{group} {queued}");
        }
        assert!(company.step > step / 2 && company.step <= step);
    }
}
