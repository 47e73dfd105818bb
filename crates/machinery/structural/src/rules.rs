//! `x-kubernetes-validations`: rules in the Common Expression Language, compiled once per schema and evaluated for each
//! object within a budget.

mod compile;
mod evaluate;
#[cfg(test)]
mod tests;
mod types;

pub use self::compile::{CompiledRule, MessageExpression, Rules, compile};
pub use self::evaluate::{RUNTIME_BUDGET, Verdict};
pub use self::types::{TypeSource, decl_type, is_typed};
