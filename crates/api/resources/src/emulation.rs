//! The resources of a server that emulates an older release: those of that release, and newer ones on request.

use std::cmp::Reverse;
use std::collections::HashSet;

use binnacle_scheme::{GroupDescription, Release, ResourceDescription, VersionDescription};

use crate::{RuntimeConfig, groups};

/// The options of emulating a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    pub release: Release,
    /// True to serve newer versions of served resources too, unless they are alpha (`--emulation-forward-compatible`).
    pub forward: bool,
    /// True to serve newer versions that `--runtime-config` names (`--runtime-config-emulation-forward-compatible`).
    pub named_forward: bool,
}

/// The served resources: group, version and plural.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedResources(HashSet<(&'static str, &'static str, &'static str)>);

/// The error for a version or resource in `--runtime-config` that the emulated release does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmulationError {
    #[error(
        "cannot enable resource {group}/{version}, Resource={plural} in runtime-config because it is introduced at \
         {}.{} after the current version {}.{}. Consider setting --runtime-config-emulation-forward-compatible=true",
        introduced.major, introduced.minor, current.major, current.minor
    )]
    Resource { group: &'static str, version: &'static str, plural: &'static str, introduced: Release, current: Release },
    #[error(
        "cannot enable version {group}/{version} in runtime-config because all the resources have been introduced after \
         the current version {}.{}. Consider setting --runtime-config-emulation-forward-compatible=true",
        current.major, current.minor
    )]
    Version { group: &'static str, version: &'static str, current: Release },
}

impl ServedResources {
    /// Determines the served resources. `gate` returns true if a feature gate is on.
    pub fn new(
        enabled: &RuntimeConfig,
        emulation: Emulation,
        gate: impl Fn(&str) -> bool,
    ) -> Result<Self, EmulationError> {
        let mut served = Self::default();
        for group in groups() {
            served.add_group(group, enabled, emulation, &gate)?;
        }
        Ok(served)
    }

    pub fn contains(&self, version: &VersionDescription, resource: &ResourceDescription) -> bool {
        self.0.contains(&(resource.group.as_str(), version.version, resource.plural.as_str()))
    }

    fn add_group(
        &mut self,
        group: &'static GroupDescription,
        enabled: &RuntimeConfig,
        emulation: Emulation,
        gate: impl Fn(&str) -> bool,
    ) -> Result<(), EmulationError> {
        let mut versions: Vec<_> = group.versions.iter().collect();
        versions.sort_by_key(|version| maturity(version.version));
        // The plurals that are enabled, and those that are served, in less mature versions.
        let (mut on_below, mut served_below): (HashSet<&str>, HashSet<&str>) = Default::default();
        for version in versions {
            let is_alpha = version.version.contains("alpha");
            let (mut candidates, mut remaining) = (0, 0);
            for resource in &version.resources {
                let plural = resource.plural.as_str();
                let on = enabled.serves(version, resource)
                    || (emulation.forward && on_below.contains(plural) && !enabled.turns_off(version, resource));
                if !on || !resource.feature_gate.is_none_or(&gate) {
                    continue;
                }
                if !is_alpha {
                    on_below.insert(plural);
                }
                if resource.lifecycle.removed.is_some_and(|removed| removed <= emulation.release) {
                    continue;
                }
                candidates += 1;
                if !is_known(resource, version, enabled, emulation, served_below.contains(plural), group)? {
                    continue;
                }
                remaining += 1;
                if !is_alpha {
                    served_below.insert(plural);
                }
                self.0.insert((group.name, version.version, plural));
            }
            if candidates > 0 && remaining == 0 && enabled.names_version(group.name, version.version) {
                let current = emulation.release;
                return Err(EmulationError::Version { group: group.name, version: version.version, current });
            }
        }
        Ok(())
    }
}

/// Returns true if the emulated release has the resource, or if it is served nevertheless.
fn is_known(
    resource: &'static ResourceDescription,
    version: &'static VersionDescription,
    enabled: &RuntimeConfig,
    emulation: Emulation,
    served_below: bool,
    group: &'static GroupDescription,
) -> Result<bool, EmulationError> {
    let Some(introduced) = resource.lifecycle.introduced.filter(|introduced| *introduced > emulation.release) else {
        return Ok(true);
    };
    let plural = resource.plural.as_str();
    let names_resource = enabled.names_resource(group.name, version.version, plural);
    let named = names_resource || enabled.names_version(group.name, version.version);
    if (emulation.forward && served_below) || (emulation.named_forward && named) {
        return Ok(true);
    }
    match names_resource {
        true => Err(EmulationError::Resource {
            group: group.name,
            version: version.version,
            plural,
            introduced,
            current: emulation.release,
        }),
        false => Ok(false),
    }
}

