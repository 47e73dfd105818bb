//! The function libraries, each with the versions that include it.

pub(crate) mod authz;
mod format_string;
mod json_patch;
mod lists;
mod more_lists;
mod named_format;
mod net;
mod optional;
mod quantity;
mod regex;
mod semver;
mod sets;
mod standard;
mod strings;
mod time;
mod two_variables;
mod urls;

use crate::environment::Version;
use crate::functions::Decl;
use crate::value::Val;
pub(crate) use format_string::{Step as FormatStep, purpose as format_use, steps as format_steps};

pub(crate) struct Library {
    pub(crate) functions: &'static [Decl],
    /// Names of types for use in expressions.
    pub(crate) types: &'static [&'static str],
}

/// Returns the libraries of a version in kube-apiserver's order: overloads of a function are tried in this order.
pub(crate) fn of_version(version: Version) -> Vec<Library> {
    let mut libraries = vec![
        standard::library(version),
        time::library(),
        urls::library(),
        regex::library(),
        lists::library(),
        strings::library(),
        json_patch::library(),
    ];
    let mut since = |minor, library: Library| {
        if version.at_least(minor) {
            libraries.push(library);
        }
    };
    since(27, authz::library());
    since(28, optional::library());
    since(28, quantity::library());
    since(29, sets::library());
    since(30, net::library());
    since(31, named_format::library());
    since(31, authz::selectors());
    since(32, two_variables::library());
    since(33, semver::library());
    since(34, more_lists::library());
    since(37, lists::with_includes());
    libraries
}

/// Returns the size of a format's pattern, for the cost of checking it.
pub(crate) fn max_regex_size(format: &Val<'_>) -> u64 {
    named_format::max_regex_size(format)
}
