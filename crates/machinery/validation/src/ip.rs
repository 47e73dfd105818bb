//! IP addresses and CIDR ranges: lenient rules for old fields, strict rules for newer fields, and warnings for values
//! that only the lenient rules accept.
//!
//! Go once ignored leading zeros in IPv4 addresses and prefix lengths; "sloppy" parsing still does, so that stored
//! objects remain readable.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use binnacle_features::Features;
use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Service, ServiceStatus};
use binnacle_meta::{FieldError, FieldErrors, Location, go_quote};
use binnacle_schema::Value;

/// A CIDR range: an address and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    pub prefix: u8,
}

/// The values that a field older than strict validation accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LegacyIpRules<'a> {
    /// Values of the old object, which remain valid.
    known: HashSet<&'a str>,
    /// True if every parsable value is accepted.
    sloppy: bool,
}

/// Parses an address like `ParseIPSloppy`; IPv4-mapped IPv6 addresses become IPv4 addresses.
pub fn parse_ip(text: &str) -> Option<IpAddr> {
    parse_as_written(text).map(|address| address.to_canonical())
}

/// Parses a range like `ParseCIDRSloppy`.
pub fn parse_cidr(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.split_once('/')?;
    let address = parse_as_written(address)?;
    if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = prefix.trim_start_matches('0');
    let prefix = if digits.is_empty() { 0 } else { digits.parse::<u8>().ok()? };
    (prefix <= width(address)).then_some(Cidr { address, prefix })
}

/// Validates an address in a field older than strict validation.
pub fn legacy_ip(path: &dyn Location, value: &str, legacy: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    let accepted = legacy.known.contains(value) || legacy.sloppy && parse_ip(value).is_some();
    if !accepted {
        strict_ip(path, value, errors);
    }
}

/// Validates an address in a newer field: it must be valid and canonical.
pub fn valid_ip(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    let before = errors.len();
    let Some(address) = strict_ip(path, value, errors) else { return };
    if errors.len() == before && address.to_string() != value {
        errors.push(not_canonical(path, value, &address.to_string()));
    }
}

/// Validates a range in a field older than strict validation.
pub fn legacy_cidr(path: &dyn Location, value: &str, legacy: &LegacyIpRules<'_>, errors: &mut FieldErrors) {
    let accepted = legacy.known.contains(value) || legacy.sloppy && parse_cidr(value).is_some();
    if !accepted {
        strict_cidr(path, value, errors);
    }
}

/// Validates a range in a newer field.
pub fn valid_cidr(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    let before = errors.len();
    let Some(cidr) = strict_cidr(path, value, errors) else { return };
    if errors.len() == before && cidr.network() != value {
        errors.push(not_canonical(path, value, &cidr.network()));
    }
}

/// Validates an address with its prefix length (`192.168.1.5/24`).
pub fn valid_interface_address(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    let Some(cidr) = parse_cidr(value) else {
        let detail = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)";
        errors.push(FieldError::invalid(path, value, detail));
        return;
    };
    let address = cidr.address.to_canonical();
    let prefix = if address.is_ipv4() && cidr.prefix > 32 { cidr.prefix - 96 } else { cidr.prefix };
    let canonical = format!("{address}/{prefix}");
    if value != canonical {
        errors.push(not_canonical(path, value, &canonical));
    }
}

/// Returns a warning for an address that [`legacy_ip`] accepts although it is not canonical.
pub fn ip_warnings(path: &dyn Location, value: &str) -> Option<String> {
    let address = parse_ip(value)?;
    let quoted = go_quote(value);
    match value.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_none() => {
            let canonical = v6.to_string();
            (canonical != value).then(|| {
                format!("{path}: IPv6 address {quoted} should be in RFC 5952 canonical format ({canonical:?})")
            })
        }
        Ok(IpAddr::V4(_)) => None,
        _ => Some(format!("{path}: non-standard IP address {quoted} is invalid: use \"{address}\"")),
    }
}

