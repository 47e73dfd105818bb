//! The built-in versions and resources that are enabled: the defaults of the release, changed by `--runtime-config`.

use std::collections::BTreeMap;

use binnacle_scheme::{ResourceDescription, VersionDescription};

use crate::groups;

const ALL: &str = "api/all";

/// The settings of `--runtime-config`, from the most general to the most specific.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeConfig {
    stages: Vec<(Stages, bool)>,
    /// The settings of versions, by group and version.
    versions: BTreeMap<(String, String), bool>,
    /// The settings of resources, by group, version and plural.
    resources: BTreeMap<(String, String, String), bool>,
}

/// An error in `--runtime-config`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeConfigError {
    #[error("invalid runtime-config with only api/all=false")]
    Nothing,
    #[error("runtime-config invalid key {0}")]
    Key(String),
    #[error("unknown api groups {0}")]
    Groups(String),
    #[error("invalid value {0}={1}")]
    StageValue(String, String),
    #[error("group version {0} that has not been registered")]
    Version(String),
    #[error("invalid value of {0}: {1}, err: strconv.ParseBool: parsing {1:?}: invalid syntax")]
    Value(String, String),
    #[error("invalid key {0}: group/version/resource and resource is always lowercase plural, not {1:?}")]
    Case(String, String),
}

/// All versions of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stages {
    All,
    Ga,
    Beta,
    Alpha,
}

// === impl RuntimeConfig ===

impl RuntimeConfig {
    /// Parses the values of the flag: `api/beta=true,apps/v1/deployments=false`. `registered` returns true if the
    /// release has a version of a group, served or not.
    pub fn parse(values: &[&str], registered: impl Fn(&str, &str) -> bool) -> Result<Self, RuntimeConfigError> {
        let pairs = values.iter().flat_map(|value| value.split(',')).filter(|pair| !pair.is_empty());
        let given: BTreeMap<&str, &str> =
            pairs.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).map(trimmed).filter_map(core).collect();
        if given.len() == 1 && given.get(ALL) == Some(&"false") {
            return Err(RuntimeConfigError::Nothing);
        }
        known_groups(&given)?;
        let mut enabled = Self::default();
        for (key, stages) in
            [(ALL, Stages::All), ("api/ga", Stages::Ga), ("api/beta", Stages::Beta), ("api/alpha", Stages::Alpha)]
        {
            match given.get(key) {
                None => {}
                Some(&"true") => enabled.stages.push((stages, true)),
                Some(&"false") => enabled.stages.push((stages, false)),
                Some(other) => return Err(RuntimeConfigError::StageValue(key.to_owned(), (*other).to_owned())),
            }
        }
        for (key, value) in given.iter().filter(|(key, _)| !is_stages(key)) {
            enabled.set(key, value, &registered)?;
        }
        Ok(enabled)
    }

    fn set(
        &mut self,
        key: &str,
        value: &str,
        registered: impl Fn(&str, &str) -> bool,
    ) -> Result<(), RuntimeConfigError> {
        let tokens: Vec<&str> = key.split('/').collect();
        let [group, version, ..] = tokens[..] else { return Ok(()) };
        if !registered(group, version) {
            let slash = if group.is_empty() { "" } else { "/" };
            return Err(RuntimeConfigError::Version(format!("{group}{slash}{version}")));
        }
        let on = go_bool(value).ok_or_else(|| RuntimeConfigError::Value(key.to_owned(), value.to_owned()))?;
        match tokens.get(2) {
            None => drop(self.versions.insert((group.to_owned(), version.to_owned()), on)),
            Some(plural) if plural.to_lowercase() != **plural => {
                return Err(RuntimeConfigError::Case(key.to_owned(), (*plural).to_owned()));
            }
            Some(plural) => {
                self.resources.insert((group.to_owned(), version.to_owned(), (*plural).to_owned()), on);
            }
        }
        Ok(())
    }

    /// Returns true if the flag and the defaults enable a resource; its feature gate is ignored.
    pub fn serves(&self, version: &VersionDescription, resource: &ResourceDescription) -> bool {
        let [group, name, plural] = [&resource.group, &resource.version, &resource.plural].map(|text| text.to_string());
        if let Some(on) = self.resources.get(&(group.clone(), name.clone(), plural)) {
            return *on;
        }
        if let Some(on) = self.versions.get(&(group, name)) {
            return *on;
        }
        let stages = self.stages.iter().rev().find(|(stages, _)| stages.contain(version.version));
        stages.map_or(version.served_by_default, |(_, on)| *on)
    }

    /// Returns true if the flag enables this version by name.
    pub fn names_version(&self, group: &str, version: &str) -> bool {
        self.versions.get(&(group.to_owned(), version.to_owned())) == Some(&true)
    }

    /// Returns true if the flag enables this resource by name.
    pub fn names_resource(&self, group: &str, version: &str, plural: &str) -> bool {
        self.resources.get(&(group.to_owned(), version.to_owned(), plural.to_owned())) == Some(&true)
    }

    /// Returns true if the flag disables the resource or its version.
    pub fn turns_off(&self, version: &VersionDescription, resource: &ResourceDescription) -> bool {
        let [group, name, plural] = [&resource.group, &resource.version, &resource.plural].map(|text| text.to_string());
        let stages = self.stages.iter().rev().find(|(stages, _)| stages.contain(version.version));
        let setting = self.resources.get(&(group.clone(), name.clone(), plural)).or(self.versions.get(&(group, name)));
        setting.copied().or(stages.map(|(_, on)| *on)) == Some(false)
    }
}

