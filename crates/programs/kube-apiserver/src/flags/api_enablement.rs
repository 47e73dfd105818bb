//! Flags for the built-in APIs that are served.

use binnacle_apiserver::settings::ApiEnablement;
use binnacle_kinds::tables;
use binnacle_resources::RuntimeConfig;

use super::FromFlags;
use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "API enablement",
    flags: &[Flag::new(
        "runtime-config",
        ValueKind::Value("mapStringString"),
        "",
        "Built-in APIs to enable or disable, as key=true or key=false, comma-separated. Keys are group/version \
         (apps/v1, or v1 for the core group), group/version/resource (apps/v1/deployments), and api/all, api/ga, \
         api/beta and api/alpha for all API versions of a stability level. More specific keys take precedence.",
    )],
};

impl FromFlags for ApiEnablement {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let known =
            |group: &str, version: &str| tables::kinds().any(|kind| (kind.group, kind.version) == (group, version));
        check_flow_control(flags)?;
        let enabled = RuntimeConfig::parse(&flags.all("runtime-config"), known);
        let enabled = enabled.map_err(|error| FlagError::new(error.to_string()))?;
        Ok(Self { enabled })
    }
}

/// Rejects priority and fairness without the API that configures it.
fn check_flow_control(flags: &FlagSet) -> Result<(), FlagError> {
    const DECISIVE: [&str; 3] = ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"];
    if !flags.flag("enable-priority-and-fairness")? {
        return Ok(());
    }
    let list = flags.list("runtime-config");
    let set = |key: &str| {
        let mut pairs = list.iter().filter_map(|pair| pair.split_once('=')).filter(|(name, _)| name.trim() == key);
        pairs.next_back().map(|(_, value)| value.trim().to_owned())
    };
    // The most specific key counts.
    let decided = DECISIVE.into_iter().find_map(|key| {
        let value = set(key)?;
        matches!(value.as_str(), "true" | "false").then_some((key, value))
    });
    match decided {
        Some((key, value)) if value == "false" => Err(FlagError::new(format!(
            "--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"
        ))),
        _ => Ok(()),
    }
}