/// Returns warnings for the addresses of load balancers in the status of a service. An ingress has the same fields.
pub fn load_balancer_warnings(object: &Value) -> Vec<String> {
    let service = FieldRef::root(object);
    let status = service.at(Service::STATUS);
    let balancer = status.at(ServiceStatus::LOAD_BALANCER);
    let points = balancer.at(LoadBalancerStatus::INGRESS);
    // kube-apiserver reports the item, not its address.
    let addresses = points.items().filter_map(|point| ip_warnings(&point, point.at(LoadBalancerIngress::IP).str()));
    addresses.collect()
}

/// Returns warnings for a range that [`legacy_cidr`] accepts although it is not canonical.
pub fn cidr_warnings(path: &dyn Location, value: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(cidr) = parse_cidr(value) else { return warnings };
    let (quoted, network) = (go_quote(value), cidr.network());
    if cidr.masked() != cidr.address {
        let single = format!("{}/{}", cidr.address.to_canonical(), width(cidr.address));
        warnings.push(format!(
            "{path}: CIDR value {quoted} is ambiguous in this context (should be \"{network}\" or \"{single}\"?)"
        ));
    }
    let strict = strictly(value);
    let mapped = |address: IpAddr| matches!(address, IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some());
    match strict {
        Some(strict) if !mapped(strict.address) => {
            let canonical = format!("{}/{}", strict.address, strict.prefix);
            if warnings.is_empty() && strict.address.is_ipv6() && canonical != value {
                warnings.push(format!(
                    "{path}: IPv6 CIDR value {quoted} should be in RFC 5952 canonical format (\"{canonical}\")"
                ));
            }
        }
        _ => warnings.push(format!("{path}: non-standard CIDR value {quoted} is invalid: use \"{network}\"")),
    }
    warnings
}

// === impl LegacyIpRules ===

impl<'a> LegacyIpRules<'a> {
    /// Returns the rules for a new object.
    pub fn of(features: &Features) -> Self {
        Self::new(!features.enabled("StrictIPCIDRValidation"))
    }

    /// Returns the rules for a new object: every parsable value is accepted if `sloppy`.
    pub fn new(sloppy: bool) -> Self {
        Self { known: HashSet::new(), sloppy }
    }

    /// Also accepts values of the old object.
    #[must_use]
    pub fn allowing_existing(self, known: impl IntoIterator<Item = &'a str>) -> Self {
        Self { known: known.into_iter().collect(), ..self }
    }
}

// === impl Cidr ===

impl Cidr {
    /// Returns true if an address is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (network, address) = (self.masked().to_canonical(), address.to_canonical());
        if network.is_ipv4() != address.is_ipv4() {
            return false;
        }
        let prefix =
            if network.is_ipv4() && self.address.is_ipv6() { self.prefix.saturating_sub(96) } else { self.prefix };
        mask(address, prefix) == network
    }

    /// Returns the address without the bits after the prefix.
    pub fn masked(&self) -> IpAddr {
        mask(self.address, self.prefix)
    }

    /// Returns the range in Go's notation.
    pub fn network(&self) -> String {
        let address = self.masked().to_canonical();
        let prefix =
            if address.is_ipv4() && self.address.is_ipv6() { self.prefix.saturating_sub(96) } else { self.prefix };
        format!("{address}/{prefix}")
    }

    /// Returns true if the addresses of the range are IPv6.
    pub fn is_ipv6(&self) -> bool {
        self.masked().to_canonical().is_ipv6()
    }
}

fn strict_ip(path: &dyn Location, value: &str, errors: &mut FieldErrors) -> Option<IpAddr> {
    let Some(address) = parse_ip(value) else {
        let detail = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
        errors.push(FieldError::invalid(path, value, detail));
        return None;
    };
    match value.parse::<IpAddr>() {
        Err(_) => errors.push(FieldError::invalid(path, value, "must not have leading 0s")),
        Ok(IpAddr::V6(v6)) if v6.to_ipv4_mapped().is_some() => {
            errors.push(FieldError::invalid(path, value, "must not be an IPv4-mapped IPv6 address"));
        }
        Ok(_) => {}
    }
    Some(address)
}

