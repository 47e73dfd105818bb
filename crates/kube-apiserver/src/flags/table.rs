//! Descriptions of flags, for parsing and `--help`.

/// A group of flags under one heading of `--help`.
#[derive(Clone, Copy)]
pub(super) struct Group {
    pub(super) title: &'static str,
    /// By name.
    pub(super) flags: &'static [Flag],
}

/// One flag.
#[derive(Clone, Copy)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) short: Option<char>,
    pub(super) kind: ValueKind,
    /// As text; empty when the flag has no default.
    pub(super) default: &'static str,
    pub(super) help: &'static str,
}

/// The kind of value that a flag takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ValueKind {
    /// Nothing, or `=true` and `=false`.
    Bool,
    /// A value, which `--help` calls by this name.
    Value(&'static str),
    /// Nothing, or a value behind `=`.
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

/// An error of the command line, in one sentence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlagError {
    #[error("{0}")]
    Other(String),
    #[error("unknown flag: --{0}")]
    Unknown(String),
}

impl FlagError {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self::Other(message.into())
    }

    pub(super) fn unknown(name: String) -> Self {
        Self::Unknown(name)
    }
}
