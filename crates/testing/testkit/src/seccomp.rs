//! Python scripts that trace the system calls of a program, or change their results, with a common beginning. The
//! store's own tests use this file, too.

use std::process::{Command, Stdio};
use std::sync::OnceLock;

use binnacle_test_requirements::Ability;

/// The common beginning of all scripts.
const COMMON: &str = include_str!("seccomp.py");

/// Returns a command that runs a script; its arguments are to be added.
pub(crate) fn command(script: &str) -> Command {
    let mut command = Command::new("python3");
    command.arg("-c").arg(format!("{COMMON}{script}")).stdin(Stdio::null());
    command
}

/// Returns true if programs can be run under a script. Otherwise prints a message once: the test does without.
pub(crate) fn available(known: &OnceLock<bool>, script: &str, arguments: &[&str], without: &str) -> bool {
    *known.get_or_init(|| {
        let status = command(script).args(arguments).arg("true").stderr(Stdio::null()).status();
        let available = status.is_ok_and(|status| status.success());
        if !available {
            Ability::Seccomp.is_missing(&format!("{without}: python3 or seccomp's user notification is missing"));
        }
        available
    })
}
