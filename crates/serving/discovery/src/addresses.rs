//! The address of the server for a client, as reported by `/api`.

use std::net::IpAddr;

use serde::Serialize;

/// The addresses of the server, by the network of the client.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// Host and port for all other clients.
    pub default: String,
    /// Addresses for specific networks.
    pub rules: Vec<AddressRule>,
}

/// An address for the clients of one network.
#[derive(Clone, Debug)]
pub struct AddressRule {
    pub network: IpAddr,
    pub prefix_length: u8,
    pub address: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerAddress {
    #[serde(rename = "clientCIDR")]
    pub(crate) client_cidr: String,
    pub(crate) server_address: String,
}

impl Addresses {
    pub(crate) fn for_client(&self, client: Option<IpAddr>) -> Vec<ServerAddress> {
        let default = ServerAddress { client_cidr: "0.0.0.0/0".to_owned(), server_address: self.default.clone() };
        let matching = self.rules.iter().filter(|rule| client.is_some_and(|client| rule.contains(client)));
        let specific = matching.map(|rule| ServerAddress {
            client_cidr: format!("{}/{}", rule.network, rule.prefix_length),
            server_address: rule.address.clone(),
        });
        std::iter::once(default).chain(specific).collect()
    }
}

impl AddressRule {
    fn contains(&self, client: IpAddr) -> bool {
        let (network, client, width) = match (self.network, client.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(client)) => (u128::from(network.to_bits()), client.to_bits().into(), 32),
            (IpAddr::V6(network), IpAddr::V6(client)) => (network.to_bits(), client.to_bits(), 128),
            _ => return false,
        };
        let ignored = u32::saturating_sub(width, self.prefix_length.into());
        network.checked_shr(ignored).unwrap_or(0) == u128::checked_shr(client, ignored).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_rules_match_their_networks() {
        for (network, prefix_length, client, expected) in [
            ("10.0.0.0", 24, "10.0.0.7", true),
            ("10.0.0.0", 24, "::ffff:10.0.0.7", true),
            ("10.0.0.0", 24, "10.0.1.7", false),
            ("10.0.0.0", 0, "192.0.2.1", true),
            ("fd00::", 64, "fd00::1", true),
            ("fd00::", 64, "fd00:0:0:1::1", false),
            ("::", 0, "fd00::1", true),
            ("fd00::", 64, "10.0.0.7", false),
        ] {
            let rule = AddressRule { network: network.parse().unwrap(), prefix_length, address: "10.0.0.1:443".into() };
            assert_eq!(rule.contains(client.parse().unwrap()), expected, "{network}/{prefix_length} {client}");
        }
    }
}
