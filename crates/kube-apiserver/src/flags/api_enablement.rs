//! Which of the built-in APIs are served.

use binnacle_kinds::tables;
use binnacle_resources::{Emulation, Enabled, ServedResources};
use binnacle_scheme::Release;

use super::generic::Generic;
use super::parse::Given;
use super::table::{Flag, FlagError, Group, Kind};

pub(super) const GROUP: Group = Group {
    title: "API enablement",
    flags: &[Flag::new(
        "runtime-config",
        Kind::Value("mapStringString"),
        "",
        "APIs to turn on or off, as key=true or key=false, separated by commas: group/version (apps/v1), \
         group/version/resource (apps/v1/deployments), or api/all, api/ga, api/beta, api/alpha for all versions of a \
         maturity. What is more particular counts more.",
    )],
};

/// The values of the group.
#[derive(Debug)]
pub(crate) struct ApiEnablement {
    pub(crate) served: ServedResources,
}

impl ApiEnablement {
    pub(super) fn read(given: &Given, generic: &Generic) -> Result<Self, FlagError> {
        let known =
            |group: &str, version: &str| tables::kinds().any(|kind| (kind.group, kind.version) == (group, version));
        let enabled = Enabled::parse(&given.all("runtime-config"), known);
        let enabled = enabled.map_err(|error| FlagError::new(error.to_string()))?;
        let emulated = generic.gates.emulated();
        let emulation = Emulation {
            release: Release { major: emulated.major, minor: emulated.minor },
            forward: generic.forward_compatible,
            named_forward: generic.named_forward_compatible,
        };
        let served = ServedResources::new(&enabled, emulation, |gate| generic.gates.enabled(gate));
        Ok(Self { served: served.map_err(|error| FlagError::new(error.to_string()))? })
    }
}
