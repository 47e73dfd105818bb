//! The informers of the objects that authorizers use.

mod nodes;
mod roles;

pub use nodes::{node_features, node_rules, start_node_graph_informers};
pub use roles::RbacInformers;
