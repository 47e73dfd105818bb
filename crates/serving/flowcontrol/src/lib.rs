//! API priority and fairness (KEP-1040): flow schemas assign requests to priority levels and divide them into flows,
//! which share the seats of their level fairly when these are scarce.
//!
//! Independent of HTTP and storage: callers pass schemas and levels.

mod allocation;
mod controller;
mod current_requests;
mod demand;
mod dropped_requests;
mod dump;
mod level;
mod limits;
mod metrics;
mod queues;
mod ratios;
mod report;
mod schema;
mod shuffle_sharding;
mod spec;
mod waiters;
mod width;

pub use controller::{AdmittedRequest, FlowControl, RejectedRequest};
pub use current_requests::RequestLimits;
pub use level::{PausedRequest, Seat, SeatRejection};
pub use report::LevelReport;
pub use spec::{FlowSchema, LevelSpec, PriorityLevel, Queuing};
pub use waiters::{WaitOutcome, Waiter, Waiters};
pub use width::{ListSize, ListSizes, WatcherCounts, seats};
