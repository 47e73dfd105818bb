//! Which program the tests start: the one cargo built for this run.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

const NAME: &str = "kube-apiserver";

/// A command that starts the program, with nothing of the caller's environment that would change what it does.
///
/// `BINNACLE_KUBE_APISERVER` names another build of it.
#[must_use]
pub fn program() -> Command {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(PATH.get_or_init(find));
    command.stdin(Stdio::null()).env_remove("XDG_DATA_HOME");
    command
}

fn find() -> PathBuf {
    // Cargo and nextest say where the program is to tests of its own package.
    let told = ["BINNACLE_KUBE_APISERVER", "CARGO_BIN_EXE_kube-apiserver", "NEXTEST_BIN_EXE_kube-apiserver"];
    match told.iter().find_map(std::env::var_os) {
        Some(path) => path.into(),
        None => build(),
    }
}

/// Builds the program as the running test was built: same profile, target and directory. It is a matter of
/// milliseconds when there is nothing to do.
fn build() -> PathBuf {
    // TARGET/[TRIPLE/]PROFILE/deps/TEST
    let test = std::env::current_exe().unwrap();
    let artifacts = test.ancestors().nth(2).unwrap();
    let program = artifacts.join(NAME);
    let mut lock = lock(artifacts);
    // With nextest each test is a process: the first one of a run builds.
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
        .args(["build", "--quiet", "--bin", NAME, "--profile", profile])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    if parent.join("CACHEDIR.TAG").exists() {
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

/// Held until the file is dropped. The file says which run built last.
fn lock(artifacts: &Path) -> File {
    let path = artifacts.join(".kube-apiserver.testkit");
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).unwrap();
    file.lock().unwrap();
    file
}
