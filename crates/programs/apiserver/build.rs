//! Sets the commit for `/version`, from git. A build from an archive can set it in `BINNACLE_GIT_COMMIT`; otherwise it
//! is empty.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BINNACLE_GIT_COMMIT");
    let named = std::env::var("BINNACLE_GIT_COMMIT").ok().filter(|commit| !commit.is_empty());
    let (commit, state) = match named {
        Some(commit) => (commit, ""),
        None => from_git(),
    };
    println!("cargo::rustc-env=BINNACLE_COMMIT={commit}");
    println!("cargo::rustc-env=BINNACLE_TREE_STATE={state}");
}

/// Returns the commit that is checked out, and the state of the tree.
fn from_git() -> (String, &'static str) {
    let Some(commit) = git(&["rev-parse", "HEAD"]).filter(|commit| commit.len() >= 40) else {
        return (String::new(), "");
    };
    // Changes with each commit and checkout. Cargo would rerun the script each time for a missing file.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        let log = std::path::absolute(log).unwrap_or_default();
        if log.exists() {
            println!("cargo::rerun-if-changed={}", log.display());
        }
    }
    // The state of a tree in development changes too often.
    if std::env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return (commit, "");
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    (commit, changed.map_or("", |changed| if changed.is_empty() { "clean" } else { "dirty" }))
}

fn git(arguments: &[&str]) -> Option<String> {
    // A repository around an unpacked archive is not this program's.
    let own = Path::new("../../../.git").exists();
    let output = own.then(|| Command::new("git").args(arguments).output().ok()).flatten()?;
    let text = output.status.success().then(|| String::from_utf8(output.stdout).ok()).flatten()?;
    Some(text.trim().to_owned())
}
