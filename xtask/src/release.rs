//! The release build of the server, laid out by BOLT.
//!
//! The plain build is compiled with the [branch profile](crate::profile). A second profile, of the compiled program,
//! controls the code layout by BOLT: a create costs a seventh less, and code that an idle server never runs is not in
//! memory.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ArgMatches;

use crate::process::{Compiler, cargo, files, finish, flag, problem, remove};
use crate::training::TrainingRun;

const SERVER: &str = "kube-apiserver";
/// The linker's options: BOLT needs relocations.
const LINKED: [&str; 1] = ["-Clink-arg=-Wl,--emit-relocs"];
/// BOLT's options: blocks in the order in which they run, functions beside their callees, code that did not run apart
/// from the rest.
const LAYOUT: [&str; 7] = [
    "-reorder-blocks=ext-tsp",
    "-reorder-functions=cdsort",
    "-split-functions",
    "-split-all-cold",
    "-split-eh",
    "-icf=1",
    "-no-huge-pages",
];

pub(crate) fn command() -> clap::Command {
    clap::Command::new("release")
        .about("Builds the server and lays it out by what it does, as target/pgo/kube-apiserver")
        .long_about(
            "Builds the server, lets the bench use it while the blocks that run are counted, and lays it out by what was \
             counted. The result is target/pgo/kube-apiserver. Needs llvm-bolt and merge-fdata of the LLVM that rustc has: \
             Debian's package bolt-NN, for example.",
        )
}

pub(crate) fn run(_: &ArgMatches) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let directory = root.join("target/pgo");
    let compiler = Compiler::ask()?;
    let (bolt, merge_fdata) = (compiler.tool("llvm-bolt")?, compiler.tool("merge-fdata")?);
    let compiled = linked(&root, &directory.join("optimized"))?;

    let counts = directory.join("counts/layout");
    remove(&counts)?;
    std::fs::create_dir_all(&counts).map_err(|error| problem("make", &counts, &error))?;
    let server = directory.join("counting");
    let file = flag("--instrumentation-file=", &counts.join("server"));
    let mut counting = Command::new(&bolt);
    counting.arg(&compiled).arg("-instrument").arg(file).arg("--instrumentation-file-append-pid");
    finish(counting.arg("-o").arg(&server))?;
    TrainingRun { server, root: &root }.bench(&counts)?;
    let layout = directory.join("layout.fdata");
    finish(Command::new(&merge_fdata).args(files(&counts)?).arg("-o").arg(&layout))?;

    let released = directory.join(SERVER);
    let mut laid_out = Command::new(&bolt);
    laid_out.arg(&compiled).arg(flag("-data=", &layout)).args(LAYOUT);
    finish(laid_out.arg("-o").arg(&released))?;
    println!("{}", released.display());
    Ok(())
}

/// Builds the server so that BOLT can lay it out. Only the server itself gets the linker's options: its code is made when
/// it is linked.
fn linked(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let mut build = cargo(root);
    build.args(["rustc", "--release", "-p", SERVER, "--bin", SERVER, "--target-dir"]).arg(target);
    finish(build.arg("--").args(LINKED))?;
    Ok(target.join("release").join(SERVER))
}
