//! The libraries of functions, each with the versions that have it.

mod optional;
mod standard;
mod time;
mod two_variables;

use crate::environment::Version;
use crate::functions::Decl;

pub(crate) struct Library {
    pub(crate) functions: &'static [Decl],
    /// Names of types that expressions can speak of.
    pub(crate) types: &'static [&'static str],
}

/// The libraries of a version, in the order in which the reference adds them: overloads of one function are tried in
/// this order.
pub(crate) fn of_version(version: Version) -> Vec<Library> {
    let mut libraries = vec![standard::library(version), time::library()];
    if version.at_least(28) {
        libraries.push(optional::library());
    }
    if version.at_least(32) {
        libraries.push(two_variables::library());
    }
    libraries
}

/// The size of the pattern behind a format, for what checking costs.
pub(crate) fn max_regex_size(_format: &crate::value::Val<'_>) -> u64 {
    1
}
