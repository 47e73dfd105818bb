//! Keeps the objects that authorizers use up to date with the store, and checks writes to roles and bindings.

mod escalation;
mod nodes;
mod roles;
#[cfg(test)]
mod tests;

pub use escalation::escalation_hooks;
pub use nodes::{follow_nodes, node_features, node_rules};
pub use roles::RolesFeed;
