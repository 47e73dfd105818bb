//! IP addresses and networks.

use std::any::Any;
use std::fmt;
use std::net::IpAddr;

use binnacle_meta::go_quote;
use binnacle_validation::netip::parse_addr;

use super::Library;
use crate::error::Error;
use crate::functions::FunctionDecl;
use crate::meter::Meter;
use crate::types::Type;
use crate::value::{Opaque, Val};

pub(super) fn library() -> Library {
    Library { functions: FUNCTIONS, types: &["net.IP", "net.CIDR"] }
}

type Result<'a> = std::result::Result<Val<'a>, Error>;

const FUNCTIONS: &[FunctionDecl] = &[
    FunctionDecl::each(
        "ip",
        &[("string_to_ip", "(string) -> net.IP", Some(ip)), ("cidr_ip", "net.CIDR.() -> net.IP", Some(cidr_ip))],
    ),
    FunctionDecl::each(
        "isIP",
        &[("is_ip", "(string) -> bool", Some(|_, args| Ok(Val::Bool(parse_ip(text(args, 0)?).is_ok()))))],
    ),
    FunctionDecl::each("ip.isCanonical", &[("ip_is_canonical", "(string) -> bool", Some(is_canonical))]),
    FunctionDecl::each("family", &[("ip_family", "net.IP.() -> int", Some(family))]),
    FunctionDecl::each(
        "isUnspecified",
        &[("ip_is_unspecified", "net.IP.() -> bool", Some(|_, a| test_address(a, |ip| ip.is_unspecified())))],
    ),
    FunctionDecl::each(
        "isLoopback",
        &[("ip_is_loopback", "net.IP.() -> bool", Some(|_, a| test_address(a, |ip| ip.is_loopback())))],
    ),
    FunctionDecl::each(
        "isLinkLocalMulticast",
        &[("ip_is_link_local_multicast", "net.IP.() -> bool", Some(|_, a| test_address(a, is_link_local_multicast)))],
    ),
    FunctionDecl::each(
        "isLinkLocalUnicast",
        &[("ip_is_link_local_unicast", "net.IP.() -> bool", Some(|_, a| test_address(a, is_link_local_unicast)))],
    ),
    FunctionDecl::each(
        "isGlobalUnicast",
        &[("ip_is_global_unicast", "net.IP.() -> bool", Some(|_, a| test_address(a, is_global_unicast)))],
    ),
    FunctionDecl::each(
        "string",
        &[
            ("ip_to_string", "(net.IP) -> string", Some(|_, args| Ok(Val::str(address(&args[0])?.to_string())))),
            ("cidr_to_string", "(net.CIDR) -> string", Some(|_, args| Ok(Val::str(network(&args[0])?.to_string())))),
        ],
    ),
    FunctionDecl::each("cidr", &[("string_to_cidr", "(string) -> net.CIDR", Some(cidr))]),
    FunctionDecl::each(
        "isCIDR",
        &[("is_cidr", "(string) -> bool", Some(|_, args| Ok(Val::Bool(parse_cidr(text(args, 0)?).is_ok()))))],
    ),
    FunctionDecl::each(
        "containsIP",
        &[
            ("cidr_contains_ip_string", "net.CIDR.(string) -> bool", Some(contains_ip)),
            ("cidr_contains_ip_ip", "net.CIDR.(net.IP) -> bool", Some(contains_ip)),
        ],
    ),
    FunctionDecl::each(
        "containsCIDR",
        &[
            ("cidr_contains_cidr_string", "net.CIDR.(string) -> bool", Some(contains_cidr)),
            ("cidr_contains_cidr", "net.CIDR.(net.CIDR) -> bool", Some(contains_cidr)),
        ],
    ),
    FunctionDecl::each(
        "prefixLength",
        &[("cidr_prefix_length", "net.CIDR.() -> int", Some(|_, args| Ok(Val::Int(network(&args[0])?.bits.into()))))],
    ),
    FunctionDecl::each("masked", &[("cidr_masked", "net.CIDR.() -> net.CIDR", Some(masked))]),
];

