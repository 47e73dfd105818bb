//! The test that `docs/flags.md` describes every flag of kube-apiserver and its state here.

use std::collections::BTreeSet;

use super::{GROUPS, inert};

const PAGE: &str = include_str!("../../../../../docs/flags.md");

/// Flags that kube-apiserver does not have; `--help` lists them.
const OWN: [&str; 12] = [
    "admin-socket",
    "audit-webhook-spill-dir",
    "audit-webhook-spill-max-size",
    "check-config",
    "config",
    "data-dir",
    "enable-live-page",
    "ephemeral",
    "help",
    "hostname-override",
    "stop-with-stdin",
    "version",
];

/// Returns the name and state of each row.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let row = |line: &'static str| line.strip_prefix("| `--")?.strip_suffix(" |")?.split_once("` | ");
    PAGE.lines().filter_map(row)
}

#[test]
fn page_states_effect_of_each_flag() {
    for (name, state) in rows() {
        let known = GROUPS.iter().any(|group| group.flags.iter().any(|flag| flag.name == name));
        let inert = inert::GROUP.flags.iter().any(|flag| flag.name == name);
        assert!(known, "--{name} is refused");
        let want = if inert { "without effect" } else { "effective" };
        assert!(state.starts_with(want), "--{name} is {want}, and the page says: {state}");
    }
}

#[test]
fn page_lists_every_flag() {
    let rows: BTreeSet<_> = rows().map(|(name, _)| name).collect();
    let known = GROUPS.iter().flat_map(|group| group.flags).map(|flag| flag.name);
    let missing: Vec<_> = known.filter(|name| !rows.contains(name) && !OWN.contains(name)).collect();
    assert!(missing.is_empty(), "docs/flags.md lacks {missing:?}");
}
