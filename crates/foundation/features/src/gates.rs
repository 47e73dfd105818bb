//! The feature gates of one server: the defaults of a version, overridden by `--feature-gates`.

use std::collections::BTreeMap;

use crate::table::{Spec, Stage, TABLE};
use crate::version::Version;

const ALL_ALPHA: &str = "AllAlpha";
const ALL_BETA: &str = "AllBeta";

/// The values of feature gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates {
    emulated: Version,
    /// The oldest version of other servers that must be able to read what this server writes.
    compatible: Version,
    /// The gates that the flag sets, including those set to their default.
    set: BTreeMap<&'static str, bool>,
    /// The value of each gate by name, computed in advance because some are looked up on every write.
    on: Vec<(&'static str, bool)>,
    warnings: Vec<String>,
}

/// An error in `--feature-gates`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    #[error("missing bool value for {0}")]
    NoValue(String),
    #[error("invalid value of {0}={1}, err: strconv.ParseBool: parsing {1:?}: invalid syntax")]
    NoBool(String, String),
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    #[error("cannot set feature gate {0} to {1}, feature is locked to {2}")]
    Locked(String, bool, bool),
    #[error(
        "cannot set feature gate {0} to {1}, feature is PreAlpha at emulated version {2}, min compatibility version {3}"
    )]
    PreAlpha(String, bool, Version, Version),
    #[error("{0} is enabled, but depends on features that are disabled: [{1}]")]
    Dependency(String, String),
    #[error("component not registered: {0}")]
    Component(String),
    #[error("set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use")]
    MixedPrefixes,
    #[error("[{}]", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Several(Vec<GateError>),
}

impl Default for Gates {
    fn default() -> Self {
        Self::of(Version::BINARY)
    }
}

// === impl Gates: constructors ===

impl Gates {
    /// Returns the defaults of a version.
    pub fn of(emulated: Version) -> Self {
        let compatible = emulated.previous().max(Version::MIN_EMULATED);
        let mut gates = Self { emulated, compatible, set: BTreeMap::new(), on: Vec::new(), warnings: Vec::new() };
        gates.recompute();
        gates
    }

    /// Parses the values of the flag for a version: `A=true,B=false`, each with an optional prefix `kube:`.
    pub fn parse(values: &[&str], emulated: Version, compatible: Version) -> Result<Self, GateError> {
        let mut gates = Self { compatible, ..Self::of(emulated) };
        let mut requested: BTreeMap<&str, bool> = BTreeMap::new();
        let mut prefixes = [false, false];
        for pair in values.iter().flat_map(|value| value.split(',')).filter(|pair| !pair.is_empty()) {
            let (component, pair) =
                pair.split_once(':').map_or(("", pair), |(component, rest)| (component.trim(), rest));
            prefixes[usize::from(component == "kube")] |= matches!(component, "" | "kube");
            if !matches!(component, "" | "kube") {
                return Err(GateError::Component(component.to_owned()));
            }
            let (name, value) = pair.split_once('=').ok_or_else(|| GateError::NoValue(pair.trim().to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            let on = go_bool(value).ok_or_else(|| GateError::NoBool(name.to_owned(), value.to_owned()))?;
            requested.insert(name, on);
        }
        if prefixes == [true, true] {
            return Err(GateError::MixedPrefixes);
        }
        gates.set_all(&requested)?;
        Ok(gates)
    }
}

// === impl Gates: queries ===

impl Gates {
    pub fn enabled(&self, feature: &str) -> bool {
        self.find(feature).unwrap_or(false)
    }

    /// Returns true if the gate exists.
    pub fn knows(&self, feature: &str) -> bool {
        self.find(feature).is_some()
    }

    fn find(&self, feature: &str) -> Option<bool> {
        let at = self.on.binary_search_by(|(name, _)| (*name).cmp(feature)).ok()?;
        self.on.get(at).map(|(_, on)| *on)
    }

    pub fn emulated(&self) -> Version {
        self.emulated
    }

    /// Returns the oldest version of other servers that must be able to read what this server writes.
    pub fn compatible(&self) -> Version {
        self.compatible
    }

    /// Iterates over all gates of the emulated version, sorted by name, with their spec and their value.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Spec, bool)> + '_ {
        TABLE.gates.keys().filter_map(|name| {
            let spec = self.spec(name).filter(|spec| spec.stage != Stage::PreAlpha)?;
            Some((*name, spec, self.enabled(name)))
        })
    }

    /// Returns the warnings to log at startup about gates that are set although they will be removed.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn spec(&self, feature: &str) -> Option<Spec> {
        TABLE.spec(feature, self.emulated)
    }

