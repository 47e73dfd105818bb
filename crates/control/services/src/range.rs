//! The addresses of one service CIDR: the usable ones, and the order in which they are tried (KEP-3070).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use binnacle_validation::ip::Cidr;

use crate::spec::Family;

/// The first addresses of the range are reserved for static allocation while others are free: `min(max(16, size / 16),
/// 256)` addresses of a range of more than 16.
const STATIC_MIN: u128 = 16;
const STATIC_MAX: u128 = 256;
const STATIC_SHARE: u128 = 16;

/// A range of addresses. Its first address is never allocated, and neither is the last one of an IPv4 range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    cidr: Cidr,
    /// The bounds of the usable addresses, both included; `last` is before `first` if there are none.
    first: u128,
    last: u128,
    /// The number of usable addresses that are reserved for static allocation.
    reserved: u128,
}

impl AddressRange {
    pub fn new(cidr: Cidr) -> Self {
        let family = Family::of_cidr(&cidr);
        let host_bits = u32::from(family.bits().saturating_sub(cidr.prefix));
        let network = number(cidr.masked());
        let size = 1u128.checked_shl(host_bits).unwrap_or(u128::MAX);
        let reserved = if size <= STATIC_MIN { 0 } else { (size / STATIC_SHARE).clamp(STATIC_MIN, STATIC_MAX) };
        let broadcast = u128::from(family == Family::V4);
        // A range of one address has no usable one: `last` is before `first`.
        let last = network.saturating_add(size - 1).saturating_sub(broadcast);
        Self { cidr, first: network.saturating_add(1), last, reserved }
    }

    pub(crate) fn family(&self) -> Family {
        Family::of_cidr(&self.cidr)
    }

    /// Returns the network address, which is never allocated.
    pub(crate) fn network(&self) -> IpAddr {
        self.cidr.masked()
    }

    /// Returns the first usable address.
    pub fn first(&self) -> IpAddr {
        self.address(self.first)
    }

    /// Returns the range in CIDR notation.
    pub(crate) fn text(&self) -> String {
        self.cidr.network()
    }

    /// Returns the number of usable addresses.
    pub(crate) fn size(&self) -> f64 {
        self.last.saturating_add(1).saturating_sub(self.first) as f64
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == (self.family() == Family::V4) && (self.first..=self.last).contains(&number(address))
    }

    /// Returns each usable address once: first those that are not reserved, starting at a random one, then the reserved
    /// ones likewise.
    pub(crate) fn candidates(&self) -> impl Iterator<Item = IpAddr> + use<> {
        let range = *self;
        let total = self.last.saturating_add(1).saturating_sub(self.first);
        let reserved = self.reserved.min(total);
        let free = from_random(self.first + reserved, total - reserved);
        free.chain(from_random(self.first, reserved)).map(move |number| range.address(number))
    }

    fn address(&self, number: u128) -> IpAddr {
        match self.family() {
            Family::V4 => IpAddr::V4(Ipv4Addr::from_bits(number as u32)),
            Family::V6 => IpAddr::V6(Ipv6Addr::from_bits(number)),
        }
    }
}

fn from_random(first: u128, count: u128) -> impl Iterator<Item = u128> {
    let start = rand::random_range(0..count.max(1));
    (0..count).map(move |i| first + if i < count - start { start + i } else { i - (count - start) })
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use binnacle_validation::ip::parse_cidr;

    use super::*;

    #[test]
    fn yields_usable_addresses_with_reserved_last() {
        for (cidr, first, last, count, reserved) in [
            ("10.0.0.0/24", "10.0.0.1", "10.0.0.254", 254, 16),
            ("10.0.0.7/28", "10.0.0.1", "10.0.0.14", 14, 0),
            ("10.0.0.0/27", "10.0.0.1", "10.0.0.30", 30, 16),
            ("10.0.0.0/20", "10.0.0.1", "10.0.15.254", 4094, 256),
            ("fd00::/120", "fd00::1", "fd00::ff", 255, 16),
        ] {
            let range = AddressRange::new(parse_cidr(cidr).unwrap());
            let all: Vec<IpAddr> = range.candidates().collect();
            let mut sorted = all.clone();
            sorted.sort();
            assert_eq!(all.len(), count, "{cidr}");
            assert_eq!(sorted.iter().collect::<HashSet<_>>().len(), count, "{cidr}: each once");
            assert_eq!((sorted[0].to_string(), sorted[count - 1].to_string()), (first.into(), last.into()), "{cidr}");
            assert_eq!(range.first(), sorted[0]);
            let late: HashSet<_> = all[count - reserved..].iter().collect();
            assert!(sorted[..reserved].iter().all(|address| late.contains(address)), "{cidr}: reserved come last");
            assert!(sorted.iter().all(|address| range.contains(*address)));
            assert!(!range.contains(range.network()));
        }
    }

    #[test]
    fn handles_tiny_and_huge_ranges() {
        for (cidr, count) in [("10.0.0.0/32", 0), ("10.0.0.0/31", 0), ("10.0.0.0/30", 2), ("fd00::/128", 0)] {
            let range = AddressRange::new(parse_cidr(cidr).unwrap());
            assert_eq!(range.candidates().count(), count, "{cidr}");
        }
        let wide = AddressRange::new(parse_cidr("fd00::/64").unwrap());
        assert!(wide.contains(wide.candidates().next().unwrap()));
        let whole = AddressRange::new(parse_cidr("::/0").unwrap());
        assert!(whole.contains(whole.candidates().next().unwrap()));
    }
}
