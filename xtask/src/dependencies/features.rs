//! Pins the features of the server's dependencies, independently of the packages that are built together. Cargo unifies
//! the features of all packages and they affect the mangled names of functions, by which `profile/branches.profdata.gz`
//! refers to functions.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use super::Findings;

/// Checks the server built alone against the server built with all members, except the tasks of the repository: these
/// are built to pack programs, not with them.
pub(super) fn check(root: &Path) -> Result<Findings, String> {
    let alone = packages(root, &["-p", "kube-apiserver"])?;
    let with_all = packages(root, &["--workspace", "--exclude", "xtask"])?;
    Ok(differences(&alone, &with_all))
}

/// The mark that cargo adds to a package whose dependencies it has shown before. All of them would be millions of lines.
const REPEATED: &str = " (*)";

/// Returns lines of a package and its features.
fn packages(root: &Path, selected: &[&str]) -> Result<BTreeSet<String>, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["tree", "--locked", "--edges=normal,build", "--prefix=none", "--format={p} has {f}"])
        .args(selected)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo tree: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(|line| line.trim_end_matches(REPEATED).to_owned()).collect())
}

fn differences(alone: &BTreeSet<String>, with_all: &BTreeSet<String>) -> Findings {
    let finding = |package: &String| format!("built without other members, {package}, and more features with them");
    alone.difference(with_all).map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_features_added_by_other_members() {
        let packages = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
        let alone: BTreeSet<String> = packages(&["a v1.0.0 has default", "b v1.0.0 has std"]);
        for (with_all, found) in [
            (packages(&["a v1.0.0 has default", "b v1.0.0 has std", "c v1.0.0 has "]), 0),
            (packages(&["a v1.0.0 has default", "b v1.0.0 has alloc,std"]), 1),
        ] {
            assert_eq!(differences(&alone, &with_all).len(), found, "{with_all:?}");
        }
    }
}
