//! API aggregation: group versions that other servers serve, as registered by APIServices.
//!
//! The [`Aggregator`] watches all APIServices. It is a handler before the server's own resources that forwards requests
//! (`proxy`), and serves `/apis` and `/apis/GROUP` with local and remote group versions (`discovery`). Controllers
//! maintain the APIServices of local group versions, and write the conditions of all ([`api_service_controllers`]); the
//! aggregator checks the availability of servers for them (`availability`).
//!
//! Independently, [`Peers`] forwards requests for resources that this server lacks to other servers of the same
//! cluster, and [`Writer`] forwards what a read-only server must not do itself.

mod aggregator;
mod apiservices;
mod availability;
mod contents;
mod fetch;
mod forward;
mod handler;
mod identity;
mod loop_detection;
mod objects;
mod peer_addresses;
mod registry;
mod remote;
mod server_trust;
mod writer;

pub use aggregator::peers::{PeerMetrics, PeerOptions, Peers};
pub use aggregator::{Aggregator, AggregatorOptions};
pub use apiservices::{
    AggregatedServers, ApiServiceControllers, ApiServiceOptions, AvailabilityMetrics, DiscoveryError, LocalApi,
    Registrations, api_service_controllers,
};
pub use objects::RemoteObjects;
pub use peer_addresses::{PeerAddresses, PeerEndpoint, peer_endpoint_controller};
pub use writer::{Writer, WriterOptions};
