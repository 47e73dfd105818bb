//! The files in `packaging/manual`, checked with the tools that read them.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::*;

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// Returns the files with this prefix and suffix.
fn files(prefix: &str, suffix: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let is_meant = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(prefix) && name.ends_with(suffix)
    };
    let found: Vec<_> = paths.filter(is_meant).collect();
    assert!(found.len() > 1);
    found
}

#[test]
#[cfg_attr(not(has_man), ignore = "needs man")]
fn man_reads_pages_without_warnings() {
    for page in files("", ".8") {
        // A pager or a terminal is not needed for plain output.
        let mut man = Command::new("man");
        man.env("MANROFFOPT", "").args(["--warnings=w", "--encoding=UTF-8", "--local-file"]).arg(&page);
        let output = run(&mut man);
        assert!(output.stderr.is_empty(), "{man:?}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("SYNOPSIS"));
    }
}

#[test]
#[cfg_attr(not(has_mandoc), ignore = "needs mandoc")]
fn mandoc_reads_pages_without_errors() {
    for page in files("", ".8") {
        run(Command::new("mandoc").args(["-T", "lint", "-W", "error"]).arg(&page));
    }
}

#[test]
#[cfg_attr(not(has_bash), ignore = "needs bash")]
fn bash_reads_the_scripts() {
    for script in files("", ".bash") {
        run(Command::new("bash").arg("-n").arg(script));
    }
}

#[test]
#[cfg_attr(not(has_zsh), ignore = "needs zsh")]
fn zsh_reads_the_scripts() {
    for script in files("_", "") {
        run(Command::new("zsh").arg("-n").arg(script));
    }
}

#[test]
#[cfg_attr(not(has_fish), ignore = "needs fish")]
fn fish_reads_the_scripts() {
    for script in files("", ".fish") {
        run(Command::new("fish").arg("--no-execute").arg(script));
    }
}

/// Returns bash's completions of the last word of a command line.
fn completions(program: &str, line: &str) -> Vec<String> {
    const ASK: &str = r#"
        source "$1"
        shift
        # Words that the line is made of, of which the last one is completed.
        COMP_WORDS=("$@")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        declared=$(complete -p "$1")
        function=${declared##*-F }
        # Outside of a completion the shell has no options to set.
        compopt() { :; }
        "${function%% *}" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let script = folder().join(format!("{program}.bash"));
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", ASK, "bash"]).arg(script).args(line.split(' '));
    let output = run(bash.current_dir(folder()));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
}

#[test]
#[cfg_attr(not(has_bash), ignore = "needs bash")]
fn bash_completes_flags_and_commands() {
    for (program, line, want) in [
        ("kube-apiserver", "kube-apiserver --etcd-se", &["--etcd-servers", "--etcd-servers-overrides"][..]),
        ("kube-apiserver", "kube-apiserver --v=2 --eph", &["--ephemeral"]),
        ("kube-apiserver", "kube-apiserver --token-auth-file kube-apiserver.f", &["kube-apiserver.fish"]),
        ("kube-apiserver", "kube-apiserver --nothing-like-it", &[]),
        ("binnacle", "binnacle re", &["restore"]),
        ("binnacle", "binnacle migrate --o", &["--online"]),
        ("binnacle", "binnacle sizes embedded:/data -o j", &["json"]),
        ("binnacle", "binnacle completion zsh k", &["kube-apiserver"]),
    ] {
        assert_eq!(completions(program, line), want, "{line}");
    }
}
