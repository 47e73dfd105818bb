//! `binnacle completion`: prints the completion script of this program or of the server. The scripts are those that the
//! packages install.

use clap::{Arg, ArgMatches, Command};

use crate::Error;

/// A program, a shell, and the script.
const SCRIPTS: [(&str, &str, &str); 6] = [
    ("binnacle", "bash", include_str!("../../../../packaging/manual/binnacle.bash")),
    ("binnacle", "zsh", include_str!("../../../../packaging/manual/_binnacle")),
    ("binnacle", "fish", include_str!("../../../../packaging/manual/binnacle.fish")),
    ("kube-apiserver", "bash", include_str!("../../../../packaging/manual/kube-apiserver.bash")),
    ("kube-apiserver", "zsh", include_str!("../../../../packaging/manual/_kube-apiserver")),
    ("kube-apiserver", "fish", include_str!("../../../../packaging/manual/kube-apiserver.fish")),
];

pub(crate) fn command() -> Command {
    let shell = Arg::new("shell").value_name("SHELL").required(true).value_parser(["bash", "zsh", "fish"]);
    let program = Arg::new("program").value_name("PROGRAM").value_parser(["binnacle", "kube-apiserver"]);
    Command::new("completion")
        .about("Prints the completion script for a shell")
        .long_about(
            "Prints the completion script of this program, or of kube-apiserver, for a shell. The Debian package installs the \
             scripts. Without it:\n\n  \
             bash: source <(binnacle completion bash kube-apiserver)\n  \
             zsh: binnacle completion zsh > \"${fpath[1]}/_binnacle\"\n  \
             fish: binnacle completion fish > ~/.config/fish/completions/binnacle.fish",
        )
        .arg(shell.help("The shell"))
        .arg(program.default_value("binnacle").help("The program to complete"))
}

/// Returns the script that the arguments name.
pub(crate) fn script(matches: &ArgMatches) -> Result<&'static str, Error> {
    let named = |name: &str| matches.get_one::<String>(name).map_or("", String::as_str);
    let (program, shell) = (named("program"), named("shell"));
    let found = SCRIPTS.iter().find(|(for_program, for_shell, _)| (*for_program, *for_shell) == (program, shell));
    let (_, _, text) = found.ok_or_else(|| Error::new(format!("there is no script of {program} for {shell}")))?;
    Ok(text)
}
