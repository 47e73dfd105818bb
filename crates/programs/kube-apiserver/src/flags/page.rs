//! The test that `docs/flags.md` describes the flags that kube-apiserver does not have, with examples, and those that
//! differ or have no effect.

use std::collections::BTreeSet;

use super::{GROUPS, inert};

const PAGE: &str = include_str!("../../../../../docs/flags.md");

/// Flags that kube-apiserver does not have.
const OWN: [&str; 22] = [
    "audit-webhook-spill-dir",
    "audit-webhook-spill-max-size",
    "check-config",
    "compare-dir",
    "compare-dry-run",
    "compare-kubeconfig",
    "compare-rate",
    "compare-with",
    "config",
    "data-dir",
    "enable-live-page",
    "ephemeral",
    "forward-writes-ca-file",
    "forward-writes-to",
    "history-retention",
    "hostname-override",
    "logical-cluster-domain",
    "logical-clusters",
    "max-awake-logical-clusters",
    "read-only",
    "run-controllers",
    "stop-with-stdin",
];

/// Returns the flags in the first cells of a section's table.
fn rows(heading: &str) -> BTreeSet<&'static str> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).expect("the page has the section");
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `--")?.split(" | ").next());
    cells.flat_map(|cell| cell.trim_end_matches('`').split("`, `--")).collect()
}

#[test]
fn own_flags_have_a_row_and_an_example() {
    assert_eq!(rows("Flags of Binnacle"), BTreeSet::from(OWN));
    let examples: BTreeSet<_> = PAGE
        .lines()
        .filter(|line| line.starts_with("    "))
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.strip_prefix("--")?.split('=').next())
        .collect();
    for name in OWN {
        assert!(examples.contains(name), "docs/flags.md has no example of --{name}");
    }
}

#[test]
fn flags_without_effect_are_listed() {
    assert_eq!(rows("Without effect"), inert::GROUP.flags.iter().map(|flag| flag.name).collect());
}

#[test]
fn listed_flags_exist() {
    let known: BTreeSet<_> = GROUPS.iter().flat_map(|group| group.flags).map(|flag| flag.name).collect();
    let listed = rows("Different from kube-apiserver");
    assert!(listed.len() > 10, "{listed:?}");
    for name in listed.iter().chain(&OWN) {
        assert!(known.contains(name), "there is no flag --{name}");
    }
}
