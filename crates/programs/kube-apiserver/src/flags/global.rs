//! Flags that every Kubernetes program has.

use binnacle_server::KUBERNETES_VERSION;

use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};
use super::version;

pub(super) const GROUP: Group = Group {
    title: "Global",
    flags: &[
        Flag::new(
            "check-config",
            ValueKind::Bool,
            "",
            "Read all flags and the files that they name, print everything that is wrong with them, and quit. Connects to nobody \
             and writes nothing.",
        ),
        Flag::new(
            "config",
            ValueKind::Value("string"),
            "",
            "File with flags in YAML: their names are its keys. Flags of the command line win. A changed --v or --vmodule in it is \
             in force at once; what else differs from the running server is shown at /configz.",
        ),
        Flag::new("help", ValueKind::Bool, "", "help for kube-apiserver").short('h'),
        Flag::new(
            "version",
            ValueKind::Optional("version"),
            "false",
            "Print the version and quit; with a value such as v1.36.2-mine, start and report that version to clients.",
        ),
    ],
};

/// Returns the output of `--version`, if it was given and asks for one.
pub(super) fn version(flags: &FlagSet) -> Result<Option<String>, FlagError> {
    match flags.text("version").unwrap_or_default() {
        "raw" => return Ok(Some(binnacle_apiserver::build(None).raw() + "\n")),
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
