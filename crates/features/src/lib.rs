//! Feature gates: which there are, which are on, and what a version of Kubernetes thinks of them.
//!
//! Each server of a process has [`Features`] of its own, shared by everything that it is made of, and asks them by name
//! wherever a field or a resource depends on a gate. Knows nothing of what features do.

mod features;
mod gates;
mod table;
mod version;

pub use features::Features;
pub use gates::{GateError, Gates};
pub use table::{Spec, Stage};
pub use version::{Version, VersionError, compatible_version, emulated_version};
