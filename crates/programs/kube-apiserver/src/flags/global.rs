//! Flags that every Kubernetes program has.

use binnacle_server::KUBERNETES_VERSION;

use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};
use super::version;
use crate::PRODUCT;

pub(super) const GROUP: Group = Group {
    title: "Global",
    flags: &[
        Flag::new(
            "check-config",
            ValueKind::Bool,
            "",
            "Validate all flags and the files that they name, print all errors, and exit: with status 0 if there are \
             none, else 1. Connects to no server and writes no file.",
        ),
        Flag::new(
            "config",
            ValueKind::Value("string"),
            "",
            "YAML file with flags, by their names. Flags on the command line take precedence. Changes of v and \
             vmodule in the file take effect at once; other changes are shown at /configz and take effect with a \
             restart.",
        ),
        Flag::new("help", ValueKind::Bool, "", "Print this help and exit.").short('h'),
        Flag::new(
            "version",
            ValueKind::Optional("version"),
            "false",
            "Print the version and exit: the Kubernetes version, or all details with --version=raw. A value such as \
             v1.36.2-mine starts the server, which then reports that version to clients.",
        ),
    ],
};

/// Returns the output of `--version`, unless the flag is not set or sets the reported version.
pub(super) fn version(flags: &FlagSet) -> Result<Option<String>, FlagError> {
    match flags.text("version").unwrap_or_default() {
        "raw" => return Ok(Some(format!("{}\n{PRODUCT}\n", binnacle_apiserver::build(None).raw()))),
        _ if reported_version(flags)?.is_some() => return Ok(None),
        _ if !flags.flag("version")? => return Ok(None),
        _ => {}
    }
    Ok(Some(format!("Kubernetes {KUBERNETES_VERSION}\n")))
}

/// Returns the version of `--version=v1.36.2-suffix`, if the flag sets one.
pub(super) fn reported_version(flags: &FlagSet) -> Result<Option<String>, FlagError> {
    let Some(text) = flags.text("version").filter(|text| text.starts_with('v')) else { return Ok(None) };
    match version::check(text, KUBERNETES_VERSION) {
        Ok(()) => Ok(Some(text.to_owned())),
        Err(why) => Err(flags.invalid("version", text, &why)),
    }
}