    fn set_all(&mut self, requested: &BTreeMap<&str, bool>) -> Result<(), GateError> {
        let mut errors = Vec::new();
        for (name, on) in requested {
            let Some(known) = TABLE.gates.keys().copied().find(|known| known == name) else {
                errors.push(GateError::Unknown((*name).to_owned()));
                continue;
            };
            let Some(spec) = self.spec(known) else { continue };
            if spec.locked && spec.default != *on {
                errors.push(GateError::Locked((*name).to_owned(), *on, spec.default));
            } else if spec.stage == Stage::PreAlpha && !matches!(known, ALL_ALPHA | ALL_BETA) {
                errors.push(GateError::PreAlpha((*name).to_owned(), *on, self.emulated, self.compatible));
            } else {
                self.set.insert(known, *on);
                self.warn(known, *on, spec.stage);
            }
        }
        // The setting of a gate takes precedence over the setting for all gates of its stage.
        for (all, stage) in [(ALL_ALPHA, Stage::Alpha), (ALL_BETA, Stage::Beta)] {
            let Some(on) = requested.get(all) else { continue };
            for name in TABLE.gates.keys().filter(|name| !matches!(**name, ALL_ALPHA | ALL_BETA)) {
                if self.spec(name).is_some_and(|spec| spec.stage == stage) {
                    self.set.entry(name).or_insert(*on);
                }
            }
        }
        self.recompute();
        if errors.is_empty() {
            errors = self.dependency_errors();
        }
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(GateError::Several(errors)),
        }
    }

    fn recompute(&mut self) {
        let default = |name: &str| TABLE.spec(name, self.emulated).is_some_and(|spec| spec.default);
        let on = |name: &&'static str| self.set.get(name).copied().unwrap_or_else(|| default(name));
        // The table is sorted.
        self.on = TABLE.gates.keys().map(|name| (*name, on(name))).collect();
    }

    fn warn(&mut self, name: &str, on: bool, stage: Stage) {
        let stage_name = match stage {
            Stage::Deprecated => "deprecated",
            Stage::Ga => "GA",
            _ => return,
        };
        self.warnings
            .push(format!("setting {stage_name} feature gate {name}={on}. It will be removed in a future release."));
    }

    fn dependency_errors(&self) -> Vec<GateError> {
        let mut errors = Vec::new();
        for (name, needs) in &TABLE.needs {
            let off: Vec<&str> = needs.iter().copied().filter(|need| !self.enabled(need)).collect();
            if self.enabled(name) && !off.is_empty() {
                errors.push(GateError::Dependency((*name).to_owned(), off.join(" ")));
            }
        }
        errors
    }
}

/// Parses a bool like Go's `strconv.ParseBool`.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str], minor: u16) -> Result<Gates, String> {
        let emulated = Version { major: 1, minor };
        Gates::parse(values, emulated, emulated.previous()).map_err(|error| error.to_string())
    }

    #[test]
    fn applies_flag_values_over_defaults() {
        for (values, feature, want) in [
            (&[][..], "GenericWorkload", false),
            (&[], "StorageVersionHash", true),
            (&["GenericWorkload=true"], "GenericWorkload", true),
            (&["kube:GenericWorkload=T", "kube:StorageVersionHash=0"], "StorageVersionHash", false),
            (&["AllAlpha=true"], "GenericWorkload", true),
            (
                &[
                    "AllAlpha=true,GenericWorkload=false,GangScheduling=false,WorkloadWithJob=false,TopologyAwareWorkloadScheduling=false,WorkloadAwarePreemption=false,DRAWorkloadResourceClaims=false",
                ],
                "GenericWorkload",
                false,
            ),
            (&["AllBeta=true"], "ClusterTrustBundle", true),
            (&["Nonsense=true"], "Nonsense", false),
        ] {
            match parse(values, 36) {
                Ok(gates) => assert_eq!(gates.enabled(feature), want, "{values:?}"),
                Err(error) => assert_eq!(error, "unrecognized feature gate: Nonsense", "{values:?}"),
            }
        }
    }

    #[test]
    fn reports_errors_like_kube_apiserver() {
        for (values, minor, want) in [
            (&["A"][..], 36, "missing bool value for A"),
            (&["A=maybe"], 36, "invalid value of A=maybe, err: strconv.ParseBool: parsing \"maybe\": invalid syntax"),
            (&["Nonsense=true"], 36, "unrecognized feature gate: Nonsense"),
            (&["wardle:A=true"], 36, "component not registered: wardle"),
            (
                &["kube:GenericWorkload=true", "ClusterTrustBundle=true"],
                36,
                "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
            ),
            (
                &["DeclarativeValidation=false"],
                36,
                "cannot set feature gate DeclarativeValidation to false, feature is locked to true",
            ),
            (
                &["GenericWorkload=true"],
                34,
                "cannot set feature gate GenericWorkload to true, feature is PreAlpha at emulated version 1.34, min compatibility version 1.33",
            ),
            (
                &["GangScheduling=true"],
                36,
                "GangScheduling is enabled, but depends on features that are disabled: [GenericWorkload]",
            ),
            (&["B=true,A=true"], 36, "[unrecognized feature gate: A, unrecognized feature gate: B]"),
        ] {
            assert_eq!(parse(values, minor).err().as_deref(), Some(want), "{values:?}");
        }
        let warned = parse(&["DeclarativeValidation=true"], 36).expect("its locked value");
        assert_eq!(warned.warnings().len(), 1);
    }

    #[test]
    fn emulated_versions_have_their_own_gates() {
        let count = |minor| Gates::of(Version { major: 1, minor }).all().count();
        assert!(count(33) < count(36));
        assert!(!Gates::of(Version { major: 1, minor: 34 }).enabled("WatchListClient"));
    }
}
