//! Descriptions of flags, for parsing and `--help`.

use super::similar::similar;

/// A group of flags under one heading of `--help`.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) title: &'static str,
    /// Sorted by name.
    pub(super) flags: &'static [Flag],
}

/// One flag.
#[derive(Clone, Copy)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) short: Option<char>,
    pub(super) kind: ValueKind,
    /// The default as text; empty if there is none.
    pub(super) default: &'static str,
    pub(super) help: &'static str,
}

/// The kind of value that a flag takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// No value, or `=true` or `=false`.
    Bool,
    /// A value, with its name in `--help`.
    Value(&'static str),
    /// No value, or a value after `=`.
    Optional(&'static str),
}

impl Flag {
    pub(super) const fn new(name: &'static str, kind: ValueKind, default: &'static str, help: &'static str) -> Self {
        Self { name, short: None, kind, default, help }
    }

    pub(super) const fn short(mut self, short: char) -> Self {
        self.short = Some(short);
        self
    }
}

/// An error of the command line, as one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlagError {
    #[error("{0}")]
    Other(String),
    /// A value of the wrong type.
    #[error("{0}")]
    Invalid(String),
    #[error("unknown flag: --{}{}", .name, .suggestion.map(|flag| format!(" (did you mean --{flag}?)")).unwrap_or_default())]
    Unknown { name: String, suggestion: Option<&'static str> },
}

impl FlagError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    /// Returns true if the command line cannot be parsed.
    pub(super) fn is_parse_error(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Unknown { .. })
    }

    pub(super) fn unknown(name: String) -> Self {
        let suggestion = similar(&name);
        Self::Unknown { name, suggestion }
    }
}
