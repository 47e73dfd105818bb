//! The branch profile that release builds are compiled with, which the repository has in the folder `profile`.
//!
//! The profile controls inlining and which rarely executed code is optimized for size: a create costs a third less. In
//! addition, the [function order](crate::placement) controls the layout by the linker. `.cargo/rustc-with-profile`
//! passes both to the compiler, and enables the counting.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgMatches, value_parser};
use object::{Object, ObjectSymbol};

use crate::gzip::{self, Effort};
use crate::placement;
use crate::process::{Compiler, cargo, finish, output, problem, remove};
use crate::started;
use crate::training::TrainingRun;

pub(crate) fn command() -> clap::Command {
    clap::Command::new("profile")
        .about("Counts anew which branches the server takes, as profile/branches.profdata.gz")
        .long_about(
            "Builds the server with counters, and lets the bench and some stories of the end-to-end tests use it. The counts are \
             those of the compiler that is in use: release builds of another one do without. Then it builds the server \
             with the counts, and starts it in an emulator to see what a start runs, for profile/functions. Needs \
             llvm-profdata of the LLVM that rustc has, and qemu-x86_64-static: Debian's packages llvm-NN and \
             qemu-user-static, for example. Takes three quarters of an hour on 2 processors.",
        )
        .arg(
            Arg::new("check")
                .long("check")
                .value_name("PROGRAM")
                .value_parser(value_parser!(PathBuf))
                .help("Counts nothing, but tells how much of a release build has changed since the counts were made"),
        )
        .arg(
            Arg::new("place")
                .long("place")
                .value_name("PROGRAM")
                .value_parser(value_parser!(PathBuf))
                .conflicts_with("check")
                .help("Counts nothing, but makes profile/functions anew by the start of a release build with the present counts"),
        )
}

pub(crate) fn run(matches: &ArgMatches) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let program = |name| matches.get_one::<PathBuf>(name);
    match (program("check"), program("place")) {
        (Some(program), _) => check(&root.join("profile"), program),
        (None, Some(program)) => place(&root, program),
        (None, None) => count(&root),
    }
}

/// The counts in the folder `profile`. They are compressed because nine in ten functions never ran.
const PACKED: &str = "branches.profdata.gz";

/// The share of functions with other names, in hundredths, from which counts are too old. A fifth have others from the
/// beginning: those that became part of others, and have namesakes that did not.
const OLD: usize = 35;

/// Compares the names of the profiled functions with those of a program. A new version of a dependency changes the
/// names of its code, including much of what requests run.
fn check(folder: &Path, program: &Path) -> Result<(), String> {
    let functions = folder.join("functions");
    let counted = std::fs::read_to_string(&functions).map_err(|error| problem("read", &functions, &error))?;
    let bytes = std::fs::read(program).map_err(|error| problem("read", program, &error))?;
    let file = object::File::parse(&*bytes).map_err(|error| format!("cannot read {}: {error}", program.display()))?;
    let placement::Age { same, renamed } =
        placement::age(&counted, file.symbols().filter_map(|symbol| symbol.name().ok()));
    println!("{same} functions have the names that they had when they were counted, {renamed} have others");
    match renamed * 100 > (same + renamed) * OLD {
        true => Err("the counts are too old: `cargo xtask profile` makes them anew".to_owned()),
        false => Ok(()),
    }
}

fn count(root: &Path) -> Result<(), String> {
    let target = root.join("target/pgo");
    let profdata = Compiler::ask()?.tool("llvm-profdata")?;
    let counted = target.join("counts");
    // Counts of an older program do not apply to this one.
    remove(&counted)?;
    let server = instrumented(root, &target.join("instrumented"), &counted)?;
    let training = TrainingRun { server, root };
    let (bench, stories) = (counted.join("bench"), counted.join("stories"));
    training.bench(&bench)?;
    training.stories(&stories);

    let folder = root.join("profile");
    std::fs::create_dir_all(&folder).map_err(|error| problem("make", &folder, &error))?;
    let file = target.join("branches.profdata");
    let stories = stories.exists().then_some(stories);
    merge(&profdata, &file, [&bench].into_iter().chain(&stories))?;
    let packed = folder.join(PACKED);
    let bytes = std::fs::read(&file).map_err(|error| problem("read", &file, &error))?;
    let bytes = gzip::pack(&bytes, Effort::Best)?;
    std::fs::write(&packed, bytes).map_err(|error| problem("write", &packed, &error))?;
    let compiler = folder.join("compiler");
    let version = output(Command::new("rustc").arg("--version"))?;
    std::fs::write(&compiler, version).map_err(|error| problem("write", &compiler, &error))?;
    order(root)?;
    println!("{}", packed.display());
    Ok(())
}

/// Builds the server with the counts, and places what it runs at its start.
fn order(root: &Path) -> Result<(), String> {
    let target = root.join("target/pgo");
    let plain = target.join("plain");
    // Cargo does not notice that the counts are others.
    remove(&plain)?;
    finish(cargo(root).args(["build", "--release", "--bin", "kube-apiserver", "--target-dir"]).arg(&plain))?;
    place(root, &plain.join("release/kube-apiserver"))
}

/// Writes the order of functions by the start of a release build.
fn place(root: &Path, program: &Path) -> Result<(), String> {
    let folder = root.join("profile");
    let profdata = Compiler::ask()?.tool("llvm-profdata")?;
    let started = started::functions(program, root, &root.join("target/pgo/started"))?;
    println!("a start runs {} functions", started.len());
    let (packed, file) = (folder.join(PACKED), root.join("target/pgo/branches.profdata"));
    let bytes = std::fs::read(&packed).map_err(|error| problem("read", &packed, &error))?;
    std::fs::write(&file, gzip::unpack(&bytes)?).map_err(|error| problem("write", &file, &error))?;
    let order = placement::order(&profdata, &file, &started)?;
    let functions = folder.join("functions");
    std::fs::write(&functions, order).map_err(|error| problem("write", &functions, &error))
}

/// Merges the counts in directories into one file. Functions that never ran are mentioned, too: they are compiled to be
/// small, and are not put into others.
fn merge<'p>(profdata: &Path, file: &Path, counts: impl IntoIterator<Item = &'p PathBuf>) -> Result<(), String> {
    let mut merge = Command::new(profdata);
    finish(merge.args(["merge", "-o"]).arg(file).args(counts))
}

/// Builds the server with counters, which write to a directory.
fn instrumented(root: &Path, target: &Path, counts: &Path) -> Result<PathBuf, String> {
    let mut build = cargo(root);
    build.args(["build", "--release", "--bin", "kube-apiserver", "--target-dir"]).arg(target);
    finish(build.env("BINNACLE_COUNT_BRANCHES", counts))?;
    Ok(target.join("release/kube-apiserver"))
}
