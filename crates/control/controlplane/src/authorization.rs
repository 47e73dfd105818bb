//! Keeps the objects that authorizers use up to date with the store.

mod nodes;
mod roles;

pub use nodes::{follow_nodes, node_features, node_rules};
pub use roles::RolesFeed;
