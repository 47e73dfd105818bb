//! What tests need of the machine that runs them: programs, recorded data, rights.
//!
//! A build script declares what the tests of its crate need. A test names it, and the test runner counts the test as
//! ignored where that was missing when it was built:
//!
//! ```ignore
//! #[test]
//! #[cfg_attr(not(has_etcd), ignore = "needs etcd")]
//! fn survives_a_leader_change() {}
//! ```
//!
//! An [`Ability`] can only be determined by a running test. The environment variable `BINNACLE_REQUIRED` lists what
//! must be there, separated by commas: otherwise the build or the test fails, so that continuous integration leaves out
//! no test that it should run.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Something that tests need, which is looked for when they are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    Bash,
    /// Chromium on the PATH, or what the environment variable `CHROMIUM` names.
    Chromium,
    /// dpkg-deb on the PATH.
    Dpkg,
    /// etcd and etcdctl on the PATH.
    Etcd,
    /// An etcd whose watches of a prefix need no permission for other keys: 3.4.31, 3.5.13 or later.
    EtcdRanges,
    Fish,
    Go,
    Helm,
    /// The package `kopf` of Python, and what Kubernetes clients need.
    Kopf,
    /// kubectl on the PATH, or what the environment variable `KUBECTL` names.
    Kubectl,
    Man,
    Mandoc,
    Minisign,
    Node,
    Objcopy,
    Prometheus,
    /// The package `pytest` of Python, and what Kubernetes clients need.
    Pytest,
    Python,
    /// The package `kubernetes` of Python; `BINNACLE_PYTHON` names another interpreter than the one on the PATH.
    PythonClient,
    /// A kubectl of 1.30 or later, with all commands and outputs that the tests use.
    RecentKubectl,
    Rpm,
    /// Recorded facts and answers of kube-apiserver: see [`shared`].
    Shared,
    Skopeo,
    Zsh,
}

/// Something that only a running test can find to be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ability {
    /// Running programs with another wall clock.
    Faketime,
    /// Mounting small file systems.
    Mounts,
    /// Making network namespaces.
    Namespaces,
    /// Tracing and changing the system calls of programs.
    Seccomp,
    /// Running programs as other users.
    Users,
}

/// Where requirements are looked for.
struct SearchPaths {
    /// The folders of the PATH.
    programs: Vec<PathBuf>,
    /// Environment variables that name programs, as far as they are set.
    named: Vec<(&'static str, PathBuf)>,
    shared: PathBuf,
}

/// What is needed for a requirement.
struct Condition {
    /// In `BINNACLE_REQUIRED`, and behind `has_` in `cfg`.
    name: &'static str,
    /// On the PATH.
    programs: &'static [&'static str],
    /// The environment variable that names another program.
    variable: Option<&'static str>,
    /// What Python must be able to import.
    packages: &'static str,
    /// The condition on the version of the program.
    version: Option<Version>,
}

/// A condition on the version of a program.
#[derive(Clone, Copy)]
struct Version {
    arguments: &'static [&'static str],
    /// Judges the output.
    is_enough: fn(&str) -> bool,
    shown: &'static str,
}

const REQUIREMENTS: [Requirement; 24] = [
    Requirement::Bash,
    Requirement::Chromium,
    Requirement::Dpkg,
    Requirement::Etcd,
    Requirement::EtcdRanges,
    Requirement::Fish,
    Requirement::Go,
    Requirement::Helm,
    Requirement::Kopf,
    Requirement::Kubectl,
    Requirement::Man,
    Requirement::Mandoc,
    Requirement::Minisign,
    Requirement::Node,
    Requirement::Objcopy,
    Requirement::Prometheus,
    Requirement::Pytest,
    Requirement::Python,
    Requirement::PythonClient,
    Requirement::RecentKubectl,
    Requirement::Rpm,
    Requirement::Shared,
    Requirement::Skopeo,
    Requirement::Zsh,
];

const ABILITIES: [Ability; 5] =
    [Ability::Faketime, Ability::Mounts, Ability::Namespaces, Ability::Seccomp, Ability::Users];

// === impl Requirement ===

