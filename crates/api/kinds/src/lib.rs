//! The built-in kinds: field tables, computed defaults, validation, and the fields that create and update reset.
//!
//! This crate is independent of storage, HTTP and callers.

mod admissionregistration;
mod all;
mod apiextensions;
mod apiregistration;
mod apiserverinternal;
mod apps;
mod autoscaling;
mod batch;
mod built_in;
mod certificates;
mod checks;
mod conversion;
mod coordination;
mod core;
mod diff;
mod discovery;
mod equality;
pub mod expressions;
mod flowcontrol;
mod gated;
mod internal;
mod networking;
mod node;
mod pod_spec;
mod policy;
mod prepare;
mod rbac;
mod resource;
mod scheduling;
mod storage;
mod storagemigration;
pub mod tables;
#[cfg(test)]
mod testing;
mod volume_claims;
mod workload;

pub use all::strategy;
pub use apiextensions::structural_violations;
pub(crate) use binnacle_features::Features;
pub(crate) use binnacle_scheme::{DefaultStrategy, DeleteGrace, MetadataChecks, Strategy, StrategyContext};
pub use built_in::BuiltInKinds;
pub use certificates::is_invalid_ca_bundle;
pub use conversion::{Convert, conversion};

/// A kind and its rules, in the list of a group.
pub(crate) type Entry = (&'static str, &'static dyn Strategy);
