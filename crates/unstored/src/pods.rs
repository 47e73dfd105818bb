//! Orders about pods: to be bound to a node, to be evicted from it.

mod binding;
mod budgets;
mod conditions;
mod eviction;

pub(crate) use binding::Binding;
pub(crate) use eviction::Eviction;