impl Requirement {
    fn needs(self) -> Condition {
        let programs = |name, programs| Condition { name, programs, variable: None, packages: "", version: None };
        let named = |name, needed, variable| Condition { variable: Some(variable), ..programs(name, needed) };
        let python = |name, packages| Condition { packages, ..named(name, &["python3"], "BINNACLE_PYTHON") };
        match self {
            Self::Bash => programs("bash", &["bash"]),
            Self::Chromium => named("chromium", &["chromium"], "CHROMIUM"),
            Self::Dpkg => programs("dpkg", &["dpkg-deb"]),
            Self::Etcd => programs("etcd", &["etcd", "etcdctl"]),
            Self::EtcdRanges => {
                let is_enough = etcd_watches_ranges;
                let version = Version { arguments: &["--version"], is_enough, shown: "3.4.31 or 3.5.13 or later" };
                Condition { version: Some(version), ..programs("etcd_ranges", &["etcd", "etcdctl"]) }
            }
            Self::Fish => programs("fish", &["fish"]),
            Self::Go => programs("go", &["go"]),
            Self::Helm => programs("helm", &["helm"]),
            Self::Kopf => python("kopf", "kopf, kubernetes"),
            Self::Kubectl => named("kubectl", &["kubectl"], "KUBECTL"),
            Self::Man => programs("man", &["man"]),
            Self::Mandoc => programs("mandoc", &["mandoc"]),
            Self::Minisign => programs("minisign", &["minisign"]),
            Self::Node => programs("node", &["node"]),
            Self::Objcopy => programs("objcopy", &["objcopy"]),
            Self::Prometheus => programs("prometheus", &["prometheus"]),
            Self::Pytest => python("pytest", "kubernetes, pytest"),
            Self::Python => programs("python", &["python3"]),
            Self::PythonClient => python("python_client", "kubernetes"),
            Self::RecentKubectl => {
                let arguments = &["version", "--client", "--output=json"];
                let version = Version { arguments, is_enough: is_recent_kubectl, shown: "1.30 or later" };
                Condition { version: Some(version), ..named("recent_kubectl", &["kubectl"], "KUBECTL") }
            }
            Self::Rpm => programs("rpm", &["rpm"]),
            Self::Shared => programs("shared", &[]),
            Self::Skopeo => programs("skopeo", &["skopeo"]),
            Self::Zsh => programs("zsh", &["zsh"]),
        }
    }

    fn is_met(self, places: &SearchPaths) -> bool {
        if self == Self::Shared {
            return places.shared.join("reference").is_dir();
        }
        let needs = self.needs();
        let found: Option<Vec<PathBuf>> = needs.programs.iter().map(|program| places.find(program, &needs)).collect();
        match (found.as_deref(), needs.version) {
            (Some([python]), _) if !needs.packages.is_empty() => imports(python, needs.packages),
            (Some([program, ..]), Some(version)) => version.is_met_by(program),
            (found, _) => found.is_some(),
        }
    }

    /// Returns where it was not found.
    fn searched(self, places: &SearchPaths) -> String {
        let needs = self.needs();
        if self == Self::Shared {
            return format!("there is no {}", places.shared.join("reference").display());
        }
        let folders: Vec<String> = places.programs.iter().map(|folder| folder.display().to_string()).collect();
        let programs = format!("{} must be in one of {}", needs.programs.join(" and "), folders.join(", "));
        match needs.version {
            Some(version) => format!("{programs}, of version {}", version.shown),
            None if needs.packages.is_empty() => programs,
            None => format!("{programs}, and import {}", needs.packages),
        }
    }
}

// === impl Version ===

impl Version {
    fn is_met_by(self, program: &Path) -> bool {
        let output = Command::new(program).args(self.arguments).stdin(Stdio::null()).output();
        output.is_ok_and(|output| (self.is_enough)(&String::from_utf8_lossy(&output.stdout)))
    }
}