fn trimmed<'a>((key, value): (&'a str, &'a str)) -> (&'a str, &'a str) {
    (key.trim(), value.trim())
}

/// Returns the setting with the normalized version of the core group: `v1` and `api/v1` are aliases, with or without a
/// resource; `api/legacy` is an obsolete alias.
fn core<'a>((key, value): (&'a str, &'a str)) -> Option<(&'a str, &'a str)> {
    let rest = key.strip_prefix("api/").unwrap_or(key).strip_prefix("v1");
    match rest {
        _ if key == "api/legacy" => None,
        Some(rest) if rest.is_empty() || rest.starts_with('/') => Some(("/v1", value)),
        _ => Some((key, value)),
    }
}

fn is_stages(key: &str) -> bool {
    matches!(key, ALL | "api/ga" | "api/beta" | "api/alpha")
}

fn known_groups(given: &BTreeMap<&str, &str>) -> Result<(), RuntimeConfigError> {
    let mut unknown = Vec::new();
    for key in given.keys().filter(|key| !is_stages(key)) {
        let tokens: Vec<&str> = key.split('/').collect();
        let ([group, version] | [group, version, _]) = tokens[..] else {
            return Err(RuntimeConfigError::Key((*key).to_owned()));
        };
        let name = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        if !groups().iter().any(|known| known.name == group) && !unknown.contains(&name) {
            unknown.push(name);
        }
    }
    if unknown.is_empty() { Ok(()) } else { Err(RuntimeConfigError::Groups(unknown.join(","))) }
}

/// Parses a bool like Go's `strconv.ParseBool`; a key without a value is true.
fn go_bool(text: &str) -> Option<bool> {
    match text {
        "" | "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

// === impl Stages ===

impl Stages {
    fn contain(self, version: &str) -> bool {
        match self {
            Self::All => true,
            Self::Ga => !version.contains("alpha") && !version.contains("beta"),
            Self::Beta => version.contains("beta"),
            Self::Alpha => version.contains("alpha"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &[&str]) -> Result<RuntimeConfig, String> {
        RuntimeConfig::parse(values, |group, version| crate::find_version(group, version).is_some())
            .map_err(|e| e.to_string())
    }

    fn serves(enabled: &RuntimeConfig, group: &str, version: &str, plural: &str) -> bool {
        let described = crate::find_version(group, version).expect("a version");
        enabled.serves(described, described.resource(plural).expect("a resource"))
    }

    #[test]
    fn more_specific_settings_win() {
        let slices = ("resource.k8s.io", "v1beta1", "resourceslices");
        let deployments = ("apps", "v1", "deployments");
        for (values, (group, version, plural), want) in [
            (&[][..], slices, false),
            (&[], deployments, true),
            (&["api/all=true"], slices, true),
            (&["api/all=true,api/beta=false"], slices, false),
            (&["api/beta=true"], slices, true),
            (&["api/alpha=true"], slices, false),
            (&["api/beta=true", "resource.k8s.io/v1beta1=false"], slices, false),
            (&["resource.k8s.io/v1beta1"], slices, true),
            (&["resource.k8s.io/v1beta1/resourceslices=true"], slices, true),
            (&["apps/v1=false,apps/v1/deployments=true"], deployments, true),
            (&["apps/v1/deployments=false"], deployments, false),
            (&["api/ga=false,api/beta=true"], deployments, false),
            (&["/v1/pods=false"], ("", "v1", "pods"), false),
            (&["api/v1=false"], ("", "v1", "pods"), false),
            (&["v1=false"], ("", "v1", "pods"), false),
            (&["v1/secrets=false"], ("", "v1", "pods"), false),
            (&["api/v1,api/legacy"], ("", "v1", "pods"), true),
        ] {
            let enabled = parse(values).unwrap_or_else(|error| panic!("{values:?}: {error}"));
            assert_eq!(serves(&enabled, group, version, plural), want, "{values:?}");
        }
    }

    #[test]
    fn rejects_invalid_runtime_config() {
        for (value, want) in [
            ("api/all=false", "invalid runtime-config with only api/all=false"),
            ("v2=true", "runtime-config invalid key v2"),
            ("api/v2=true", "unknown api groups api/v2"),
            ("api/all=false,api/legacy", "invalid runtime-config with only api/all=false"),
            ("b.test/v1=true,a.test/v1", "unknown api groups a.test/v1,b.test/v1"),
            ("api/beta=yes", "invalid value api/beta=yes"),
            ("apps/v9=true", "group version apps/v9 that has not been registered"),
            ("apps/v1=yes", "invalid value of apps/v1: yes, err: strconv.ParseBool: parsing \"yes\": invalid syntax"),
            (
                "apps/v1/Deployments=false",
                "invalid key apps/v1/Deployments: group/version/resource and resource is always lowercase plural, not \"Deployments\"",
            ),
        ] {
            assert_eq!(parse(&[value]).err().as_deref(), Some(want), "{value}");
        }
    }
}
