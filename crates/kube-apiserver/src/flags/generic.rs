//! What holds for the server as a whole.

use std::net::IpAddr;

use super::parse::Given;
use super::table::{Flag, FlagError, Group, Kind};

pub(super) const GROUP: Group = Group {
    title: "Generic",
    flags: &[Flag::new(
        "advertise-address",
        Kind::Value("ip"),
        "",
        "Address under which others in the cluster reach this server. If not set: --bind-address, or where that is unspecified \
         or of this machine alone, the address of the interface with the default route.",
    )],
};

/// The values of the group.
#[derive(Debug)]
pub(crate) struct Generic {
    /// None where the server finds it out.
    pub(crate) advertise_address: Option<IpAddr>,
}

impl Generic {
    pub(super) fn read(given: &Given) -> Result<Self, FlagError> {
        Ok(Self { advertise_address: given.ip("advertise-address")?.filter(|ip| !ip.is_unspecified()) })
    }
}
