//! The built-in kinds: field tables, computed defaults, validation, what create and update reset.
//!
//! Knows nothing of storage, of HTTP or of who is asking.

mod all;
mod apps;
mod batch;
mod conversion;
mod core;
mod equality;
mod pod_spec;
mod strategy;
pub mod tables;
mod tree;
mod workload;

pub use all::strategy;
pub use conversion::{Convert, conversion};
pub use strategy::{DeleteGrace, Plain, Situation, Strategy, spec_generation};