fn strict_cidr(path: &dyn Location, value: &str, errors: &mut FieldErrors) -> Option<Cidr> {
    let Some(cidr) = parse_cidr(value) else {
        let detail = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid(path, value, detail));
        return None;
    };
    let detail = match strictly(value) {
        None => Some("must not have leading 0s in IP or prefix length"),
        Some(Cidr { address: IpAddr::V6(v6), .. }) if v6.to_ipv4_mapped().is_some() => {
            Some("must not have an IPv4-mapped IPv6 address")
        }
        Some(strict) if strict.masked() != strict.address => Some("must not have bits set beyond the prefix length"),
        Some(_) => None,
    };
    errors.extend(detail.map(|detail| FieldError::invalid(path, value, detail)));
    Some(cidr)
}

/// Parses a range without leading zeros.
fn strictly(text: &str) -> Option<Cidr> {
    let (address, prefix) = text.split_once('/')?;
    let address = address.parse::<IpAddr>().ok()?;
    if prefix.len() > 1 && prefix.starts_with('0') {
        return None;
    }
    parse_cidr(text).map(|cidr| Cidr { address, prefix: cidr.prefix })
}

fn not_canonical(path: &dyn Location, value: &str, canonical: &str) -> FieldError {
    FieldError::invalid(path, value, format!("must be in canonical form (\"{canonical}\")"))
}

fn width(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(prefix.min(32))).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(prefix.min(128))).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

