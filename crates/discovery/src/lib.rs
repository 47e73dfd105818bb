//! Discovery: what is served, told in the plain and aggregated documents of `/api` and `/apis`.
//!
//! Pure functions of a set of group versions and a few headers; knows nothing of HTTP servers.

mod accept;
mod addresses;
mod answer;
mod documents;
mod protobuf;

pub use addresses::{AddressRule, Addresses};
pub use answer::{Answer, Ask, Discovery, Document};
pub use documents::{ListedGroup, storage_version_hash};
