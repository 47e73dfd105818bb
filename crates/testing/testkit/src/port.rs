//! Ports that stay a test's own while its server is down.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port that tests claim.
const FIRST: u16 = 10_000;

/// A port below the range for outgoing connections, which no other test takes until this value is dropped.
pub struct Port {
    number: u16,
    /// An abstract socket whose name contains the port. It vanishes with the process and leaves no file behind.
    _claim: UnixListener,
}

impl Port {
    /// Claims a free port.
    #[must_use]
    pub fn claim() -> Self {
        static STEPS: AtomicU32 = AtomicU32::new(0);
        let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
        let end: u16 = range.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(32_768);
        let count = u32::from(end.max(FIRST + 2000) - FIRST);
        // Processes begin at different ports, so that they seldom meet.
        let start = std::process::id().wrapping_mul(7919) % count;
        loop {
            let step = STEPS.fetch_add(1, Ordering::Relaxed);
            let number = FIRST + u16::try_from((start + step * 17) % count).unwrap();
            let name = SocketAddr::from_abstract_name(format!("binnacle-test-port-{number}")).unwrap();
            let Ok(claim) = UnixListener::bind_addr(&name) else { continue };
            if TcpListener::bind(("127.0.0.1", number)).is_ok() {
                return Self { number, _claim: claim };
            }
        }
    }

    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_distinct_ports_until_dropped() {
        let ports: Vec<Port> = (0..20).map(|_| Port::claim()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 20);
        let name = || SocketAddr::from_abstract_name(format!("binnacle-test-port-{}", numbers[0])).unwrap();
        assert!(UnixListener::bind_addr(&name()).is_err());
        drop(ports);
        assert!(UnixListener::bind_addr(&name()).is_ok());
    }
}
