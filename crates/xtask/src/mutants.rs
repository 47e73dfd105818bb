//! Takes precautions of the embedded store away, one by one, in a copy of the workspace, and expects its tests to fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use clap::{Arg, ArgMatches, Command};

pub(crate) fn command() -> Command {
    Command::new("mutants")
        .about("Check that the tests of the embedded store notice each precaution that is missing")
        .arg(Arg::new("only").help("Only mutants whose name contains this"))
}

/// One precaution that is taken away.
struct Mutant {
    name: String,
    file: String,
    from: String,
    to: String,
}

const CRATE: &str = "crates/store-embedded";
const PACKAGE: &str = "binnacle-store-embedded";

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = root()?;
    let list = root.join(CRATE).join("mutants/list.txt");
    let text = fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
    let mut mutants = parse(&text)?;
    if let Some(only) = matches.get_one::<String>("only") {
        mutants.retain(|mutant| mutant.name.contains(only.as_str()));
    }
    if mutants.is_empty() {
        return Err("there is no such mutant".to_owned());
    }
    let copy = root.join("target/mutants");
    let workspace = copy.join("workspace");
    copy_sources(&root, &workspace)?;
    if !passes(&workspace, &copy.join("target"))? {
        return Err("the tests fail as it is".to_owned());
    }
    let mut survivors = Vec::new();
    for mutant in &mutants {
        let path = workspace.join(CRATE).join("src").join(&mutant.file);
        let whole = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if whole.matches(&mutant.from).count() != 1 {
            return Err(format!("{}: the text is not once in {}", mutant.name, mutant.file));
        }
        write(&path, &whole.replace(&mutant.from, &mutant.to))?;
        let survived = passes(&workspace, &copy.join("target"));
        write(&path, &whole)?;
        println!("{}: {}", mutant.name, if survived.clone()? { "NOT NOTICED" } else { "noticed" });
        if survived? {
            survivors.push(mutant.name.as_str());
        }
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

/// True when all tests pass. A mutant that does not compile proves nothing, and is an error.
fn passes(workspace: &Path, target: &Path) -> Result<bool, String> {
    let cargo = |arguments: &[&str]| {
        let mut process = Process::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        process.current_dir(workspace).args(["test", "--quiet", "-p", PACKAGE]).args(arguments);
        process.env("CARGO_TARGET_DIR", target).env("KILL_ROUNDS", "5").stdout(Stdio::null()).stderr(Stdio::null());
        process.status().map(|status| status.success()).map_err(|error| format!("cargo: {error}"))
    };
    if !cargo(&["--no-run"])? {
        return Err("it does not compile".to_owned());
    }
    cargo(&["--lib", "--test", "crash", "--test", "bounds", "--test", "disk", "--test", "power"])
}

/// Everything but what is built; only what changed, so that a second run builds little.
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().map_err(|error| format!("{}: {error}", root.display()))
}
