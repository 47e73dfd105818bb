//! Admission policies: API objects with rules in the Common Expression Language (CEL).
//!
//! [`Policies`] has all policies and bindings, which are compiled when they change, and finds those that may match a
//! request. The plugins [`ValidatingAdmissionPolicy`] and [`MutatingAdmissionPolicy`] evaluate them. Informers add the
//! stored objects.

mod dispatch;
#[cfg(test)]
mod dispatch_tests;
mod evaluators;
mod index;
mod mutating;
mod param_cache;
mod params;
mod policies;
mod policy;
mod policy_resource;
mod remote;
mod type_check;
mod validating;

pub use dispatch::PluginDependencies;
pub use remote::{RemoteKinds, RemoteParams};

pub use mutating::{MutatingAdmissionPolicy, MutatingMetrics};
pub use policies::Policies;
pub use policy_resource::PolicyResource;
pub use type_check::{ExpressionWarning, expression_warnings};
pub use validating::{ValidatingAdmissionPolicy, ValidatingMetrics};
