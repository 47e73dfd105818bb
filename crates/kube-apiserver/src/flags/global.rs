//! Flags that every Kubernetes program has.

use binnacle_server::KUBERNETES_VERSION;

use super::parse::Given;
use super::table::{Flag, FlagError, Group, ValueKind};

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
        Flag::new("version", ValueKind::Optional("version"), "false", "Print the version and quit."),
    ],
};

/// Returns the output of `--version`, if it was given.
pub(super) fn version(given: &Given) -> Result<Option<String>, FlagError> {
    match given.text("version").unwrap_or_default() {
        "raw" => {}
        _ if !given.flag("version")? => return Ok(None),
        _ => {}
    }
    Ok(Some(format!("Kubernetes {KUBERNETES_VERSION}\n")))
}