/// Judges the output of `etcd --version`, which begins with `etcd Version: 3.5.16`.
fn etcd_watches_ranges(output: &str) -> bool {
    let version = output.lines().find_map(|line| line.strip_prefix("etcd Version: "));
    let numbers: Vec<u32> =
        version.unwrap_or_default().trim().split('.').map_while(|number| number.parse().ok()).collect();
    match numbers[..] {
        [3, 4, patch] => patch >= 31,
        [3, 5, patch] => patch >= 13,
        _ => numbers > vec![3, 5],
    }
}

/// Judges the output of `kubectl version`, which has the member `"minor": "32"`, with a plus after it in some builds.
fn is_recent_kubectl(output: &str) -> bool {
    let minor = output.split("\"minor\":").nth(1).and_then(|rest| rest.split('"').nth(1));
    minor.and_then(|minor| minor.trim_end_matches('+').parse().ok()).is_some_and(|minor: u32| minor >= 30)
}

// === impl SearchPaths ===

impl SearchPaths {
    fn here() -> Self {
        let variables = ["BINNACLE_PYTHON", "CHROMIUM", "KUBECTL"];
        Self {
            programs: env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect(),
            named: variables.iter().filter_map(|name| Some((*name, env::var_os(name)?.into()))).collect(),
            shared: shared_folder(),
        }
    }

    fn find(&self, program: &str, needs: &Condition) -> Option<PathBuf> {
        let named = self.named.iter().find(|(variable, _)| Some(*variable) == needs.variable);
        let program = named.map_or(Path::new(program), |(_, named)| named);
        if program.is_absolute() {
            return program.is_file().then(|| program.to_owned());
        }
        self.programs.iter().map(|folder| folder.join(program)).find(|path| path.is_file())
    }
}

// === impl Ability ===

impl Ability {
    /// Returns the name in `BINNACLE_REQUIRED`.
    fn name(self) -> &'static str {
        match self {
            Self::Faketime => "faketime",
            Self::Mounts => "mounts",
            Self::Namespaces => "namespaces",
            Self::Seccomp => "seccomp",
            Self::Users => "users",
        }
    }

    /// Prints that a test does without; fails if this is required.
    ///
    /// # Panics
    ///
    /// If `BINNACLE_REQUIRED` lists it.
    pub fn is_missing(self, why: &str) {
        let required = env::var("BINNACLE_REQUIRED").unwrap_or_default();
        assert!(!lists(&required, self.name()), "{} is required: {why}", self.name());
        eprintln!("left out: {why}");
    }
}

/// Returns a file or folder of the recorded facts and answers of kube-apiserver, which lie in the folder `shared` beside
/// the project, or where `BINNACLE_SHARED` says.
///
/// # Panics
///
/// If it is missing: tests that need it are ignored without the whole ([`Requirement::Shared`]).
#[must_use]
pub fn shared(path: &str) -> PathBuf {
    let found = shared_folder().join(path);
    assert!(found.exists(), "the recorded data of kube-apiserver is incomplete: there is no {}", found.display());
    found
}

fn shared_folder() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../../shared");
    env::var_os("BINNACLE_SHARED").map_or_else(beside, PathBuf::from)
}

/// Prints the instructions for Cargo: a `cfg` for each requirement that is met.
pub fn declare(requirements: &[Requirement]) {
    let places = SearchPaths::here();
    let required = env::var("BINNACLE_REQUIRED").unwrap_or_default();
    // Not when PATH or one of its folders changes: that would rebuild too much too often.
    println!("cargo::rerun-if-env-changed=BINNACLE_REQUIRED");
    for requirement in requirements {
        let own = (*requirement == Requirement::Shared).then_some("BINNACLE_SHARED");
        if let Some(variable) = own.or(requirement.needs().variable) {
            println!("cargo::rerun-if-env-changed={variable}");
        }
        println!("{}", instruction(*requirement, &places, &required));
    }
    if let Some(unknown) = unknown(&required) {
        println!("cargo::error=BINNACLE_REQUIRED has {unknown}, which no test needs");
    }
}

/// Returns the instruction for one requirement.
fn instruction(requirement: Requirement, places: &SearchPaths, required: &str) -> String {
    let name = requirement.needs().name;
    let known = format!("cargo::rustc-check-cfg=cfg(has_{name})");
    if requirement.is_met(places) {
        return format!("{known}\ncargo::rustc-cfg=has_{name}");
    }
    if lists(required, name) {
        return format!("cargo::error={}", requirement.searched(places));
    }
    known
}

