//! Feature gates: their names, their values, and their defaults in a version of Kubernetes.
//!
//! Each server in a process has its own [`Features`], shared by all its parts, which look up gates by name. The crate
//! does not depend on what the features do.

mod features;
mod gates;
mod table;
mod version;

pub use features::Features;
pub use gates::{GateError, Gates};
pub use table::{Spec, Stage};
pub use version::{Version, VersionError, versions};
