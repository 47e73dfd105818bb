//! The subject alternative names of the serving certificate.

use std::fs;
use std::net::IpAddr;

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::X509Certificate;

/// The names and addresses at which clients reach the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubjectAltNames {
    pub dns: Vec<String>,
    pub ips: Vec<IpAddr>,
}

impl SubjectAltNames {
    /// Returns the names of a cluster's API server, and those of this machine.
    pub fn new(listen: IpAddr, service: IpAddr) -> Self {
        let cluster =
            ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"];
        let mut dns: Vec<String> = std::iter::once("localhost").chain(cluster).map(str::to_owned).collect();
        dns.extend(hostname().filter(|name| !dns.contains(name)));
        let mut ips = vec![IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]), service];
        let listening = if listen.is_unspecified() { interface_addresses(listen) } else { vec![listen] };
        let others: Vec<IpAddr> = listening.into_iter().filter(|ip| !ips.contains(ip)).collect();
        ips.extend(others);
        Self { dns, ips }
    }

    /// Adds the configured external name and address.
    pub fn add(&mut self, host: Option<&str>, ip: Option<IpAddr>) {
        // The host may be an address, and may have a port.
        let host = host.map(|host| host.rsplit_once(':').map_or(host, |(name, _)| name));
        let ip = ip.into_iter().chain(host.and_then(|host| host.parse().ok()));
        let dns = host.filter(|host| host.parse::<IpAddr>().is_err()).map(str::to_owned);
        self.dns.extend(dns.filter(|name| !self.dns.contains(name)));
        for ip in ip {
            if !self.ips.contains(&ip) {
                self.ips.push(ip);
            }
        }
    }

    pub(crate) fn covered_by(&self, certificate: &X509Certificate<'_>) -> bool {
        let Ok(Some(names)) = certificate.subject_alternative_name() else { return false };
        let has = |matches: &dyn Fn(&GeneralName<'_>) -> bool| names.value.general_names.iter().any(matches);
        self.dns.iter().all(|dns| has(&|name| matches!(name, GeneralName::DNSName(name) if name == dns)))
            && self.ips.iter().all(|ip| {
                let octets = match ip {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                };
                has(&|name| matches!(name, GeneralName::IPAddress(bytes) if *bytes == octets))
            })
    }
}

/// The maximum number of interface addresses in a certificate. A node may have thousands, e.g. those of services.
const MAX_INTERFACE_ADDRESSES: usize = 32;

/// Returns the addresses at which a server that listens on the unspecified address `any` can be reached, except
/// link-local ones. A socket for IPv6's unspecified address also accepts IPv4.
fn interface_addresses(any: IpAddr) -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to list network interfaces, the serving certificate does not include their addresses");
        Vec::new()
    });
    let addresses = interfaces.into_iter().filter(|interface| !interface.is_link_local());
    let reached = addresses.map(|interface| interface.ip()).filter(|ip| ip.is_ipv4() || any.is_ipv6());
    let mut reached: Vec<IpAddr> = reached.filter(|ip| !ip.is_loopback()).collect();
    reached.truncate(MAX_INTERFACE_ADDRESSES);
    reached
}

fn hostname() -> Option<String> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok()?.trim().to_ascii_lowercase();
    let valid =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    valid.then_some(name)
}
