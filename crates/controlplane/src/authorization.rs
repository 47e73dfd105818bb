//! What authorizers know of the cluster, kept in step with the store, and who may write roles and bindings.

mod escalation;
mod roles;
#[cfg(test)]
mod tests;

pub use escalation::escalation_hooks;
pub use roles::RolesFeed;
