//! Python scripts that see the system calls of a program, or change what becomes of them. They follow one that has what they
//! have in common. The store's own tests use this file, too.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The beginning of each script.
const COMMON: &str = include_str!("seccomp.py");

/// A command that runs a script, whose arguments are to be added.
pub(crate) fn command(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg("-c").arg(format!("{COMMON}{script}")).stdin(Stdio::null());
    command
}

/// True when programs can be run under a script here. Says so once when not: the test does without.
pub(crate) fn available(known: &OnceLock<bool>, script: &str, arguments: &[&str], without: &str) -> bool {
    *known.get_or_init(|| {
        let status = command(script).args(arguments).arg("true").stderr(Stdio::null()).status();
        let available = status.is_ok_and(|status| status.success());
        if !available {
            eprintln!("{without}: python3 or seccomp's user notification is missing");
        }
        available
    })
}
