//! Expressions of admission webhooks and policies.
//!
//! A [`Compiler`] makes the expressions of one policy or webhook once. For a request, [`Inputs`] name the objects, a
//! [`Scope`] holds them and the variables of the policy, each evaluated when it is first used, and a [`Budget`] says how
//! much may still be spent. Expressions cannot wait, authorizers can: [`Checks::settle`] evaluates until every answer that
//! expressions asked for is there.

mod budget;
mod checks;
mod compiler;
mod match_conditions;
mod metrics;
mod request;
mod scope;

pub use budget::{BUDGET, Budget, MATCH_CONDITIONS_BUDGET, OutOfBudget};
pub use checks::Checks;
pub use compiler::{Compiler, Expression, Variables};
pub use match_conditions::{FailurePolicy, Judged, MatchConditions, Matched};
pub use metrics::{MatchConditionMetrics, Subject};
pub use request::{namespace_object, request_object};
pub use scope::{Inputs, Scope};
