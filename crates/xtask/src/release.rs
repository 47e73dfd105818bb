//! The server as it is released: optimized by what an instrumented build of it was seen doing.
//!
//! Counting how often each branch is taken tells the compiler what to inline, how to lay out code, and what is hardly
//! ever run and may be small and stand apart. A create costs a third less for it, and an idle server keeps less code in
//! memory.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches};

/// What the bench does for training: the paths that requests take most often.
const SCENARIOS: [&str; 8] = ["idle", "create", "get", "list", "patch", "apply", "leases", "watch"];
const SCALE: &str = "--scale=0.2";
const SERVER: &str = "kube-apiserver";
/// What stands between flags in `CARGO_ENCODED_RUSTFLAGS`, so that they may hold spaces.
const FLAG_END: &str = "\x1f";

pub(crate) fn command() -> clap::Command {
    clap::Command::new("release")
        .about("Builds the server optimized by a profile of itself, as target/pgo/kube-apiserver")
        .long_about(
            "Builds the server with counters, lets the bench and the stories of the end-to-end tests use it, and builds it \
             again with what was counted, as target/pgo/kube-apiserver. Needs llvm-profdata of the LLVM that rustc has: \
             `rustup component add llvm-tools`, or a distribution's package llvm-NN.",
        )
        .arg(
            Arg::new("without-stories")
                .long("without-stories")
                .action(ArgAction::SetTrue)
                .help("Count what the bench does only, which leaves what it does not use slow"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let directory = root.join("target/pgo");
    let compiler = Compiler::ask()?;
    let profdata = compiler.profdata()?;
    let counts = directory.join("counts");
    // Counts of an older program say nothing of this one.
    if counts.exists() {
        std::fs::remove_dir_all(&counts).map_err(|error| format!("cannot empty {}: {error}", counts.display()))?;
    }
    std::fs::create_dir_all(&counts).map_err(|error| format!("cannot make {}: {error}", counts.display()))?;

    let instrumented = compiler.build(&root, &directory.join("instrumented"), flag("-Cprofile-generate=", &counts))?;
    // Servers that end one after the other add to the same few files.
    let file = counts.join("%4m.profraw");
    train(
        &root,
        &instrumented,
        &file,
        &[&["run", "--release", "-p", "binnacle-bench", "--", SCALE], &SCENARIOS[..]].concat(),
    )?;
    if !matches.get_flag("without-stories") {
        let stories = ["test", "-p", "binnacle-e2e", "--no-fail-fast"];
        // Some stories wait for no longer than an optimized server needs: what they counted until then counts.
        if let Err(problem) = train(&root, &instrumented, &file, &stories) {
            eprintln!("warning: {problem}");
        }
    }
    let merged = directory.join("merged.profdata");
    finish(Command::new(profdata).arg("merge").arg("-o").arg(&merged).arg(&counts))?;

    let optimized = compiler.build(&root, &directory.join("optimized"), flag("-Cprofile-use=", &merged))?;
    let released = directory.join(SERVER);
    std::fs::copy(&optimized, &released).map_err(|error| format!("cannot copy {}: {error}", optimized.display()))?;
    println!("{}", released.display());
    Ok(())
}

/// Lets a cargo command use the instrumented server.
fn train(root: &Path, server: &Path, counts: &Path, arguments: &[&str]) -> Result<(), String> {
    let mut command = cargo(root);
    finish(command.args(arguments).env("BINNACLE_KUBE_APISERVER", server).env("LLVM_PROFILE_FILE", counts))
}

/// What rustc says of itself.
struct Compiler {
    host: String,
    llvm: String,
    sysroot: PathBuf,
}

impl Compiler {
    fn ask() -> Result<Self, String> {
        let version = output(Command::new("rustc").arg("-vV"))?;
        let field = |name: &str| {
            let found = version.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            found.map(str::to_owned).ok_or_else(|| format!("rustc -vV says nothing of its {name}"))
        };
        let llvm = field("LLVM version")?;
        let llvm = llvm.split('.').next().unwrap_or_default().to_owned();
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
        Ok(Self { host: field("host")?, llvm, sysroot: PathBuf::from(sysroot.trim()) })
    }

    /// The program that merges counts; only one of the same LLVM reads them.
    fn profdata(&self) -> Result<PathBuf, String> {
        let component = self.sysroot.join("lib/rustlib").join(&self.host).join("bin/llvm-profdata");
        let named = format!("llvm-profdata-{}", self.llvm);
        let wanted = format!("LLVM version {}.", self.llvm);
        let candidates = [component, PathBuf::from(named), PathBuf::from("llvm-profdata")];
        let fits =
            |program: &PathBuf| output(Command::new(program).arg("--version")).is_ok_and(|v| v.contains(&wanted));
        candidates.into_iter().find(fits).ok_or_else(|| {
            format!(
                "there is no llvm-profdata of LLVM {0}: rustup component add llvm-tools, or install llvm-{0}",
                self.llvm
            )
        })
    }

    /// Builds the server with one more flag. That a target is named keeps the flag from what only runs while building.
    fn build(&self, root: &Path, target: &Path, flag: OsString) -> Result<PathBuf, String> {
        let given = env::var("RUSTFLAGS").unwrap_or_default();
        let mut flags = OsString::new();
        for given in given.split_whitespace() {
            flags.push(given);
            flags.push(FLAG_END);
        }
        flags.push(flag);
        let mut command = cargo(root);
        command.args(["build", "--release", "--bin", SERVER, "--target", &self.host]).arg("--target-dir").arg(target);
        finish(command.env("CARGO_ENCODED_RUSTFLAGS", flags))?;
        Ok(target.join(&self.host).join("release").join(SERVER))
    }
}

fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(path);
    flag
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

fn finish(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
