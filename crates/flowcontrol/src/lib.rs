//! API priority and fairness (KEP-1040): requests are sorted by flow schemas into priority levels, and within a level into
//! flows, which share its seats fairly while there are not enough of them.
//!
//! It knows nothing of HTTP and nothing of storage: its callers hand schemas and levels in.

mod allocation;
mod controller;
mod demand;
mod dropped;
mod dump;
mod hand;
mod level;
mod metrics;
mod queues;
mod ratios;
mod schema;
mod spec;
mod width;

pub use controller::{Admitted, FlowControl, Rejected};
pub use level::Seat;
pub use spec::{FlowSchema, LevelSpec, PriorityLevel, Queuing};
pub use width::{Counts, ListSize, seats};
