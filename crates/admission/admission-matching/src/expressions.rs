//! CEL expressions of admission webhooks and policies.
//!
//! A [`Compiler`] compiles the expressions of a policy or webhook once. For a request, [`Inputs`] have the objects, a
//! [`Scope`] has the inputs and the policy's variables, which it evaluates lazily, and a [`Budget`] limits the cost.
//! Expressions are synchronous but authorizers are not: [`Checks::resolve`] repeats an evaluation until all its
//! authorization checks are decided.

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
pub use match_conditions::{FailurePolicy, MatchConditions, MatchEvaluation, MatchResult};
pub use metrics::{ConditionOwner, MatchConditionMetrics};
pub use request::{namespace_object, request_object};
pub use scope::{Inputs, Scope};
