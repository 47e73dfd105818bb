//! Validation shared by many kinds: names, labels, ports, addresses, pod resources, immutability, with Go's messages.

pub mod checks;
pub mod cluster_ips;
pub mod conditions;
pub mod domains;
pub mod endpoint;
pub mod go_regexp;
pub mod ip;
pub mod metadata;
pub mod names;
pub mod netip;
pub mod numbers;
pub mod options;
pub mod pod_resources;
pub mod ports;
mod repeated;
pub mod resource_names;
mod scala_duration;
pub mod selectors;
pub mod signers;
pub mod tolerations;
pub mod url;

pub use repeated::repeated;
pub use scala_duration::scala_duration;
