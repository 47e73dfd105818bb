//! Mutation tests of the embedded store: removes its precautions one by one in a copy of the workspace, and expects its
//! tests to fail.

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use clap::{Arg, ArgMatches, Command, value_parser};

pub(crate) fn command() -> Command {
    Command::new("mutants")
        .about("Check that the tests of the embedded store notice each precaution that is missing")
        .arg(Arg::new("only").num_args(0..).help("Only mutants whose names contain one of these"))
        .arg(Arg::new("minutes").long("minutes").value_parser(value_parser!(u64)).help(
            "How long the tests may take with a mutant, where it is known that they pass without: that is not tried then",
        ))
}

/// A precaution to remove.
struct Mutant {
    name: String,
    file: String,
    from: String,
    to: String,
}

/// The result of a mutant's tests.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    /// The tests exceeded their time limit and were killed.
    Hung,
}

/// The minimum time limit of the tests, and the factor on their duration without a mutant.
const PATIENCE: Duration = Duration::from_secs(120);
const TIMES: u32 = 3;

const CRATE: &str = "crates/storage/store-embedded";
const PACKAGE: &str = "binnacle-store-embedded";

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = root()?;
    let list = root.join(CRATE).join("mutants/list.txt");
    let text = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut mutants = parse(&text)?;
    if let Some(only) = matches.get_many::<String>("only") {
        let only: Vec<_> = only.collect();
        mutants.retain(|mutant| only.iter().any(|only| mutant.name.contains(only.as_str())));
    }
    if mutants.is_empty() {
        return Err("there is no such mutant".to_owned());
    }
    let copy = root.join("target/mutants");
    let workspace = copy.join("workspace");
    copy_sources(&root, &workspace)?;
    let target = copy.join("target");
    let limit = match matches.get_one::<u64>("minutes") {
        Some(minutes) => Duration::from_secs(minutes * 60),
        None => {
            let begun = Instant::now();
            // Without a limit, since their duration is not known yet, and without a mutant.
            if try_tests(&workspace, &target, None)? != Verdict::Passed {
                return Err("the tests fail as it is".to_owned());
            }
            PATIENCE.max(begun.elapsed() * TIMES)
        }
    };
    let mut survivors = Vec::new();
    for mutant in &mutants {
        let path = workspace.join(CRATE).join("src").join(&mutant.file);
        let whole = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if whole.matches(&mutant.from).count() != 1 {
            return Err(format!("{}: the text is not once in {}", mutant.name, mutant.file));
        }
        write(&path, &whole.replace(&mutant.from, &mutant.to))?;
        let tried = try_tests(&workspace, &target, Some(limit));
        write(&path, &whole)?;
        let said = match tried.map_err(|error| format!("{}: {error}", mutant.name))? {
            Verdict::Passed => {
                survivors.push(mutant.name.as_str());
                "NOT NOTICED"
            }
            Verdict::Failed => "noticed",
            Verdict::Hung => "noticed: the tests hang with it",
        };
        println!("{}: {said}", mutant.name);
    }
    match survivors.is_empty() {
        true => Ok(()),
        false => Err(format!("no test notices: {}", survivors.join("; "))),
    }
}

fn parse(text: &str) -> Result<Vec<Mutant>, String> {
    let mut mutants = Vec::new();
    for block in text.split("\n== ").skip(1) {
        let wrong = || format!("a mutant cannot be read: {block}");
        let (name, rest) = block.split_once("\nfile ").ok_or_else(wrong)?;
        let (file, rest) = rest.split_once("\n- ").ok_or_else(wrong)?;
        let (from, to) = rest.split_once("\n+ ").ok_or_else(wrong)?;
        mutants.push(Mutant {
            name: name.to_owned(),
            file: file.to_owned(),
            from: from.to_owned(),
            to: to.trim_end().to_owned(),
        });
    }
    Ok(mutants)
}

/// Runs the tests. A mutant that does not compile proves nothing, and is an error.
fn try_tests(workspace: &Path, target: &Path, limit: Option<Duration>) -> Result<Verdict, String> {
    let cargo = |arguments: &[&str]| {
        let mut process = Process::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        process.current_dir(workspace).args(["test", "--quiet", "-p", PACKAGE]).args(arguments);
        process.env("CARGO_TARGET_DIR", target).env("KILL_ROUNDS", "5").stdout(Stdio::null()).stderr(Stdio::null());
        process
    };
    let built = cargo(&["--no-run"]).status().map_err(|error| format!("cargo: {error}"))?;
    if !built.success() {
        return Err("it does not compile".to_owned());
    }
    let programs = ["interleavings", "tail", "salvage", "crash", "bounds", "disk", "power"].into_iter();
    let arguments: Vec<_> = std::iter::once("--lib").chain(programs.flat_map(|test| ["--test", test])).collect();
    run_within(cargo(&arguments), limit)
}

/// Runs a program; on a timeout, kills it and all processes that it started.
fn run_within(mut process: Process, limit: Option<Duration>) -> Result<Verdict, String> {
    let failed = |error: std::io::Error| format!("the tests: {error}");
    // Child processes inherit the pipe, so that its end means that all of them have ended.
    let mut child = process.process_group(0).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let (sender, ended) = std::sync::mpsc::channel();
    let output = child.stdout.take();
    std::thread::spawn(move || {
        // The output is not used; the receiver may be gone.
        let _ = output.map(|mut output| std::io::copy(&mut output.by_ref(), &mut std::io::sink()));
        let _ = sender.send(());
    });
    let in_time = match limit {
        Some(limit) => ended.recv_timeout(limit).is_ok(),
        None => ended.recv().is_ok(),
    };
    if !in_time {
        let group = format!("-{}", child.id());
        let killed = Process::new("kill").args(["-KILL", "--", &group]).status().map_err(failed)?;
        child.wait().map_err(failed)?;
        return if killed.success() { Ok(Verdict::Hung) } else { Err("tests that hang cannot be ended".to_owned()) };
    }
    let status = child.wait().map_err(failed)?;
    Ok(if status.success() { Verdict::Passed } else { Verdict::Failed })
}

/// Copies all files but build outputs; only changed ones, so that a second run builds little.
fn copy_sources(from: &Path, to: &Path) -> Result<(), String> {
    let about = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    fs::create_dir_all(to).map_err(|error| about(to, error))?;
    for entry in fs::read_dir(from).map_err(|error| about(from, error))? {
        let path = entry.map_err(|error| about(from, error))?.path();
        let name = path.file_name().unwrap_or_default();
        if name == "target" || name == ".git" {
            continue;
        }
        let target = to.join(name);
        if path.is_dir() {
            copy_sources(&path, &target)?;
            continue;
        }
        let bytes = fs::read(&path).map_err(|error| about(&path, error))?;
        if fs::read(&target).ok().as_ref() != Some(&bytes) {
            fs::write(&target, bytes).map_err(|error| about(&target, error))?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn root() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_hung_programs_with_their_children() {
        let shell = |script: &str| {
            let mut process = Process::new("sh");
            process.args(["-c", script]);
            process
        };
        let limit = Some(Duration::from_millis(200));
        let begun = Instant::now();
        assert!(run_within(shell("sleep 300 & sleep 300"), limit) == Ok(Verdict::Hung));
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert!(run_within(shell("exit 1"), None) == Ok(Verdict::Failed));
        assert!(run_within(shell("exit 0"), Some(PATIENCE)) == Ok(Verdict::Passed));
    }
}
