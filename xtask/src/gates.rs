//! `cargo xtask feature-gates`: the page of feature gates, from the table of the release and the effects beside it.

use binnacle_features::{Gates, Spec, Stage};
use std::collections::BTreeMap;

use crate::process;

const PAGE: &str = "docs/feature-gates.md";
const EFFECTS: &str = include_str!("../../crates/foundation/features/data/effects.txt");

const HEAD: &str = "\
# Feature gates

    kube-apiserver --feature-gates=NativeHistograms=true,WatchList=false

enables and disables features. A server accepts all gates of Kubernetes v1.36. An unknown name, a gate that is locked to the other
value, and a gate whose dependency is disabled fail the start. With `--emulated-version` the stages and defaults are those of that
version. To see the gates of a running server, read its metric:

    kubectl get --raw /metrics | grep kubernetes_feature_enabled

`cargo xtask feature-gates` writes this page. *Since* is the version in which a gate got its stage and default.
";

const EFFECTIVE: &str = "\
## Gates with an effect

*Keeps* a field means that the server drops it from requests when the gate is off.

";

const WITHOUT: &str = "\
## Gates without an effect

Most of these control kubelets, controllers, schedulers or client libraries, and have no effect in kube-apiserver either;
[known gaps](known-gaps.md#feature-gates-without-effect) lists those that have one there.

";

const LOCKED: &str = "\
## Locked gates

Each of these has its only value: setting it to the other one is an error.

";

pub(crate) fn command() -> clap::Command {
    clap::Command::new("feature-gates")
        .about("Writes docs/feature-gates.md from the table of feature gates")
        .long_about("Writes docs/feature-gates.md from v1.36.tbl and effects.txt in crates/foundation/features/data.")
}

pub(crate) fn run() -> Result<(), String> {
    std::fs::write(process::root().join(PAGE), page()).map_err(|error| format!("cannot write {PAGE}: {error}"))
}

/// Returns the effect of each gate that has one, by name.
fn effects() -> BTreeMap<&'static str, &'static str> {
    EFFECTS.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' ')).collect()
}

fn page() -> String {
    let (effects, gates) = (effects(), Gates::default());
    let mut effective = String::from(
        "| gate | stage | default | since | when it is on, the server |\n| --- | --- | --- | --- | --- |\n",
    );
    let mut without = String::from("| gate | stage | default | since |\n| --- | --- | --- | --- |\n");
    let mut locked = without.clone();
    for (name, spec, _) in gates.all() {
        match effects.get(name) {
            _ if spec.locked => locked.push_str(&format!("{} |\n", row(name, spec))),
            Some(effect) => effective.push_str(&format!("{} | {effect} |\n", row(name, spec))),
            None => without.push_str(&format!("{} |\n", row(name, spec))),
        }
    }
    [HEAD, "\n", EFFECTIVE, &effective, "\n", WITHOUT, &without, "\n", LOCKED, &locked].concat()
}

/// Returns the cells of a gate, without the last separator.
fn row(name: &str, spec: Spec) -> String {
    let stage = match spec.stage {
        Stage::PreAlpha => "pre-alpha",
        Stage::Alpha => "alpha",
        Stage::Beta => "beta",
        Stage::Ga => "GA",
        Stage::Deprecated => "deprecated",
    };
    let default = if spec.default { "on" } else { "off" };
    // Gates that are older than stages have versions before the first one.
    let since = if spec.since.minor == 0 { "-".to_owned() } else { spec.since.to_string() };
    format!("| `{name}` | {stage} | {default} | {since}")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn page_follows_from_the_table() {
        let page_in_docs = std::fs::read_to_string(process::root().join(PAGE)).unwrap();
        assert!(page_in_docs == page(), "{PAGE} differs from the table: cargo xtask feature-gates");
    }

    /// A gate has an effect exactly if a source of the server names it.
    #[test]
    fn effects_are_those_of_gates_in_the_sources() {
        let mut sources = String::new();
        read(&process::root().join("crates"), &mut sources);
        let effects = effects();
        let gates = Gates::default();
        let is_named = |name: &str| matches!(name, "AllAlpha" | "AllBeta") || sources.contains(&format!("\"{name}\""));
        for (name, ..) in gates.all().filter(|(_, spec, _)| !spec.locked) {
            assert_eq!(effects.contains_key(name), is_named(name), "{name}: see effects.txt");
        }
        let unknown: Vec<_> = effects.keys().filter(|name| !gates.knows(name)).collect();
        assert!(unknown.is_empty(), "there are no gates {unknown:?}");
    }

    /// Reads the sources of all crates but the one of the gates, without tests.
    fn read(folder: &Path, sources: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if ["tests", "tests.rs", "testing", "features"].iter().any(|name| path.ends_with(name)) {
                continue;
            }
            if path.is_dir() {
                read(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
    }
}
