//! What the control plane is told by flags.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use binnacle_validation::ip::Cidr;

/// Defaults are those of the reference's flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--service-cluster-ip-range`: the first is of the default family, a second is of the other.
    pub service_cidrs: Vec<Cidr>,
    /// `--service-node-port-range`.
    pub node_ports: PortRange,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            service_cidrs: vec![Cidr { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix: 24 }],
            node_ports: PortRange { first: 30000, last: 32767 },
        }
    }
}

/// Ports from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

impl PortRange {
    /// How many ports there are; none when the last comes before the first.
    pub fn size(&self) -> usize {
        (usize::from(self.last) + 1).saturating_sub(usize::from(self.first))
    }

    pub fn contains(&self, port: i64) -> bool {
        (i64::from(self.first)..=i64::from(self.last)).contains(&port)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}
