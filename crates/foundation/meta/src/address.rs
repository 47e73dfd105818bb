//! IPv4 addresses embedded in IPv6 addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns the address that packets to `address` finally reach: the embedded IPv4 address, if there is one. Rules about
/// addresses must check this one, or they can be evaded with another notation.
#[must_use]
pub fn effective_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => embedded(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// Returns the IPv4 address in a mapped, compatible or translated one: `::ffff:a.b.c.d`, `::a.b.c.d`, `64:ff9b::/96`.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => {}
        // `::`, `::1` and adjacent addresses are IPv6 addresses: no reachable IPv4 address begins with 0.0.
        (0, 0, 0, 0, 0, 0) if high > 0 => {}
        _ => return None,
    }
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwraps_embedded_ipv4_addresses() {
        for (address, want) in [
            ("127.0.0.1", "127.0.0.1"),
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("::127.0.0.1", "127.0.0.1"),
            ("64:ff9b::169.254.169.254", "169.254.169.254"),
            ("64:ff9b::7f00:1", "127.0.0.1"),
            ("64:ff9b::", "0.0.0.0"),
            ("64:ff9b:0:0:1::7f00:1", "64:ff9b:0:0:1::7f00:1"),
            ("::", "::"),
            ("::1", "::1"),
            ("2001:db8::7f00:1", "2001:db8::7f00:1"),
        ] {
            let parse = |text: &str| text.parse::<IpAddr>().unwrap();
            assert_eq!(effective_address(parse(address)), parse(want), "{address}");
        }
    }
}
