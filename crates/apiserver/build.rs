//! Notes the commit for `/version`, where git knows it. A build from an archive names it in `BINNACLE_GIT_COMMIT`, or not
//! at all.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BINNACLE_GIT_COMMIT");
    let named = std::env::var("BINNACLE_GIT_COMMIT").ok().filter(|commit| !commit.is_empty());
    let (commit, state) = match named {
        Some(commit) => (commit, ""),
        None => asked(),
    };
    println!("cargo::rustc-env=BINNACLE_COMMIT={commit}");
    println!("cargo::rustc-env=BINNACLE_TREE_STATE={state}");
}

/// The commit that is checked out, and whether files differ from it.
fn asked() -> (String, &'static str) {
    let Some(commit) = git(&["rev-parse", "HEAD"]).filter(|commit| commit.len() >= 40) else {
        return (String::new(), "");
    };
    // Changes with each commit and each checkout. A file that is absent would make cargo ask each time.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        let log = std::path::absolute(log).unwrap_or_default();
        if log.exists() {
            println!("cargo::rerun-if-changed={}", log.display());
        }
    }
    // For a build that is not released this would soon be wrong.
    if std::env::var("PROFILE").is_ok_and(|profile| profile != "release") {
        return (commit, "");
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]);
    (commit, changed.map_or("", |changed| if changed.is_empty() { "clean" } else { "dirty" }))
}

fn git(arguments: &[&str]) -> Option<String> {
    // Another repository around an unpacked archive has nothing to do with this program.
    let own = Path::new("../../.git").exists();
    let output = own.then(|| Command::new("git").args(arguments).output().ok()).flatten()?;
    let text = output.status.success().then(|| String::from_utf8(output.stdout).ok()).flatten()?;
    Some(text.trim().to_owned())
}
