//! Runs the commands of the tours in `docs`: each command's output must match the page.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use binnacle_testkit::{TempDir, program, tool};

const TOUR: &str = include_str!("../../../../../docs/tour.md");
const CONTROLLERS: &str = include_str!("../../../../../docs/controllers.md");
const LOGICAL_CLUSTERS: &str = include_str!("../../../../../docs/logical-clusters.md");

/// Separates the output of two commands.
const MARK: &str = "@@ next";

struct Step {
    command: String,
    output: Vec<String>,
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn commands_print_the_output_on_the_page() {
    try_out(TOUR, 20);
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn logical_clusters_print_the_output_on_the_page() {
    try_out(LOGICAL_CLUSTERS, 15);
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn controllers_print_the_output_on_the_page() {
    try_out(CONTROLLERS, 12);
}

/// Runs the commands of a page, which has more than this number of them.
fn try_out(page: &str, commands: usize) {
    let other = std::env::var_os("KUBECTL");
    let steps = steps(page);
    assert!(steps.len() > commands, "the page has {} commands", steps.len());

    let temp = TempDir::new();
    let programs = temp.path().join("programs");
    std::fs::create_dir(&programs).unwrap();
    // The page's server uses the default port, which may be in use here. The environment is that of the page.
    let server = format!("#!/bin/sh\nexec '{}' --secure-port=0 \"$@\"\n", program().get_program().display());
    executable(&programs.join("kube-apiserver"), &server);
    executable(&programs.join("binnacle"), &format!("#!/bin/sh\nexec '{}' \"$@\"\n", tool().get_program().display()));
    if let Some(kubectl) = other {
        executable(&programs.join("kubectl"), &format!("#!/bin/sh\nexec '{}' \"$@\"\n", kubectl.display()));
    }
    let folder = temp.path().join("you");
    std::fs::create_dir(&folder).unwrap();

    let mut script = "trap 'kill -9 $! 2>/dev/null' EXIT\nexec 2>&1\n".to_owned();
    for step in &steps {
        writeln!(script, "{}\necho '{MARK}'", step.command).unwrap();
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("timeout")
        .args(["120", "bash", "-c", &script])
        .current_dir(&folder)
        .env("PATH", path)
        .env("HOME", &folder)
        .env_remove("KUBECONFIG")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap().replace(&folder.display().to_string(), "/home/you");
    let printed: Vec<&str> = output.split(&format!("{MARK}\n")).collect();
    assert_eq!(printed.len(), steps.len() + 1, "the shell ended early: {output}");
    for (step, printed) in steps.iter().zip(printed) {
        let numbers = !step.command.starts_with("binnacle");
        let found: Vec<String> =
            printed.lines().filter(|line| !of_the_shell(line)).map(|l| plain(l, numbers)).collect();
        let want: Vec<String> = step.output.iter().map(|line| plain(line, numbers)).collect();
        assert!(fits(&want, &found), "$ {}\nthe page shows {want:#?}\nprinted was {found:#?}", step.command);
    }
}

/// The commands in the page's consoles, and the output after them.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
        } else if let Some(command) = line.strip_prefix("$ ").filter(|_| inside) {
            steps.push(Step { command: command.to_owned(), output: Vec::new() });
        } else if inside {
            let step = steps.last_mut().expect("a console begins with a command");
            match line.strip_prefix("> ") {
                Some(more) => write!(step.command, "\n{more}").unwrap(),
                None => step.output.push(line.to_owned()),
            }
        }
    }
    steps
}

/// Returns true for bash's messages about jobs, which depend on whether it is interactive.
fn of_the_shell(line: &str) -> bool {
    line.starts_with("bash: line ") && line.contains("Killed")
}

/// The line with whitespace collapsed, and placeholders for ages, ports and numbers, unless the numbers matter.
fn plain(line: &str, numbers: bool) -> String {
    let words = line.split_whitespace().map(|word| {
        let age = word.strip_suffix(['s', 'm']).is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        match word.rsplit_once("127.0.0.1:") {
            _ if age => "AGE".to_owned(),
            Some((before, _)) => format!("{before}127.0.0.1:PORT"),
            None => word.to_owned(),
        }
    });
    let words: Vec<String> = words
        .filter(|word| numbers || !["B", "KiB", "MiB"].contains(&word.as_str()))
        .map(|word| if numbers { word } else { word.replace(|c: char| c.is_ascii_digit() || c == '.', "") })
        .collect();
    words.join(" ")
}

/// Returns true if the lines match the page, in which a line of three dots matches any number of lines.
fn fits(want: &[String], found: &[String]) -> bool {
    let dots = |line: &String| line == "..." || line.is_empty();
    match want.split_first() {
        None => found.is_empty(),
        Some((line, rest)) if dots(line) => (0..=found.len()).any(|n| fits(rest, &found[n..])),
        Some((line, rest)) => found.split_first().is_some_and(|(first, others)| first == line && fits(rest, others)),
    }
}

fn executable(path: &std::path::Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn compares_output_with_placeholders() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(|line| plain(line, true)).collect() };
    let cases = [
        ("a  b", "a b", true, "columns are as wide as they are"),
        ("a 3s", "a 12s", true, "ages"),
        ("at https://127.0.0.1:6443", "at https://127.0.0.1:41234", true, "ports"),
        ("gull 12", "gull 13", false, "other numbers"),
        ("a\n...\nd", "a\nb\nc\nd", true, "lines left out"),
        ("a\n...", "a", true, "none of them"),
        ("a", "a\nb", false, "a line too much"),
    ];
    for (page, printed, want, why) in cases {
        assert_eq!(fits(&lines(page), &lines(printed)), want, "{why}");
    }
}