/// Parses an address without leading zeros of its numbers; mapped addresses remain IPv6.
fn parse_as_written(text: &str) -> Option<IpAddr> {
    // A valid address can only be longer because of leading zeros.
    if text.len() > 256 {
        return None;
    }
    if !text.contains(':') {
        return parse_v4(text).map(IpAddr::V4);
    }
    let (groups, tail) = match text.rsplit_once(':') {
        Some((groups, tail)) if tail.contains('.') => (groups, Some(parse_v4(tail)?)),
        _ => (text, None),
    };
    let trimmed: Option<Vec<&str>> = groups.split(':').map(trim_group).collect();
    let mut normalized = trimmed?.join(":");
    if let Some(tail) = tail {
        normalized.push_str(&format!(":{tail}"));
    }
    normalized.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

/// Removes leading zeros from a hexadecimal group, down to four digits.
fn trim_group(group: &str) -> Option<&str> {
    if group.len() <= 4 {
        return Some(group);
    }
    let zeros = group.len() - 4;
    group
        .is_char_boundary(zeros)
        .then(|| group.split_at(zeros))
        .filter(|(z, _)| z.bytes().all(|b| b == b'0'))
        .map(|(_, g)| g)
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let digits = part.trim_start_matches('0');
        *octet = if digits.is_empty() { 0 } else { digits.parse::<u8>().ok()? };
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;

    #[test]
    fn parses_addresses_like_go() {
        for (text, want) in [
            ("10.9.8.7", Some("10.9.8.7")),
            ("010.009.8.7", Some("10.9.8.7")),
            ("1.2.3", None),
            ("1.2.3.256", None),
            ("::ffff:1.2.3.4", Some("1.2.3.4")),
            ("2001:DB8:0:0::1", Some("2001:db8::1")),
            ("2001:00db8::1", Some("2001:db8::1")),
            ("fe80::1%eth0", None),
            ("", None),
        ] {
            assert_eq!(parse_ip(text).map(|ip| ip.to_string()).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn validates_ips_and_cidrs() {
        type Rule = fn(&dyn Location, &str, &mut FieldErrors);
        fn sloppy() -> LegacyIpRules<'static> {
            LegacyIpRules { sloppy: true, ..LegacyIpRules::default() }
        }
        let sloppy_ip: Rule = |path, value, errors| legacy_ip(path, value, &sloppy(), errors);
        let sloppy_cidr: Rule = |path, value, errors| legacy_cidr(path, value, &sloppy(), errors);
        let legacy_ip: Rule = |path, value, errors| {
            legacy_ip(path, value, &LegacyIpRules::default().allowing_existing(["1.02.3.4"]), errors)
        };
        let legacy_cidr: Rule = |path, value, errors| legacy_cidr(path, value, &LegacyIpRules::default(), errors);
        for (rule, value, want) in [
            (legacy_ip, "1.02.3.4", None),
            (legacy_ip, "1.02.3.5", Some("must not have leading 0s")),
            (legacy_ip, "2001:DB8::1", None),
            (valid_ip, "2001:DB8::1", Some("must be in canonical form (\"2001:db8::1\")")),
            (valid_ip, "::ffff:1.2.3.4", Some("must not be an IPv4-mapped IPv6 address")),
            (legacy_cidr, "10.0.0.0/33", Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")),
            (legacy_cidr, "10.0.0.0/08", Some("must not have leading 0s in IP or prefix length")),
            (legacy_cidr, "10.0.0.1/8", Some("must not have bits set beyond the prefix length")),
            (legacy_cidr, "::ffff:10.0.0.0/104", Some("must not have an IPv4-mapped IPv6 address")),
            (valid_cidr, "2001:DB8::/32", Some("must be in canonical form (\"2001:db8::/32\")")),
            (sloppy_ip, "1.02.3.5", None),
            (sloppy_ip, "::ffff:1.2.3.4", None),
            (sloppy_ip, "1.2.3", Some("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")),
            (sloppy_cidr, "10.0.0.1/08", None),
            (sloppy_cidr, "::ffff:10.0.0.0/104", None),
            (sloppy_cidr, "10.0.0.0/33", Some("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")),
            (valid_cidr, "10.0.0.0/8", None),
            (valid_interface_address, "10.0.0.1/8", None),
            (valid_interface_address, "10.0.0.01/8", Some("must be in canonical form (\"10.0.0.1/8\")")),
        ] {
            let mut errors = FieldErrors::new();
            rule(&FieldPath::new("x"), value, &mut errors);
            let got: Vec<&str> =
                errors.iter().map(|e| e.body().split_once("\": ").map_or("", |(_, detail)| detail)).collect();
            assert_eq!(got, want.into_iter().collect::<Vec<_>>(), "{value}");
        }
    }

    #[test]
    fn cidrs_contain_their_addresses() {
        let cidr = |text| parse_cidr(text).unwrap();
        assert!(cidr("10.0.0.0/8").contains("10.1.2.3".parse().unwrap()));
        assert!(!cidr("10.0.0.0/8").contains("11.1.2.3".parse().unwrap()));
        assert!(!cidr("10.0.0.0/8").contains("::1".parse().unwrap()));
        assert!(cidr("::/0").contains("2001:db8::".parse().unwrap()));
        assert!(cidr("0.0.0.0/0").contains("255.1.1.1".parse().unwrap()));
        assert_eq!(cidr("::ffff:10.1.0.0/104").network(), "10.0.0.0/8");
    }

    #[test]
    fn warns_about_non_canonical_addresses() {
        let path = FieldPath::new("x");
        for (value, want) in [
            ("1.2.3.4", None),
            ("1.2.3.04", Some("x: non-standard IP address \"1.2.3.04\" is invalid: use \"1.2.3.4\"")),
            (
                "2001:DB8::1",
                Some("x: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"),
            ),
        ] {
            assert_eq!(ip_warnings(&path, value).as_deref(), want);
        }
        assert_eq!(
            cidr_warnings(&path, "10.1.2.3/8"),
            [
                "x: CIDR value \"10.1.2.3/8\" is ambiguous in this context (should be \"10.0.0.0/8\" or \"10.1.2.3/32\"?)"
            ]
        );
        assert_eq!(cidr_warnings(&path, "10.0.0.0/8"), Vec::<String>::new());
    }
}
