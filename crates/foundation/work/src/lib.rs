//! The work budget of a request: the steps that it may take, the memory that it may use, and its deadline.
//!
//! Cost is judged by the work that a request causes, not by its bytes. Code that loops over data of a client calls
//! [`charge`] before a step and [`allocate`] before it makes values; both fail once the budget of the current request
//! is exhausted. The budget travels with the task, like tokio's cooperative budget: [`WorkBudget::run`] and
//! [`WorkBudget::enter`] make it the current one of the thread for each poll. Code outside of any budget is not limited.
//!
//! The same calls keep long computations off the threads that serve everybody. A poll that has taken
//! [`QUANTUM`] hands the other tasks of its worker over to another thread and waits for a turn. Turns are
//! shared fairly among callers ([`Caller`]), and one is reserved for callers of the system.
//!
//! A charge may block the thread until its turn comes, so no lock that others need may be held around it.

mod budget;
mod memory;
mod polls;
mod scope;
mod turns;

pub use budget::{BudgetError, Caller, Describe, WorkBudget, WorkLimits};
pub use memory::memory_released;
pub use polls::{ThreadActivity, busy, longest_poll, spawn, spawn_on};
pub use scope::{
    QUANTUM, allocate, charge, charge_bytes, check, current, exceed, large, limited, pace, temporary,
    wait_behind_own_work,
};
pub use turns::{PieceTurn, SLICE};
