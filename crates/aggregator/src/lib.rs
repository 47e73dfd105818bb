//! API aggregation: group versions of other servers, which APIServices name.
//!
//! The [`Aggregator`] follows all APIServices. As a link it stands before the server's own resources and hands requests
//! on (`proxy`); it answers `/apis` and `/apis/GROUP`, where local and remote group versions stand side by
//! side (`discovery`). The availability of servers is checked for the control plane
//! (`availability`), which writes the conditions.
//!
//! Beside it, [`Peers`] hands requests on to servers of the same cluster that serve resources which this one lacks.

mod aggregator;
mod availability;
mod discovery;
mod documents;
mod fetch;
mod identity;
mod link;
mod loops;
mod openapi;
mod peers;
mod proxy;
mod registered;
mod remote;

pub use aggregator::{Aggregator, AggregatorOptions};
pub use peers::{PeerMetrics, PeerOptions, Peers};
