//! The server as it is released: optimized by what an instrumented build of it was seen doing.
//!
//! Counting how often each branch is taken tells the compiler what to inline, how to lay out code, and what is hardly
//! ever run and may be small: a create costs a third less. What runs while the server starts is put together, so that an
//! idle server keeps a third of the program in memory, and not most of it.

mod order;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Arg, ArgAction, ArgMatches};

/// What the bench does for training: the paths that requests take most often.
const SCENARIOS: [&str; 7] = ["create", "get", "list", "patch", "apply", "leases", "watch"];
const BENCH: [&str; 6] = ["run", "--release", "-p", "binnacle-bench", "--", "--scale=0.2"];
const SERVER: &str = "kube-apiserver";
/// What stands between flags in `CARGO_ENCODED_RUSTFLAGS`, so that they may hold spaces.
const FLAG_END: &str = "\x1f";

pub(crate) fn command() -> clap::Command {
    clap::Command::new("release")
        .about("Builds the server optimized by a profile of itself, as target/pgo/kube-apiserver")
        .long_about(
            "Builds the server with counters, lets the bench and the stories of the end-to-end tests use it, and builds it \
             again with what was counted, as target/pgo/kube-apiserver. Needs llvm-profdata and llvm-nm of the LLVM that \
             rustc has: `rustup component add llvm-tools`, or a distribution's package llvm-NN.",
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
    let (profdata, nm) = (compiler.tool("llvm-profdata")?, compiler.tool("llvm-nm")?);
    let counted = directory.join("counts");
    // Counts of an older program say nothing of this one.
    if counted.exists() {
        std::fs::remove_dir_all(&counted).map_err(|error| problem("empty", &counted, &error))?;
    }
    let build = Build { compiler: &compiler, root: &root };

    let server = build.server(&directory.join("instrumented"), flag("-Cprofile-generate=", &counted), None)?;
    let training = Training { server, root: &root };
    let start = counted.join("start");
    let mut inputs = vec![start.clone(), counted.join("usual")];
    training.run(&inputs[0], &[&BENCH[..], &["idle"]].concat())?;
    training.run(&inputs[1], &[&BENCH[..], &SCENARIOS].concat())?;
    if !matches.get_flag("without-stories") {
        let stories = counted.join("stories");
        // Some stories wait for no longer than an optimized server needs: what they counted until then counts.
        if let Err(problem) = training.run(&stories, &["test", "-p", "binnacle-e2e", "--no-fail-fast"]) {
            eprintln!("warning: {problem}");
        }
        if stories.exists() {
            inputs.push(stories);
        }
    }
    let merged = directory.join("merged.profdata");
    finish(Command::new(&profdata).arg("merge").arg("-o").arg(&merged).args(&inputs))?;
    let started = directory.join("start.profdata");
    finish(Command::new(&profdata).arg("merge").arg("-o").arg(&started).arg(&start))?;

    let optimized = directory.join("optimized");
    let server = build.server(&optimized, flag("-Cprofile-use=", &merged), None)?;
    // The names in a program are known when it is there: some get a suffix while it is optimized.
    let order = directory.join("start.order");
    let symbols = output(Command::new(nm).args(["--format=posix", "--defined-only"]).arg(&server))?;
    let ran = output(Command::new(&profdata).args(["show", "--covered"]).arg(&started))?;
    let known = output(Command::new(&profdata).args(["show", "--all-functions"]).arg(&started))?;
    std::fs::write(&order, order::of_start(&symbols, &ran, &known))
        .map_err(|error| problem("write", &order, &error))?;
    let server = build.server(&optimized, flag("-Cprofile-use=", &merged), Some(&order))?;

    let released = directory.join(SERVER);
    std::fs::copy(&server, &released).map_err(|error| problem("copy", &server, &error))?;
    println!("{}", released.display());
    Ok(())
}

/// Lets cargo commands use the instrumented server.
struct Training<'t> {
    server: PathBuf,
    root: &'t Path,
}

impl Training<'_> {
    /// Runs a command; what is counted meanwhile goes into a directory.
    fn run(&self, counts: &Path, arguments: &[&str]) -> Result<(), String> {
        // Servers that end one after the other add to the same few files.
        let file = counts.join("%4m.profraw");
        let mut command = cargo(self.root);
        command.args(arguments).env("BINNACLE_KUBE_APISERVER", &self.server).env("LLVM_PROFILE_FILE", file);
        finish(&mut command)
    }
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

    /// One of the programs that come with LLVM; what one version writes another need not read.
    fn tool(&self, name: &str) -> Result<PathBuf, String> {
        let component = self.sysroot.join("lib/rustlib").join(&self.host).join("bin").join(name);
        let wanted = format!("LLVM version {}.", self.llvm);
        let candidates = [component, PathBuf::from(format!("{name}-{}", self.llvm)), PathBuf::from(name)];
        let fits =
            |program: &PathBuf| output(Command::new(program).arg("--version")).is_ok_and(|v| v.contains(&wanted));
        candidates.into_iter().find(fits).ok_or_else(|| {
            format!("there is no {name} of LLVM {0}: rustup component add llvm-tools, or install llvm-{0}", self.llvm)
        })
    }
}

struct Build<'b> {
    compiler: &'b Compiler,
    root: &'b Path,
}

impl Build<'_> {
    /// Builds the server with one more flag. That a target is named keeps the flag from what only runs while building.
    fn server(&self, target: &Path, flag: OsString, order: Option<&Path>) -> Result<PathBuf, String> {
        let host = &self.compiler.host;
        let mut flags = OsString::new();
        for given in env::var("RUSTFLAGS").unwrap_or_default().split_whitespace() {
            flags.push(given);
            flags.push(FLAG_END);
        }
        flags.push(flag);
        let mut command = cargo(self.root);
        command.args(["build", "--release", "--bin", SERVER, "--target", host]).arg("--target-dir").arg(target);
        command.env("CARGO_ENCODED_RUSTFLAGS", flags);
        if let Some(order) = order {
            command.env("BINNACLE_SYMBOL_ORDER", order);
        }
        finish(&mut command)?;
        Ok(target.join(host).join("release").join(SERVER))
    }
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
