//! Addresses of endpoints.

use std::net::IpAddr;

use binnacle_meta::{FieldError, FieldErrors, Location, effective_address};

use crate::ip;

/// Validates an endpoint's address, which must not be a loopback or link-local address. For historical reasons these
/// are almost, but not exactly, the global unicast addresses.
pub fn address(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    let mut wrong = |detail: &str| errors.push(FieldError::invalid(path, value, detail));
    let Some(address) = ip::parse_ip(value) else { return wrong("must be a valid IP address") };
    let address = effective_address(address);
    let (loopback, link_local, link_local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_loopback(), v4.is_link_local(), matches!(v4.octets(), [224, 0, 0, _])),
        IpAddr::V6(v6) => (v6.is_loopback(), v6.segments()[0] & 0xffc0 == 0xfe80, v6.segments()[0] & 0xff0f == 0xff02),
    };
    if address.is_unspecified() {
        wrong(&format!("may not be unspecified ({value})"));
    }
    if loopback {
        wrong("may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if link_local {
        wrong("may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if link_local_multicast {
        wrong("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;

    #[test]
    fn rejects_special_addresses() {
        for (value, count) in [
            ("10.0.0.1", 0),
            ("2001:db8::1", 0),
            ("x", 1),
            ("0.0.0.0", 1),
            ("127.1.2.3", 1),
            ("::1", 1),
            ("169.254.0.1", 1),
            ("fe80::1", 1),
            ("224.0.0.7", 1),
            ("ff02::1", 1),
            ("ff05::1", 0),
            ("::127.0.0.1", 1),
            ("::ffff:127.0.0.1", 1),
            ("64:ff9b::127.0.0.1", 1),
            ("64:ff9b::a9fe:a9fe", 1),
            ("64:ff9b::10.0.0.1", 0),
        ] {
            let mut errors = FieldErrors::new();
            address(&FieldPath::new("ip"), value, &mut errors);
            assert_eq!(errors.len(), count, "{value}");
        }
    }
}
