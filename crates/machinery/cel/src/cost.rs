//! The cost of expressions, equal to that in kube-apiserver, because limits on it are part of the API.

mod actual;
mod calls;
mod coster;
mod estimate;
mod variables;

pub(crate) use actual::{ActualCost, of_call, traversal};
pub(crate) use coster::estimate;
pub use estimate::Estimate;

#[cfg(test)]
mod tests;

/// The cost of accessing a variable or a member.
pub(crate) const SELECT: u64 = 1;
/// The cost of creating a list, a map or a message.
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const MESSAGE: u64 = 40;
/// The cost of walking one code point of a string.
pub(crate) const STRING_TRAVERSAL: f64 = 0.1;
/// The cost of each code point of a pattern for each unit of text.
pub(crate) const REGEX: f64 = 0.25;

/// Returns a size times a factor, rounded up.
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}
