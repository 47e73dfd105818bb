//! The informers of the objects that authorizers use.

mod nodes;
mod roles;

pub use nodes::{follow_nodes, node_features, node_rules};
pub use roles::RolesFeed;
