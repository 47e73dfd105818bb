//! API aggregation: group versions that other servers serve, as APIServices name them.
//!
//! The [`Aggregator`] follows all APIServices. As a link it stands before the server's own resources and hands requests
//! on ([`proxy`](self::proxy)); it answers `/apis` and `/apis/GROUP`, where local and remote group versions stand side by
//! side ([`discovery`](self::discovery)). Whether servers answer is checked for the control plane
//! ([`availability`](self::availability)), which writes the conditions.
//!
//! Beside it, [`Peers`] hands requests on to servers of the same cluster that serve what this one lacks.

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

pub use aggregator::{Aggregator, Options};
pub use peers::{PeerMetrics, PeerOptions, Peers};
