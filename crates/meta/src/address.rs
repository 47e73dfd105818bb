//! IPv6 addresses that stand for one of IPv4.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address that packets to `address` reach in the end: the one of IPv4 that it embeds, if it does. Rules about
/// addresses must judge that one, or they are passed by writing it another way.
#[must_use]
pub fn effective_address(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => embedded(v6).map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The IPv4 address in a mapped (`::ffff:a.b.c.d`), compatible (`::a.b.c.d`) or translated (`64:ff9b::/96`) one.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = address.segments();
    match (a, b, c, d, e, f) {
        (0, 0, 0, 0, 0, 0xffff) | (0x64, 0xff9b, 0, 0, 0, 0) => {}
        // `::`, `::1` and their neighbours are addresses of IPv6: nothing begins with 0.0 in IPv4 that a packet reaches.
        (0, 0, 0, 0, 0, 0) if high > 0 => {}
        _ => return None,
    }
    Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_addresses() {
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
