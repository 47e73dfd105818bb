//! API aggregation: group versions that other servers serve, as registered by APIServices.
//!
//! The [`Aggregator`] follows all APIServices. It is a link before the server's own resources that forwards requests
//! (`proxy`), and serves `/apis` and `/apis/GROUP` with local and remote group versions (`discovery`). It checks the
//! availability of servers (`availability`) for the control plane, which writes the conditions.
//!
//! Beside it, [`Peers`] forwards requests for resources that this server lacks to servers of the same cluster.

mod aggregator;
mod availability;
mod discovery;
mod documents;
mod fetch;
mod identity;
mod link;
mod loops;
mod objects;
mod openapi;
mod peers;
mod proxy;
mod registered;
mod remote;

pub use aggregator::{Aggregator, AggregatorOptions};
pub use objects::RemoteObjects;
pub use peers::{PeerMetrics, PeerOptions, Peers};
