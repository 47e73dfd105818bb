//! Completion scripts for bash, zsh and fish.

use clap::Command;
use clap_complete::{Shell, generate};

/// Returns the scripts by their file names: those that the shells look for.
pub(crate) fn scripts(command: &Command) -> impl Iterator<Item = (String, String)> {
    let name = command.get_name();
    [(Shell::Bash, format!("{name}.bash")), (Shell::Zsh, format!("_{name}")), (Shell::Fish, format!("{name}.fish"))]
        .map(|(shell, file)| (file, script(command, shell)))
        .into_iter()
}

fn script(command: &Command, shell: Shell) -> String {
    let mut text = Vec::new();
    generate(shell, &mut command.clone(), command.get_name(), &mut text);
    String::from_utf8(text).unwrap()
}
