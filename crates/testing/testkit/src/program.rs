//! The programs that tests start, as cargo built them for this run.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Returns a command for the server, without environment variables of the caller that would affect it.
///
/// `BINNACLE_KUBE_APISERVER` overrides the program.
#[must_use]
pub fn program() -> Command {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let told = ["BINNACLE_KUBE_APISERVER", "CARGO_BIN_EXE_kube-apiserver", "NEXTEST_BIN_EXE_kube-apiserver"];
    let mut command = Command::new(PATH.get_or_init(|| find("kube-apiserver", &told)));
    command.stdin(Stdio::null()).env_remove("XDG_DATA_HOME");
    command
}

/// Sets the environment of another command.
pub(crate) fn with_environment_of(mut command: Command, other: &Command) -> Command {
    for (name, value) in other.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Returns a command for the operator's program. `BINNACLE_TOOL` overrides it.
#[must_use]
pub fn tool() -> Command {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let told = ["BINNACLE_TOOL", "CARGO_BIN_EXE_binnacle", "NEXTEST_BIN_EXE_binnacle"];
    let mut command = Command::new(PATH.get_or_init(|| find("binnacle", &told)));
    command.stdin(Stdio::null());
    command
}

/// A command that starts the stand-in for etcd. `BINNACLE_ETCD_STAND_IN` names another build of it.
#[must_use]
pub fn etcd_stand_in() -> Command {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let told = ["BINNACLE_ETCD_STAND_IN", "CARGO_BIN_EXE_etcd", "NEXTEST_BIN_EXE_etcd"];
    let mut command = Command::new(PATH.get_or_init(|| find("etcd", &told)));
    command.stdin(Stdio::null());
    command
}

/// Finds the program, which cargo and nextest name to tests of its own package.
fn find(name: &str, told: &[&str]) -> PathBuf {
    match told.iter().find_map(std::env::var_os) {
        Some(path) => path.into(),
        None => build(name),
    }
}

/// Builds the program like the running test: same profile, target and directory. It takes milliseconds if nothing has
/// changed.
fn build(name: &str) -> PathBuf {
    // TARGET/[TRIPLE/]PROFILE/deps/TEST, or without `deps` for `cargo run`.
    let running = std::env::current_exe().unwrap();
    let folder = running.parent().unwrap();
    let artifacts = if folder.ends_with("deps") { folder.parent().unwrap() } else { folder };
    let program = artifacts.join(name);
    let mut lock = lock(artifacts, name);
    // With nextest each test is a process: only the first one of a run builds.
    let run = std::env::var("NEXTEST_RUN_ID").unwrap_or_default();
    let mut built = String::new();
    lock.read_to_string(&mut built).unwrap();
    if !run.is_empty() && built == run && program.exists() {
        return program;
    }
    let profile = match artifacts.file_name().unwrap().to_str().unwrap() {
        "debug" => "dev",
        other => other,
    };
    let parent = artifacts.parent().unwrap();
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--quiet", "--bin", name, "--profile", profile])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."));
    // The test runner sets variables of its package. Build scripts that depend on them (as ring's does) would run
    // again, and their dependents would be built again, here and in the next run of cargo.
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_of_package(&name.to_string_lossy())) {
        command.env_remove(name);
    }
    // Cargo keeps this file in the target directory itself, also in one that it did not make (and does not tag).
    if parent.join(".rustc_info.json").exists() {
        command.arg("--target-dir").arg(parent);
    } else {
        command.arg("--target-dir").arg(parent.parent().unwrap()).arg("--target").arg(parent.file_name().unwrap());
    }
    let status = command.stdin(Stdio::null()).status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
    lock.set_len(0).unwrap();
    lock.rewind().unwrap();
    lock.write_all(run.as_bytes()).unwrap();
    program
}

/// Returns true for variables that cargo and nextest set for a package.
fn is_of_package(name: &str) -> bool {
    let own = ["CARGO_CRATE_NAME", "CARGO_BIN_NAME", "CARGO_PRIMARY_PACKAGE", "OUT_DIR"];
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || own.contains(&name)
}

/// Locks until the file is dropped. The file has the run that built last.
fn lock(artifacts: &Path, name: &str) -> File {
    let path = artifacts.join(format!(".{name}.testkit"));
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).unwrap();
    file.lock().unwrap();
    file
}
