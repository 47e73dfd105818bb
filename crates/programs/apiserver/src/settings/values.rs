//! Typed values of flags: address ranges and port ranges.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of addresses, such as `10.0.0.0/24`. The address is the first of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub address: IpAddr,
    pub prefix: u8,
}

impl Cidr {
    pub fn bits(&self) -> u8 {
        if self.address.is_ipv4() { 32 } else { 128 }
    }

    /// Returns the address at a distance from the first.
    pub fn nth(&self, distance: u32) -> IpAddr {
        match self.address {
            IpAddr::V4(address) => IpAddr::from((u32::from(address).wrapping_add(distance)).to_be_bytes()),
            IpAddr::V6(address) => IpAddr::from((u128::from(address).wrapping_add(u128::from(distance))).to_be_bytes()),
        }
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("invalid CIDR address: {text}");
        let (address, prefix) = text.split_once('/').ok_or_else(invalid)?;
        let address: IpAddr = address.parse().map_err(|_| invalid())?;
        let plain = !prefix.is_empty() && prefix.len() <= 3 && prefix.bytes().all(|digit| digit.is_ascii_digit());
        let prefix: u8 = prefix.parse().ok().filter(|_| plain).ok_or_else(invalid)?;
        let address = match address {
            IpAddr::V4(v4) if prefix <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::from((u32::from(v4) & mask).to_be_bytes())
            }
            IpAddr::V6(v6) if prefix <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::from((u128::from(v6) & mask).to_be_bytes())
            }
            _ => return Err(invalid()),
        };
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Ports from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    pub first: u16,
    pub last: u16,
}

impl FromStr for PortRange {
    type Err = String;

    /// Parses `low-high`, `low+count` or one port.
    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let number = |text: &str| -> Result<i64, String> {
            text.parse::<i32>()
                .map(i64::from)
                .map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", binnacle_meta::go_quote(text)))
        };
        let (low, high) = match (text.split_once('-'), text.split_once('+')) {
            (Some(_), Some(_)) => return Err(format!("unable to parse port range: {text}")),
            (Some((low, high)), None) => (number(low)?, number(high)?),
            (None, Some((low, more))) => {
                let low = number(low)?;
                (low, low + number(more)?)
            }
            (None, None) => (number(text)?, number(text)?),
        };
        if low > 65535 || high > 65535 {
            return Err(format!("the port range cannot be greater than 65535: {text}"));
        }
        if high < low {
            return Err(format!("end port cannot be less than start port: {text}"));
        }
        match (u16::try_from(low), u16::try_from(high)) {
            (Ok(first), Ok(last)) => Ok(Self { first, last }),
            _ => Err(format!("unable to parse port range: {text}")),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_cidrs_and_port_ranges() {
        for (text, want) in [
            ("10.0.0.0/24", Some("10.0.0.0/24 10.0.0.1")),
            ("10.1.2.3/16", Some("10.1.0.0/16 10.1.0.1")),
            ("0.0.0.0/0", Some("0.0.0.0/0 0.0.0.1")),
            ("fd00::5/108", Some("fd00::/108 fd00::1")),
            ("10.0.0.0/33", None),
            ("10.0.0.0/", None),
            ("10.0.0.0/+8", None),
            ("10.0.0/8", None),
            ("x", None),
        ] {
            let shown = text.parse::<Cidr>().ok().map(|cidr| format!("{cidr} {}", cidr.nth(1)));
            assert_eq!(shown.as_deref(), want, "{text}");
        }
        for (text, want) in [
            ("30000-32767", Ok("30000-32767")),
            (" 80 ", Ok("80-80")),
            ("80+5", Ok("80-85")),
            ("80+5-6", Err("unable to parse port range: 80+5-6")),
            ("1-70000", Err("the port range cannot be greater than 65535: 1-70000")),
            ("2-1", Err("end port cannot be less than start port: 2-1")),
            ("a-1", Err("strconv.Atoi: parsing \"a\": invalid syntax")),
        ] {
            let shown = text.parse::<PortRange>().map(|range| range.to_string());
            assert_eq!(shown, want.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }
}
