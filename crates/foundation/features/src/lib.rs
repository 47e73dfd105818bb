//! Feature gates: their names, their values, and their defaults in a version of Kubernetes.
//!
//! Each server of a process has [`Features`] of its own, shared by all its parts, which look up gates by name.
//! Independent of the features themselves.

mod features;
mod gates;
mod table;
mod version;

pub use features::Features;
pub use gates::{GateError, Gates};
pub use table::{Spec, Stage};
pub use version::{Version, VersionError, versions};
