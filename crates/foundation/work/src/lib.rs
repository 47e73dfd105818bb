//! The work budget of a request: limits on its steps and its memory, and its deadline.
//!
//! The cost of a request is the work that it causes, not its size. Code that loops over a client's data calls
//! [`charge`] before each step and [`allocate`] before it allocates values; both fail once the budget of the current
//! request is exhausted. The budget travels with the task, like tokio's cooperative budget: [`WorkBudget::run`] and
//! [`WorkBudget::enter`] set it for the thread during each poll. Code without a budget is not limited.
//!
//! The same calls prevent long computations from blocking the runtime. After [`QUANTUM`] a poll hands the other tasks
//! of its worker to another thread and waits for a turn. Turns are shared fairly among callers ([`Caller`]), and one
//! turn is reserved for callers of the system.
//!
//! A charge may block the thread until it gets a turn, so do not hold a lock that other tasks need.

mod abort_on_drop;
mod budget;
mod memory;
mod polls;
mod relays;
mod scope;
mod turns;

pub use abort_on_drop::AbortOnDrop;
pub use budget::{BudgetError, Caller, Describe, WorkBudget, WorkLimits};
pub use memory::memory_released;
pub use polls::{ThreadActivity, busy, longest_poll, spawn, spawn_on};
pub use relays::{RelayThreads, in_relay, relay_runtime, spawn_relay};
pub use scope::{
    QUANTUM, allocate, charge, charge_bytes, check, current, exceed, large, limited, pace, temporary,
    wait_behind_own_work,
};
pub use turns::{PieceTurn, SLICE};
