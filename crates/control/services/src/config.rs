//! The settings of services, from flags.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use binnacle_validation::ip::Cidr;

use crate::metrics::AllocatorMetrics;

/// The settings of services, with the defaults of kube-apiserver's flags.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// `--service-cluster-ip-range`: the first range is of the default family, the second of the other one.
    pub cidrs: Vec<Cidr>,
    /// True if services may have addresses that can be parsed but are not strictly valid.
    pub sloppy_addresses: bool,
    /// `--service-node-port-range`.
    pub node_ports: PortRange,
    /// Metrics of allocated addresses and ports.
    pub metrics: Option<AllocatorMetrics>,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            cidrs: vec![Cidr { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix: 24 }],
            sloppy_addresses: false,
            node_ports: PortRange { first: 30000, last: 32767 },
            metrics: None,
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
    /// Returns the number of ports; 0 if the last is before the first.
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
