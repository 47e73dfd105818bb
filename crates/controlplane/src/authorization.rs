//! The cluster's objects as authorizers know them, in step with the store, and checks of writes to roles and bindings.

mod escalation;
mod nodes;
mod roles;
#[cfg(test)]
mod tests;

pub use escalation::escalation_hooks;
pub use nodes::{follow_nodes, node_rules};
pub use roles::RolesFeed;