#[derive(Clone, Copy, Debug, PartialEq)]
struct Address(IpAddr);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Network {
    address: IpAddr,
    bits: u8,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Opaque for Address {
    fn ty(&self) -> Type {
        Type::opaque("net.IP")
    }

    fn go_type(&self) -> &'static str {
        "cel.IP"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn size(&self) -> Option<u64> {
        Some(if self.0.is_ipv4() { 4 } else { 16 })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Opaque for Network {
    fn ty(&self) -> Type {
        Type::opaque("net.CIDR")
    }

    fn go_type(&self) -> &'static str {
        "cel.CIDR"
    }

    fn equals(&self, other: &dyn Opaque) -> bool {
        other.as_any().downcast_ref() == Some(self)
    }

    fn size(&self) -> Option<u64> {
        Some(u64::from(self.bits).div_ceil(8))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Network {
    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4((u32::from(address) & mask).into())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6((u128::from(address) & mask).into())
            }
        };
        Self { address, bits: self.bits }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self { address, bits: self.bits }.masked().address == self.masked().address
    }
}

fn parse_ip(text: &str) -> std::result::Result<IpAddr, String> {
    let quoted = go_quote(text);
    match parse_addr(text) {
        Ok((_, Some(_))) => Err(format!("IP address {quoted} with zone value is not allowed")),
        Ok((IpAddr::V6(address), None)) if address.to_ipv4_mapped().is_some() => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        Ok((address, None)) => Ok(address),
        Err(why) => Err(format!("IP Address {quoted} parse error during conversion from string: {why}")),
    }
}

fn parse_cidr(text: &str) -> std::result::Result<Network, String> {
    let quoted = go_quote(text);
    let failed = |why: &str| {
        Err(format!("network address parse error during conversion from string: netip.ParsePrefix({quoted}): {why}"))
    };
    let Some((address, bits)) = text.rsplit_once('/') else { return failed("no '/'") };
    let address = match parse_addr(address) {
        Ok((address, None)) => address,
        Ok((_, Some(_))) => return failed("IPv6 zones cannot be present in a prefix"),
        Err(why) => return failed(&why),
    };
    let padded = bits.len() > 1 && !matches!(bits.as_bytes()[0], b'1'..=b'9');
    let Some(bits) = bits.parse::<u32>().ok().filter(|_| !padded) else {
        return failed(&format!("bad bits after slash: {}", go_quote(bits)));
    };
    if bits > if address.is_ipv4() { 32 } else { 128 } {
        return failed("prefix length out of range");
    }
    if let IpAddr::V6(address) = address
        && address.to_ipv4_mapped().is_some()
    {
        return Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"));
    }
    Ok(Network { address, bits: bits as u8 })
}

fn text<'v>(args: &'v [Val<'_>], index: usize) -> std::result::Result<&'v str, Error> {
    args[index].as_str().ok_or_else(Error::no_such_overload)
}

fn address(value: &Val<'_>) -> std::result::Result<IpAddr, Error> {
    value.as_opaque::<Address>().map(|address| address.0).ok_or_else(Error::no_such_overload)
}

fn network(value: &Val<'_>) -> std::result::Result<Network, Error> {
    value.as_opaque::<Network>().copied().ok_or_else(Error::no_such_overload)
}

fn test_address<'a>(args: &[Val<'a>], test: fn(IpAddr) -> bool) -> Result<'a> {
    Ok(Val::Bool(test(address(&args[0])?)))
}

fn is_link_local_multicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }
}

fn is_global_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(broadcast || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || is_link_local_unicast(ip))
}

fn ip<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    parse_ip(text(args, 0)?).map(|address| Val::opaque(Address(address))).map_err(Error::new)
}

fn cidr_ip<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::opaque(Address(network(&args[0])?.address)))
}

fn is_canonical<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let text = text(args, 0)?;
    Ok(Val::Bool(parse_ip(text).map_err(Error::new)?.to_string() == text))
}

fn family<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::Int(if address(&args[0])?.is_ipv4() { 4 } else { 6 }))
}

fn cidr<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    to_network(&args[0]).map(Val::opaque)
}

fn to_network(value: &Val<'_>) -> std::result::Result<Network, Error> {
    let text = value.as_str().ok_or_else(Error::no_such_overload)?;
    parse_cidr(text)
        .map_err(|error| Error::new(format!("network address parse error during conversion from string: {error}")))
}

fn contains_ip<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let ip = match &args[1] {
        // A string that is not an address yields the same error as a value of another type.
        Val::Str(text) => parse_ip(text).map_err(|_| Error::no_such_overload())?,
        value => address(value)?,
    };
    Ok(Val::Bool(network(&args[0])?.contains(ip)))
}

fn contains_cidr<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    let inner = match &args[1] {
        value @ Val::Str(_) => to_network(value)?,
        value => network(value)?,
    };
    let outer = network(&args[0])?;
    Ok(Val::Bool(outer.bits <= inner.bits && outer.contains(inner.address)))
}

fn masked<'a>(_: &Meter, args: &[Val<'a>]) -> Result<'a> {
    Ok(Val::opaque(network(&args[0])?.masked()))
}
