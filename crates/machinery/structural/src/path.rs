//! The path of a value, kept on the stack during recursion and only formatted for errors.

use std::fmt::Write;

use binnacle_meta::FieldPath;
use binnacle_work::pace;

/// The maximum length of a formatted path; the rest is omitted.
const MAX_LENGTH: usize = 16 << 10;

/// One step of a path, with the steps before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Path<'p> {
    Root,
    /// A property.
    Field(&'p Path<'p>, &'p str),
    /// A member of a map.
    Key(&'p Path<'p>, &'p str),
    Index(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    /// Returns all steps in order.
    fn steps(&self) -> Vec<&Path<'p>> {
        let mut steps = Vec::new();
        let mut at = self;
        loop {
            let parent = match at {
                Self::Root => break,
                Self::Field(parent, _) | Self::Key(parent, _) | Self::Index(parent, _) => *parent,
            };
            steps.push(at);
            at = parent;
        }
        steps.reverse();
        pace(steps.len() as u64 * 4);
        steps
    }

    /// Returns the path below another one, with members of maps in brackets.
    pub(crate) fn below(&self, base: &FieldPath) -> FieldPath {
        self.steps().into_iter().fold(base.clone(), |path, step| {
            pace(path.as_str().len() as u64 / 16);
            match step {
                Self::Root => path,
                Self::Field(_, name) => path.child(name),
                Self::Key(_, key) => path.key(key),
                Self::Index(_, index) => path.index(*index),
            }
        })
    }

    /// Returns the path in the format of schema validation: all members follow a dot, even map keys at the root.
    pub(crate) fn dotted(&self) -> String {
        let mut out = String::new();
        for step in self.steps() {
            match step {
                Self::Root => {}
                _ if out.len() >= MAX_LENGTH => break,
                Self::Field(_, name) if out.is_empty() => out.push_str(beginning(name)),
                Self::Field(_, name) | Self::Key(_, name) => {
                    out.push('.');
                    out.push_str(beginning(name));
                }
                Self::Index(_, index) => {
                    // Writing to a string does not fail.
                    let _ = write!(out, "[{index}]");
                }
            }
        }
        out
    }

    /// Returns the path of an unknown field in warnings.
    pub(crate) fn of_finding(&self, field: &str) -> String {
        let mut out = self.dotted();
        if out.starts_with('.') {
            out.remove(0);
        }
        if !out.is_empty() {
            out.push('.');
        }
        out.push_str(beginning(field));
        out
    }
}

/// Returns a name, truncated to the maximum path length.
fn beginning(name: &str) -> &str {
    let name = &name[..name.floor_char_boundary(MAX_LENGTH)];
    pace(name.len() as u64 / 16);
    name
}
