//! The cost of expressions: the same numbers as kube-apiserver, because limits on them are part of the API.

mod actual;
mod calls;
mod estimate;

pub(crate) use actual::{ActualCost, of_call};
pub use estimate::Estimate;
pub(crate) use estimate::estimate;

#[cfg(test)]
mod tests;

/// Looking at a variable or a member.
pub(crate) const SELECT: u64 = 1;
/// Making a list, a map, a message.
pub(crate) const LIST: u64 = 10;
pub(crate) const MAP: u64 = 30;
pub(crate) const MESSAGE: u64 = 40;
/// Walking one code point of a string.
pub(crate) const STRING_TRAVERSAL: f64 = 0.1;
/// The cost of each code point of a pattern for each unit of text.
pub(crate) const REGEX: f64 = 0.25;

/// A size times a factor, rounded up.
pub(crate) fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}
