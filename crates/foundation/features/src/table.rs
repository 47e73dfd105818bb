//! The table of this release's feature gates.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::Version;

/// The maturity of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The feature does not exist yet in the emulated version.
    PreAlpha,
    Alpha,
    Beta,
    /// Generally available.
    Ga,
    Deprecated,
}

impl Stage {
    /// Returns the label of the stage in the metric of feature gates.
    pub fn label(self) -> &'static str {
        match self {
            Self::PreAlpha => "PRE-ALPHA",
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Ga => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// The properties of a gate from a version on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    pub since: Version,
    pub stage: Stage,
    pub default: bool,
    /// True if the gate cannot be changed.
    pub locked: bool,
}

/// The gates with their history, oldest entry first, and their dependencies.
pub(crate) struct Table {
    pub(crate) gates: BTreeMap<&'static str, Vec<Spec>>,
    pub(crate) needs: BTreeMap<&'static str, Vec<&'static str>>,
}

pub(crate) static TABLE: LazyLock<Table> =
    LazyLock::new(|| parse(include_str!("../data/v1.36.tbl")).expect("the table of the release is tested"));

impl Table {
    /// Returns the properties of a gate in a version, or `None` if it does not exist there.
    pub(crate) fn spec(&self, name: &str, version: Version) -> Option<Spec> {
        let specs = self.gates.get(name)?;
        let absent = Spec { since: version, stage: Stage::PreAlpha, default: false, locked: false };
        Some(specs.iter().rev().find(|spec| spec.since <= version).copied().unwrap_or(absent))
    }
}

fn parse(text: &'static str) -> Option<Table> {
    let mut table = Table { gates: BTreeMap::new(), needs: BTreeMap::new() };
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, rest) = line.split_once(' ')?;
        match rest.strip_prefix("needs ") {
            Some(needs) => drop(table.needs.insert(name, needs.split(' ').collect())),
            None => drop(table.gates.insert(name, rest.split(' ').map(spec).collect::<Option<_>>()?)),
        }
    }
    Some(table)
}

fn spec(text: &str) -> Option<Spec> {
    let (since, rest) = text.split_once(':')?;
    let (stage, default) = rest.split_once('=')?;
    let locked = default.ends_with('!');
    let stage = match stage {
        "alpha" => Stage::Alpha,
        "beta" => Stage::Beta,
        "ga" => Stage::Ga,
        "deprecated" => Stage::Deprecated,
        _ => return None,
    };
    let default = match default.trim_end_matches('!') {
        "on" => true,
        "off" => false,
        _ => return None,
    };
    Some(Spec { since: since.parse().ok()?, stage, default, locked })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_sorted_and_complete() {
        assert!(TABLE.gates.len() > 200, "{}", TABLE.gates.len());
        for (name, specs) in &TABLE.gates {
            assert!(specs.is_sorted_by_key(|spec| spec.since), "{name}");
        }
        for (name, needs) in &TABLE.needs {
            for gate in needs.iter().chain([name]) {
                assert!(TABLE.gates.contains_key(gate), "{gate}");
            }
        }
    }

    #[test]
    fn finds_the_stage_in_each_version() {
        let stage =
            |name: &str, minor| TABLE.spec(name, Version { major: 1, minor }).map(|spec| (spec.stage, spec.default));
        assert_eq!(stage("GenericWorkload", 34), Some((Stage::PreAlpha, false)));
        assert_eq!(stage("GenericWorkload", 36), Some((Stage::Alpha, false)));
        assert_eq!(stage("WatchListClient", 34), Some((Stage::Beta, false)));
        assert_eq!(stage("WatchListClient", 36), Some((Stage::Beta, true)));
        assert_eq!(stage("NoSuchThing", 36), None);
    }
}
