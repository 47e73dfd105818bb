//! What is logged, and how.

use binnacle_meta::go_quote;

use super::parse::Given;
use super::table::{Flag, FlagError, Group, Kind};

pub(super) const GROUP: Group = Group {
    title: "Logs",
    flags: &[
        Flag::new(
            "logging-format",
            Kind::Value("string"),
            "text",
            "Format of the log on standard error: \"text\" or \"json\".",
        ),
        Flag::new(
            "v",
            Kind::Value("Level"),
            "0",
            "Log verbosity as a number: 3 logs each request, 6 and more is for debugging.",
        )
        .short('v'),
    ],
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// The values of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logs {
    pub(crate) format: LogFormat,
    pub(crate) verbosity: u8,
}

impl Logs {
    pub(super) fn read(given: &Given) -> Result<Self, FlagError> {
        let format = match given.text("logging-format") {
            Some("text") => LogFormat::Text,
            Some("json") => LogFormat::Json,
            other => {
                let shown = go_quote(other.unwrap_or_default());
                return Err(FlagError::new(format!("format: Invalid value: {shown}: Unsupported log format")));
            }
        };
        Ok(Self { format, verbosity: given.integer("v")?.clamp(0, 10) as u8 })
    }
}
