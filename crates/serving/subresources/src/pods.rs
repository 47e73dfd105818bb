//! Handlers of the binding and the eviction of a pod.

mod binding;
mod budgets;
mod conditions;
mod eviction;

pub(crate) use binding::Binding;
pub(crate) use eviction::Eviction;
