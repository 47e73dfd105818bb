//! The fields of a service's spec that allocation reads and writes.

use std::collections::HashSet;
use std::net::IpAddr;

use binnacle_fields::core::v1::{Service, ServicePort, ServiceSpec};
use binnacle_fields::types::{Field, List, Str};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_schema::Value;
use binnacle_validation::ip::{Cidr, parse_ip};

pub(crate) const NONE: &str = "None";
pub(crate) const SINGLE_STACK: &str = "SingleStack";
pub(crate) const PREFER_DUAL_STACK: &str = "PreferDualStack";
pub(crate) const REQUIRE_DUAL_STACK: &str = "RequireDualStack";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    pub(crate) fn of_cidr(cidr: &Cidr) -> Self {
        if cidr.is_ipv6() { Self::V6 } else { Self::V4 }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        [Self::V4, Self::V6].into_iter().find(|family| family.as_str() == text)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        }
    }

    pub(crate) fn other(self) -> Self {
        match self {
            Self::V4 => Self::V6,
            Self::V6 => Self::V4,
        }
    }

    pub(crate) fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }
}

/// The spec of a service, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Spec<'a>(FieldRef<'static, 'a, ServiceSpec>);

impl<'a> Spec<'a> {
    /// Returns the spec of a service.
    pub(crate) fn of(service: &'a Value) -> Self {
        Self(FieldRef::<Service>::root(service).at(Service::SPEC).detached())
    }

    pub(crate) fn kind(self) -> &'a str {
        self.0.at(ServiceSpec::TYPE).str()
    }

    pub(crate) fn is_external_name(self) -> bool {
        self.kind() == "ExternalName"
    }

    /// Returns true if the type may have node ports.
    pub(crate) fn uses_node_ports(self) -> bool {
        matches!(self.kind(), "NodePort" | "LoadBalancer")
    }

    /// Returns true if ports without a requested node port also get one.
    pub(crate) fn fills_in_node_ports(self) -> bool {
        match self.kind() {
            "NodePort" => true,
            "LoadBalancer" => self.0.at(ServiceSpec::ALLOCATE_LOAD_BALANCER_NODE_PORTS).get_bool().unwrap_or(true),
            _ => false,
        }
    }

    pub(crate) fn needs_health_check_port(self) -> bool {
        self.kind() == "LoadBalancer" && self.0.at(ServiceSpec::EXTERNAL_TRAFFIC_POLICY).str() == "Local"
    }

    /// Returns the health check port, 0 for none.
    pub(crate) fn health_check_port(self) -> i64 {
        self.0.at(ServiceSpec::HEALTH_CHECK_NODE_PORT).int_or_zero()
    }

    pub(crate) fn cluster_ip(self) -> &'a str {
        self.0.at(ServiceSpec::CLUSTER_IP).str()
    }

    pub(crate) fn cluster_ips(self) -> Vec<&'a str> {
        self.texts(ServiceSpec::CLUSTER_IPS)
    }

    pub(crate) fn is_headless(self) -> bool {
        self.cluster_ips().first() == Some(&NONE)
    }

    pub(crate) fn has_selector(self) -> bool {
        !self.0.at(ServiceSpec::SELECTOR).is_empty()
    }

    pub(crate) fn families(self) -> Vec<&'a str> {
        self.texts(ServiceSpec::IP_FAMILIES)
    }

    /// Returns the policy; empty if none is set.
    pub(crate) fn family_policy(self) -> &'a str {
        self.0.at(ServiceSpec::IP_FAMILY_POLICY).str()
    }

    /// Returns true if there is a policy, even an empty one.
    pub(crate) fn has_family_policy(self) -> bool {
        self.0.at(ServiceSpec::IP_FAMILY_POLICY).is_set()
    }

    pub(crate) fn ports(self) -> impl ExactSizeIterator<Item = FieldRef<'static, 'a, ServicePort>> {
        self.0.at(ServiceSpec::PORTS).values()
    }

    /// Returns the node ports, without duplicates, in order.
    pub(crate) fn node_ports(self) -> Vec<i64> {
        let mut seen = HashSet::new();
        self.ports().map(node_port).filter(|port| *port != 0 && seen.insert(*port)).collect()
    }

    /// Returns the cluster IPs, without `None` and invalid ones.
    pub(crate) fn addresses(self) -> Vec<IpAddr> {
        if self.is_external_name() || self.is_headless() {
            return Vec::new();
        }
        self.cluster_ips().into_iter().filter_map(parse_ip).collect()
    }

    fn texts(self, field: Field<ServiceSpec, List<Str>>) -> Vec<&'a str> {
        self.0.at(field).values().map(|text| text.str()).collect()
    }
}

/// Returns the spec of a service, for writing.
pub(crate) fn spec_mut(service: &mut Value) -> FieldMut<'_, ServiceSpec> {
    FieldMut::<Service>::root(service).into_entry(Service::SPEC)
}

/// Returns the node port of a port, 0 for none.
pub(crate) fn node_port(port: FieldRef<ServicePort>) -> i64 {
    port.at(ServicePort::NODE_PORT).int_or_zero()
}
