//! The addresses at which the server is reached.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::settings::Settings;

/// Returns the address of this server for discovery documents.
pub(super) fn external_address(config: &Settings, address: SocketAddr) -> String {
    let generic = &config.generic;
    match (&generic.external_hostname, generic.advertise_address) {
        (Some(name), _) if name.contains(':') => name.clone(),
        (Some(name), _) => format!("{name}:{}", address.port()),
        (None, Some(ip)) => SocketAddr::new(ip, address.port()).to_string(),
        (None, None) => reachable(address).to_string(),
    }
}

/// Returns the address at which clients on this machine reach the server.
pub(super) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
