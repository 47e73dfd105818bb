//! For build scripts of crates whose tests need programs or data that not every machine has.
//!
//! A test names what it needs, and the test runner counts it as ignored where that is missing:
//!
//! ```ignore
//! #[test]
//! #[cfg_attr(not(has_etcd), ignore = "needs etcd")]
//! fn survives_a_leader_change() {}
//! ```
//!
//! The environment variable `BINNACLE_REQUIRED` lists what must be there, separated by commas: the build fails without
//! it, so that continuous integration ignores no test that it should run.

use std::env;
use std::path::{Path, PathBuf};

/// Something that tests need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// etcd and etcdctl on the PATH.
    Etcd,
    /// kubectl on the PATH, or where the environment variable `KUBECTL` says.
    Kubectl,
    /// Recorded facts and answers of kube-apiserver beside the project, or in the folder of `BINNACLE_SHARED`.
    Shared,
}

/// Where requirements are looked for.
struct Places {
    /// The folders of the PATH.
    programs: Vec<PathBuf>,
    /// The kubectl that tests use instead of that on the PATH.
    kubectl: Option<PathBuf>,
    shared: PathBuf,
}

impl Requirement {
    /// Returns the name in `BINNACLE_REQUIRED`, and behind `has_` in `cfg`.
    fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Kubectl => "kubectl",
            Self::Shared => "shared",
        }
    }

    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Etcd => &["etcd", "etcdctl"],
            Self::Kubectl => &["kubectl"],
            Self::Shared => &[],
        }
    }

    fn is_met(self, places: &Places) -> bool {
        match (self, &places.kubectl) {
            (Self::Shared, _) => places.shared.join("reference").is_dir(),
            (Self::Kubectl, Some(named)) => named.is_file(),
            _ => {
                let has = |program: &&str| places.programs.iter().any(|folder| folder.join(program).is_file());
                self.programs().iter().all(has)
            }
        }
    }

    /// Returns where it was not found.
    fn searched(self, places: &Places) -> String {
        match self {
            Self::Shared => format!("there is no {}", places.shared.join("reference").display()),
            _ => {
                let folders: Vec<String> = places.programs.iter().map(|folder| folder.display().to_string()).collect();
                format!("{} must be in one of {}", self.programs().join(" and "), folders.join(", "))
            }
        }
    }
}

/// Prints the instructions for Cargo: a `cfg` for each requirement that is met.
pub fn declare(requirements: &[Requirement]) {
    let shared = || env::var_os("CARGO_MANIFEST_DIR").map(|own| Path::new(&own).join("../../../../shared"));
    let places = Places {
        programs: env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect(),
        kubectl: env::var_os("KUBECTL").map(PathBuf::from),
        shared: env::var_os("BINNACLE_SHARED").map(PathBuf::from).or_else(shared).unwrap_or_default(),
    };
    let required = env::var("BINNACLE_REQUIRED").unwrap_or_default();
    // Not when PATH or one of its folders changes: that would rebuild too much too often.
    for variable in ["BINNACLE_REQUIRED", "BINNACLE_SHARED", "KUBECTL"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    for requirement in requirements {
        println!("{}", instruction(*requirement, &places, &required));
    }
}

/// Returns the instruction for one requirement.
fn instruction(requirement: Requirement, places: &Places, required: &str) -> String {
    let name = requirement.name();
    let known = format!("cargo::rustc-check-cfg=cfg(has_{name})");
    if requirement.is_met(places) {
        return format!("{known}\ncargo::rustc-cfg=has_{name}");
    }
    if required.split(',').any(|wanted| wanted.trim() == name) {
        return format!("cargo::error={}", requirement.searched(places));
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_requirements_are_ignored_or_errors() {
        let folder = env::temp_dir().join(format!("binnacle-test-requirements-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("reference")).expect("a folder");
        std::fs::write(folder.join("kubectl"), "").expect("a file");
        std::fs::write(folder.join("etcd"), "").expect("a file");
        let here = Places { programs: vec![folder.clone()], kubectl: None, shared: folder.clone() };
        let named = Places { programs: Vec::new(), kubectl: Some(folder.join("kubectl")), shared: folder.join("no") };
        let met = |name| format!("cargo::rustc-check-cfg=cfg(has_{name})\ncargo::rustc-cfg=has_{name}");
        assert_eq!(instruction(Requirement::Kubectl, &here, "kubectl"), met("kubectl"));
        assert_eq!(instruction(Requirement::Kubectl, &named, ""), met("kubectl"));
        assert_eq!(instruction(Requirement::Shared, &here, ""), met("shared"));
        // There is no etcdctl.
        assert_eq!(instruction(Requirement::Etcd, &here, "kubectl"), "cargo::rustc-check-cfg=cfg(has_etcd)");
        let error = instruction(Requirement::Etcd, &here, "kubectl, etcd");
        assert_eq!(error, format!("cargo::error=etcd and etcdctl must be in one of {}", folder.display()));
        assert!(instruction(Requirement::Shared, &named, "shared").starts_with("cargo::error=there is no "));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
