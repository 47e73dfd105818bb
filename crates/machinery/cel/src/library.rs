//! The function libraries, each with the versions that include it.

pub(crate) mod authz;
mod ext_lists;
mod format_string;
mod json_patch;
mod lists;
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

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, OnceLock};

use crate::functions::{Function, FunctionDecl, Overload};
use crate::value::Val;
use crate::version::Version;
pub(crate) use format_string::{FormatPart, accepted_types_message, parts as format_parts};

pub(crate) struct Library {
    pub(crate) functions: &'static [FunctionDecl],
    /// Names of types for use in expressions.
    pub(crate) types: &'static [&'static str],
}

/// The functions and type names of one version.
#[derive(Debug)]
pub(crate) struct FunctionSet {
    functions: HashMap<&'static str, Function>,
    pub(crate) types: HashSet<&'static str>,
}

impl FunctionSet {
    /// Returns the functions for expressions of a version. There are few versions, so each set is built once and never
    /// dropped.
    pub(crate) fn of(version: Version) -> &'static Self {
        static SETS: OnceLock<Mutex<HashMap<Version, &'static FunctionSet>>> = OnceLock::new();
        let version = version.rounded();
        let mut sets = match SETS.get_or_init(Mutex::default).lock() {
            Ok(sets) => sets,
            Err(poisoned) => poisoned.into_inner(),
        };
        sets.entry(version).or_insert_with(|| Box::leak(Box::new(Self::new(version))))
    }

    fn new(version: Version) -> Self {
        let mut set = Self { functions: HashMap::new(), types: HashSet::new() };
        for library in of_version(version) {
            set.types.extend(library.types);
            for decl in library.functions {
                let function = set.functions.entry(decl.name).or_insert_with(|| Function {
                    name: decl.name,
                    overloads: Vec::new(),
                    all: None,
                });
                function.all = function.all.or(decl.all);
                function.overloads.extend(decl.overloads.iter().map(Overload::parse));
            }
        }
        set
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }
}

/// Returns the libraries of a version in kube-apiserver's order: overloads of a function are tried in this order.
fn of_version(version: Version) -> Vec<Library> {
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
    since(34, ext_lists::library());
    since(37, lists::with_includes());
    libraries
}

/// Returns the size of a format's pattern, for the cost of checking it.
pub(crate) fn max_regex_size(format: &Val<'_>) -> u64 {
    named_format::max_regex_size(format)
}
