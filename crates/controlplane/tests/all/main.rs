//! The control plane over real resources and a store in memory.

mod bootstrap;
mod namespaces;
mod services;
mod support;
