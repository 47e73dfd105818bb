//! API priority and fairness (KEP-1040): flow schemas classify requests into priority levels, and within a level into
//! flows, which share its seats fairly while these are scarce.
//!
//! Independent of HTTP and storage: callers pass schemas and levels.

mod allocation;
mod controller;
mod current;
mod demand;
mod dropped;
mod dump;
mod hand;
mod level;
mod metrics;
mod queues;
mod ratios;
mod report;
mod schema;
mod spec;
mod waiters;
mod width;

pub use controller::{Admitted, FlowControl, Rejected};
pub use current::RequestLimits;
pub use level::{NoSeat, Paused, Seat};
pub use report::LevelReport;
pub use spec::{FlowSchema, LevelSpec, PriorityLevel, Queuing};
pub use waiters::{Entry, Waiter, Waiters};
pub use width::{Counts, ListSize, Watchers, seats};
