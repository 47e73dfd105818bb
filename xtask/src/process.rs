//! Other programs: cargo, and LLVM's tools of the compiler's version.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The output of `rustc -vV`, and the sysroot.
pub(crate) struct Compiler {
    host: String,
    llvm: String,
    sysroot: PathBuf,
}

impl Compiler {
    pub(crate) fn ask() -> Result<Self, String> {
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
    pub(crate) fn tool(&self, name: &str) -> Result<PathBuf, String> {
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

/// Returns the folder of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the files of a directory.
pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries =
        std::fs::read_dir(directory).and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect());
    entries.map_err(|error| problem("read", directory, &error))
}

/// Removes a directory with all that is in it, if it is there.
pub(crate) fn remove(directory: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(problem("remove", directory, &error)),
        _ => Ok(()),
    }
}

pub(crate) fn problem(verb: &str, path: &Path, error: &std::io::Error) -> String {
    format!("cannot {verb} {}: {error}", path.display())
}

pub(crate) fn flag(name: &str, path: &Path) -> OsString {
    let mut flag = OsString::from(name);
    flag.push(path);
    flag
}

pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

pub(crate) fn finish(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}

pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?} failed: {}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
