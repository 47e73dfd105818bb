//! The control plane with real resources and a store in memory.

#![allow(clippy::unwrap_used, reason = "a test may break off")]

mod admission;
mod bootstrap;
mod namespaces;
