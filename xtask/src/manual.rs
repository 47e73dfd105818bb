//! `cargo xtask manual`: writes man pages and completions again, from the tables of flags.

use std::path::Path;
use std::process::Command;

pub(crate) fn command() -> clap::Command {
    clap::Command::new("manual")
        .about("Writes man pages and shell completions in packaging/manual from the programs' flags")
        .long_about(
            "Writes man pages and shell completions in packaging/manual from the programs' flags: runs the tests that compare \
             them, with the order to write first.",
        )
}

pub(crate) fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).env("BINNACLE_WRITE_MANUAL", "1").args(["test", "--quiet"]);
    command.args(["-p", "kube-apiserver", "-p", "binnacle", "manual::"]);
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}
