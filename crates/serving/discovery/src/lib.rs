//! Discovery: the served resources in the plain and aggregated documents of `/api` and `/apis`.
//!
//! Pure functions of a set of group versions and a few headers; independent of HTTP servers.

mod accept;
mod addresses;
mod discovered;
mod documents;
mod metrics;
mod peers;
mod protobuf;
mod response;

pub use addresses::{AddressRule, Addresses};
pub use discovered::{DiscoveredGroup, DiscoveredVersion};
pub use documents::{ListedGroup, storage_version_hash};
pub use metrics::DiscoveryMetrics;
pub use peers::merge_peers;
pub use response::{Discovery, DiscoveryRequest, DiscoveryResponse, Document};
