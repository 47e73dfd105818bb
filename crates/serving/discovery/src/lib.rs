//! Discovery: the served resources in the plain and aggregated documents of `/api` and `/apis`.
//!
//! Pure functions of a set of group versions and a few headers; independent of HTTP servers.

mod accept;
mod addresses;
mod answer;
mod documents;
mod metrics;
mod peers;
mod protobuf;

pub use addresses::{AddressRule, Addresses};
pub use answer::{Answer, Ask, Discovery, Document};
pub use documents::{ListedGroup, storage_version_hash};
pub use metrics::DiscoveryMetrics;
pub use peers::{DiscoveredGroup, DiscoveredVersion, merge_peers};
