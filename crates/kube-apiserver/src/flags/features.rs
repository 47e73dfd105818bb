//! What is served for those who look into the server.

use super::parse::Given;
use super::table::{Flag, FlagError, Group, Kind};

pub(super) const GROUP: Group = Group {
    title: "Features",
    flags: &[Flag::new(
        "profiling",
        Kind::Bool,
        "true",
        "Serve /debug/flags/v, which changes the verbosity of the log while the server runs.",
    )],
};

/// The values of the group.
#[derive(Debug)]
pub(crate) struct Features {
    pub(crate) profiling: bool,
}

impl Features {
    pub(super) fn read(given: &Given) -> Result<Self, FlagError> {
        Ok(Self { profiling: given.flag("profiling")? })
    }
}
