//! The release build of the server, optimized with the profiles of instrumented builds.
//!
//! The counts of branches tell the compiler which code to inline, and which code rarely runs and may be small: a create
//! costs a third less. A second count, in the compiled program, tells BOLT where to put the code: a create costs a
//! seventh less than that, and code that an idle server never runs is not in memory.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches};

/// The bench runs for training: the start, and the paths that requests take most often.
#[rustfmt::skip]
const BENCH: [&str; 14] = [
    "run", "--release", "-p", "binnacle-bench", "--", "--scale=0.2",
    "idle", "create", "get", "list", "patch", "apply", "leases", "watch",
];
const SERVER: &str = "kube-apiserver";
/// The separator of flags in `CARGO_ENCODED_RUSTFLAGS`, so that they may hold spaces.
const FLAG_END: &str = "\x1f";

/// The linker's options: BOLT needs relocations. A fixed address, which Go's programs have too, saves two megabytes of
/// relocated tables in the memory of every server, and some instructions in every call.
const LINKED: [&str; 2] = ["-Clink-arg=-Wl,--emit-relocs", "-Crelocation-model=static"];
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
        .about("Builds the server optimized by profiles of itself, as target/pgo/kube-apiserver")
        .long_about(
            "Builds the server with counters, lets the bench and the stories of the end-to-end tests use it, and builds it \
             again with what was counted; then does the same with the layout of what was built. The result is \
             target/pgo/kube-apiserver. Needs llvm-profdata, llvm-bolt and merge-fdata of the LLVM that rustc has: Debian's \
             packages llvm-NN and bolt-NN, for example.",
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
    let tools = Tools::find(&compiler)?;
    let counted = directory.join("counts");
    // Counts of an older program do not apply to this one.
    if counted.exists() {
        std::fs::remove_dir_all(&counted).map_err(|error| problem("empty", &counted, &error))?;
    }
    let build = Build { compiler: &compiler, root: &root };

    let server = build.server(&directory.join("instrumented"), &[flag("-Cprofile-generate=", &counted)])?;
    let training = Training { server, root: &root };
    let mut inputs = vec![counted.join("usual")];
    training.run(&inputs[0], &BENCH)?;
    if !matches.get_flag("without-stories") {
        let stories = counted.join("stories");
        // Some stories time out with a slow server: their profiles until then count.
        if let Err(problem) = training.run(&stories, &["test", "-p", "binnacle-e2e", "--no-fail-fast"]) {
            eprintln!("warning: {problem}");
        }
        if stories.exists() {
            inputs.push(stories);
        }
    }
    let merged = directory.join("merged.profdata");
    finish(Command::new(&tools.profdata).arg("merge").arg("-o").arg(&merged).args(&inputs))?;

    let mut flags = vec![flag("-Cprofile-use=", &merged)];
    flags.extend(LINKED.map(OsString::from));
    let compiled = build.server(&directory.join("optimized"), &flags)?;

    let counts = counted.join("layout");
    std::fs::create_dir_all(&counts).map_err(|error| problem("make", &counts, &error))?;
    let server = directory.join("counting");
    let file = flag("--instrumentation-file=", &counts.join("server"));
    let mut counting = Command::new(&tools.bolt);
    counting.arg(&compiled).arg("-instrument").arg(file).arg("--instrumentation-file-append-pid");
    finish(counting.arg("-o").arg(&server))?;
    Training { server, root: &root }.run(&counts, &BENCH)?;
    let layout = directory.join("layout.fdata");
    finish(Command::new(&tools.merge_fdata).args(files(&counts)?).arg("-o").arg(&layout))?;

    let released = directory.join(SERVER);
    let mut laid_out = Command::new(&tools.bolt);
    laid_out.arg(&compiled).arg(flag("-data=", &layout)).args(LAYOUT);
    finish(laid_out.arg("-o").arg(&released))?;
    println!("{}", released.display());
    Ok(())
}

/// Runs cargo commands with an instrumented server.
struct Training<'t> {
    server: PathBuf,
    root: &'t Path,
}

impl Training<'_> {
    /// Runs a command, whose counts go to a directory.
    fn run(&self, counts: &Path, arguments: &[&str]) -> Result<(), String> {
        // Successive servers add to the same few files.
        let file = counts.join("%4m.profraw");
        let mut command = cargo(self.root);
        command.args(arguments).env("BINNACLE_KUBE_APISERVER", &self.server).env("LLVM_PROFILE_FILE", file);
        finish(&mut command)
    }
}

/// The output of `rustc -vV`, and the sysroot.
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

    /// Returns the path of one of LLVM's programs, which must be of the compiler's version: others may not read its
    /// files.
    fn tool(&self, name: &str) -> Result<PathBuf, String> {
        let component = self.sysroot.join("lib/rustlib").join(&self.host).join("bin").join(name);
        let wanted = format!("LLVM version {}.", self.llvm);
        let candidates = [component, PathBuf::from(format!("{name}-{}", self.llvm)), PathBuf::from(name)];
        let fits =
            |program: &PathBuf| output(Command::new(program).arg("--version")).is_ok_and(|v| v.contains(&wanted));
        candidates
            .into_iter()
            .find(fits)
            .ok_or_else(|| format!("there is no {name} of LLVM {0}: install llvm-{0} and bolt-{0}", self.llvm))
    }
}

/// The paths of LLVM's programs.
struct Tools {
    profdata: PathBuf,
    bolt: PathBuf,
    merge_fdata: PathBuf,
}

impl Tools {
    fn find(compiler: &Compiler) -> Result<Self, String> {
        Ok(Self {
            profdata: compiler.tool("llvm-profdata")?,
            bolt: compiler.tool("llvm-bolt")?,
            merge_fdata: compiler.tool("merge-fdata")?,
        })
    }
}

struct Build<'b> {
    compiler: &'b Compiler,
    root: &'b Path,
}

impl Build<'_> {
    /// Builds the server with additional flags. Because the target is named, they do not apply to build scripts.
    fn server(&self, target: &Path, flags: &[OsString]) -> Result<PathBuf, String> {
        let host = &self.compiler.host;
        let given = env::var("RUSTFLAGS").unwrap_or_default();
        let mut all: Vec<_> = given.split_whitespace().map(OsString::from).collect();
        all.extend_from_slice(flags);
        let mut command = cargo(self.root);
        command.args(["build", "--release", "--bin", SERVER, "--target", host]).arg("--target-dir").arg(target);
        command.env("CARGO_ENCODED_RUSTFLAGS", all.join(OsStr::new(FLAG_END)));
        finish(&mut command)?;
        Ok(target.join(host).join("release").join(SERVER))
    }
}

/// Returns the files of a directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        std::fs::read_dir(directory).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    entries.map_err(|error| problem("read", directory, &error))
}

fn problem(verb: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {verb} {}: {error}", path.display())
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