/// Returns a sort key: alpha before beta before stable, then by number: `v1alpha1`, `v1beta1`, `v1beta2`, `v1`, `v2`.
fn maturity(version: &str) -> (u8, u32, u32, Reverse<&str>) {
    let (stage, at) = match (version.find("alpha"), version.find("beta")) {
        (Some(at), _) => (0, at),
        (None, Some(at)) => (1, at),
        (None, None) => (2, version.len()),
    };
    let number = |text: &str| text.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
    (stage, number(&version[..at]), number(&version[at..]), Reverse(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emulation(minor: u16, forward: bool, named_forward: bool) -> Emulation {
        Emulation { release: Release::v1(minor), forward, named_forward }
    }

    fn served(config: &[&str], emulation: Emulation) -> Result<ServedResources, String> {
        let enabled = RuntimeConfig::parse(config, |group, version| crate::find_version(group, version).is_some());
        ServedResources::new(&enabled.unwrap(), emulation, |_| true).map_err(|error| error.to_string())
    }

    fn has(served: &ServedResources, group: &str, version: &str, plural: &str) -> bool {
        let described = crate::find_version(group, version).unwrap();
        served.contains(described, described.resource(plural).unwrap())
    }

    #[test]
    fn orders_versions_by_maturity() {
        let mut versions = ["v2", "v1", "v1beta2", "v1alpha3", "v1beta1", "v2beta1", "v10"];
        versions.sort_by_key(|version| maturity(version));
        assert_eq!(versions, ["v1alpha3", "v1beta1", "v1beta2", "v2beta1", "v1", "v2", "v10"]);
    }

    #[test]
    fn emulated_release_limits_served_versions() {
        let claims = |version| ("resource.k8s.io", version, "resourceclaims");
        let policies = ("admissionregistration.k8s.io", "v1beta1", "validatingadmissionpolicies");
        for (config, emulation, (group, version, plural), want) in [
            (&[][..], emulation(36, false, false), claims("v1"), true),
            (&[], emulation(33, false, false), claims("v1"), false),
            (&[], emulation(33, true, false), claims("v1"), false),
            (&["resource.k8s.io/v1beta1=true"], emulation(33, true, false), claims("v1"), true),
            (&["resource.k8s.io/v1beta1=true"], emulation(33, true, false), claims("v1beta2"), true),
            (&["resource.k8s.io/v1beta1=true"], emulation(33, false, false), claims("v1"), false),
            (
                &["resource.k8s.io/v1beta1=true,resource.k8s.io/v1=false"],
                emulation(33, true, false),
                claims("v1"),
                false,
            ),
            (&["resource.k8s.io/v1=true"], emulation(33, false, true), claims("v1"), true),
            (&["resource.k8s.io/v1/resourceclaims=true"], emulation(33, false, true), claims("v1"), true),
            (&[], emulation(33, false, true), claims("v1"), false),
            (&[], emulation(33, true, true), ("apps", "v1", "deployments"), true),
            // Removed in 1.34.
            (&["admissionregistration.k8s.io/v1beta1=true"], emulation(33, false, false), policies, true),
            (&["api/all=true"], emulation(33, false, false), policies, true),
            (&["api/all=true"], emulation(34, false, false), policies, false),
            (&[], emulation(33, false, false), policies, false),
        ] {
            let served = served(config, emulation).unwrap_or_else(|error| panic!("{config:?} {emulation:?}: {error}"));
            assert_eq!(has(&served, group, version, plural), want, "{config:?} {emulation:?} {version}");
        }
    }

    #[test]
    fn rejects_resources_introduced_after_emulated_release() {
        for (config, want) in [
            (
                "resource.k8s.io/v1/resourceclaims=true",
                "cannot enable resource resource.k8s.io/v1, Resource=resourceclaims in runtime-config because it is introduced at 1.34 after the current version 1.33. Consider setting --runtime-config-emulation-forward-compatible=true",
            ),
            (
                "resource.k8s.io/v1=true",
                "cannot enable version resource.k8s.io/v1 in runtime-config because all the resources have been introduced after the current version 1.33. Consider setting --runtime-config-emulation-forward-compatible=true",
            ),
        ] {
            assert_eq!(served(&[config], emulation(33, false, false)).unwrap_err(), want);
        }
    }
}
