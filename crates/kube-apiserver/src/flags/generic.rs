//! Which version of Kubernetes the server is, which of its features are on, and where others reach it.

use std::net::IpAddr;

use binnacle_features::{Gates, Version, emulated_version};

use super::parse::Given;
use super::table::{Flag, FlagError, Group, Kind};

pub(super) const GROUP: Group = Group {
    title: "Generic",
    flags: &[
        Flag::new(
            "advertise-address",
            Kind::Value("ip"),
            "",
            "Address under which others in the cluster reach this server. If not set: --bind-address, or where that is \
             unspecified or of this machine alone, the address of the interface with the default route.",
        ),
        Flag::new(
            "emulated-version",
            Kind::Value("strings"),
            "",
            "The version whose APIs and features the server shows, 'major.minor', from 1.33 to 1.36. If not set: 1.36.",
        ),
        Flag::new(
            "feature-gates",
            Kind::Value("colonSeparatedMultimapStringString"),
            "",
            "Features to turn on or off, separated by commas: 'GenericWorkload=true,kube:StorageVersionHash=false'. May be given \
             several times. AllAlpha and AllBeta stand for all features of that stage.",
        ),
    ],
};

/// The values of the group.
#[derive(Debug)]
pub(crate) struct Generic {
    /// None where the server finds it out.
    pub(crate) advertise_address: Option<IpAddr>,
    pub(crate) gates: Gates,
}

impl Generic {
    pub(super) fn read(given: &Given) -> Result<Self, FlagError> {
        let failed = |error: &dyn std::fmt::Display| FlagError::new(error.to_string());
        let emulated = emulated_version(&given.all("emulated-version")).map_err(|error| failed(&error))?;
        let gates = Gates::parse(&given.all("feature-gates"), emulated).map_err(|error| failed(&error))?;
        let advertise_address = given.ip("advertise-address")?.filter(|ip| !ip.is_unspecified());
        Ok(Self { advertise_address, gates })
    }

    pub(crate) fn emulated(&self) -> Version {
        self.gates.emulated()
    }
}
