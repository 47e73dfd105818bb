//! Flags for the built-in APIs that are served.

use binnacle_apiserver::settings::ApiEnablement;
use binnacle_kinds::tables;
use binnacle_resources::Enabled;

use super::FromFlags;
use super::parse::Given;
use super::table::{Flag, FlagError, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "API enablement",
    flags: &[Flag::new(
        "runtime-config",
        ValueKind::Value("mapStringString"),
        "",
        "APIs to turn on or off, as key=true or key=false, separated by commas: group/version (apps/v1), \
         group/version/resource (apps/v1/deployments), or api/all, api/ga, api/beta, api/alpha for all versions of a \
         maturity. What is more particular counts more.",
    )],
};

impl FromFlags for ApiEnablement {
    fn read(given: &Given) -> Result<Self, FlagError> {
        let known =
            |group: &str, version: &str| tables::kinds().any(|kind| (kind.group, kind.version) == (group, version));
        let enabled = Enabled::parse(&given.all("runtime-config"), known);
        let enabled = enabled.map_err(|error| FlagError::new(error.to_string()))?;
        Ok(Self { enabled })
    }
}
