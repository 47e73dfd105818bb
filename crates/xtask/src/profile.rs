//! The counts of branches that release builds are compiled with, which the repository holds in the folder `profile`.
//!
//! They tell the compiler which code to inline, and which code rarely runs and may be small: a create costs a third less.
//! `.cargo/rustc-with-profile` gives them to the compiler, and has it count.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ArgMatches;

use crate::process::{Compiler, cargo, finish, output, problem};
use crate::training::Training;

pub(crate) fn command() -> clap::Command {
    clap::Command::new("profile")
        .about("Counts anew which branches the server takes, as profile/branches.profdata")
        .long_about(
            "Builds the server with counters, and lets the bench and some stories of the end-to-end tests use it. The counts are \
             those of the compiler that is in use: release builds of another one do without. Needs llvm-profdata of the \
             LLVM that rustc has: Debian's package llvm-NN, for example. Takes about half an hour on 2 processors.",
        )
}

pub(crate) fn run(_: &ArgMatches) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = root.join("target/pgo");
    let profdata = Compiler::ask()?.tool("llvm-profdata")?;
    let counted = target.join("counts");
    // Counts of an older program do not apply to this one.
    if counted.exists() {
        std::fs::remove_dir_all(&counted).map_err(|error| problem("empty", &counted, &error))?;
    }
    let server = instrumented(&root, &target.join("instrumented"), &counted)?;
    let training = Training { server, root: &root };
    let (bench, stories) = (counted.join("bench"), counted.join("stories"));
    training.bench(&bench)?;
    training.stories(&stories);

    let folder = root.join("profile");
    std::fs::create_dir_all(&folder).map_err(|error| problem("make", &folder, &error))?;
    let file = folder.join("branches.profdata");
    // Functions that never ran are as good as not mentioned.
    let mut merge = Command::new(profdata);
    merge.args(["merge", "-sparse", "-o"]).arg(&file).arg(&bench);
    finish(merge.args(stories.exists().then_some(&stories)))?;
    let compiler = folder.join("compiler");
    let version = output(Command::new("rustc").arg("--version"))?;
    std::fs::write(&compiler, version).map_err(|error| problem("write", &compiler, &error))?;
    println!("{}", file.display());
    Ok(())
}

/// Builds the server with counters, which write to a directory.
fn instrumented(root: &Path, target: &Path, counts: &Path) -> Result<PathBuf, String> {
    let mut build = cargo(root);
    build.args(["build", "--release", "--bin", "kube-apiserver", "--target-dir"]).arg(target);
    finish(build.env("BINNACLE_COUNT_BRANCHES", counts))?;
    Ok(target.join("release/kube-apiserver"))
}