fn names(required: &str) -> impl Iterator<Item = &str> {
    required.split(',').map(str::trim).filter(|name| !name.is_empty())
}

fn lists(required: &str, name: &str) -> bool {
    names(required).any(|listed| listed == name)
}

/// Returns the first name that is neither a requirement nor an ability.
fn unknown(required: &str) -> Option<&str> {
    let is_known = |name: &str| {
        REQUIREMENTS.iter().any(|known| known.needs().name == name)
            || ABILITIES.iter().any(|known| known.name() == name)
    };
    names(required).find(|name| !is_known(name))
}

fn imports(python: &Path, packages: &str) -> bool {
    let mut command = Command::new(python);
    command
        .args(["-c", &format!("import {packages}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_missing_requirements_unless_required() {
        let folder = env::temp_dir().join(format!("binnacle-test-requirements-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("reference")).expect("a folder");
        for program in ["kubectl", "etcd", "python3"] {
            std::fs::write(folder.join(program), "").expect("a file");
        }
        let here = SearchPaths { programs: vec![folder.clone()], named: Vec::new(), shared: folder.clone() };
        let with = |kubectl: &str| SearchPaths {
            programs: Vec::new(),
            named: vec![("KUBECTL", folder.join(kubectl))],
            shared: folder.join("no"),
        };
        let named = with("kubectl");
        let met = |name| format!("cargo::rustc-check-cfg=cfg(has_{name})\ncargo::rustc-cfg=has_{name}");
        let unmet = |name| format!("cargo::rustc-check-cfg=cfg(has_{name})");
        assert_eq!(instruction(Requirement::Kubectl, &here, "kubectl"), met("kubectl"));
        assert_eq!(instruction(Requirement::Kubectl, &named, ""), met("kubectl"));
        assert_eq!(instruction(Requirement::Kubectl, &with("no"), ""), unmet("kubectl"));
        assert_eq!(instruction(Requirement::Shared, &here, ""), met("shared"));
        // There is no etcdctl.
        assert_eq!(instruction(Requirement::Etcd, &here, "kubectl"), unmet("etcd"));
        let error = instruction(Requirement::Etcd, &here, "kubectl, etcd");
        assert_eq!(error, format!("cargo::error=etcd and etcdctl must be in one of {}", folder.display()));
        assert!(instruction(Requirement::Shared, &named, "shared").starts_with("cargo::error=there is no "));
        // A Python that cannot be run imports nothing.
        assert_eq!(instruction(Requirement::Python, &here, ""), met("python"));
        assert_eq!(instruction(Requirement::PythonClient, &here, ""), unmet("python_client"));
        let all = SearchPaths { named: vec![("BINNACLE_PYTHON", "true".into())], ..SearchPaths::here() };
        assert_eq!(instruction(Requirement::Kopf, &all, ""), met("kopf"));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn reads_versions_of_programs() {
        for (version, want) in
            [("3.4.30", false), ("3.4.31", true), ("3.5.12", false), ("3.5.13", true), ("3.6.0", true), ("", false)]
        {
            assert_eq!(etcd_watches_ranges(&format!("etcd Version: {version}\nGit SHA: x\n")), want, "{version}");
        }
        for (minor, want) in [("20", false), ("29", false), ("30", true), ("32+", true), ("", false)] {
            let output = format!("{{\n  \"clientVersion\": {{\n \"major\": \"1\",\n \"minor\": \"{minor}\"}}}}");
            assert_eq!(is_recent_kubectl(&output), want, "{minor}");
        }
        assert!(!is_recent_kubectl("an error"));
    }

    #[test]
    fn rejects_unknown_names_in_the_variable() {
        assert_eq!(unknown(""), None);
        assert_eq!(unknown("etcd, python_client,faketime"), None);
        assert_eq!(unknown("etcd,faketimes"), Some("faketimes"));
    }

    #[test]
    #[should_panic = "there is no "]
    fn panics_without_shared_data() {
        let _ = shared("no/such/part");
    }
}
