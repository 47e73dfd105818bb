//! What authorizers know of the cluster, kept in step with the store, and who may write roles and bindings.

mod escalation;
mod nodes;
mod roles;
#[cfg(test)]
mod tests;

pub use escalation::escalation_hooks;
pub use nodes::{follow_nodes, node_rules};
pub use roles::RolesFeed;
