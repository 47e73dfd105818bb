//! Discovery: what is served, told in the plain and aggregated documents of `/api` and `/apis`.
//!
//! Pure functions of a set of group versions and a few headers; knows nothing of HTTP servers.

mod accept;
mod addresses;
mod answer;
mod documents;
mod protobuf;
mod served;

pub use addresses::{AddressRule, Addresses};
pub use answer::{Answer, Ask, Discovery, Document};
pub use documents::storage_version_hash;
pub use served::{
    CUSTOM_RESOURCE_PRIORITIES, DynamicResource, DynamicSubresource, Resources, Served, ServedGroup, ServedVersion,
};
