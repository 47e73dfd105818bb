//! The identity of a server among the servers of its cluster (KEP-1965).

use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The program, part of the identity.
pub(crate) const PROGRAM: &str = "kube-apiserver";

/// The identity of this server. The name is the same at every start on a machine; the holder differs for each start.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) hostname: String,
    pub(crate) name: String,
    pub(crate) holder: String,
}

/// Returns the name of the identity lease of a server on this machine, or on one named `hostname`.
pub fn identity_lease_name(hostname: Option<&str>) -> String {
    Identity::of(hostname).name
}

impl Identity {
    /// Returns the identity of a server on this machine, or on one named `hostname`.
    pub(crate) fn of(hostname: Option<&str>) -> Self {
        match hostname {
            Some(hostname) => Self::new(hostname),
            None => Self::new(std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim()),
        }
    }

    /// Returns the name of the identity lease.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn hostname(&self) -> &str {
        &self.hostname
    }

    fn new(hostname: &str) -> Self {
        let mut hash = Sha256::new();
        for text in [hostname, PROGRAM] {
            // Each text is prefixed with its length, so that different pairs have different hashes.
            hash.update(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
            hash.update(text);
        }
        let hash = hash.finalize();
        let name = format!("apiserver-{}", base32(&hash[..16]));
        let holder = format!("{name}_{}", Uuid::new_v4());
        Self { hostname: hostname.to_owned(), name, holder }
    }
}

/// Encodes as RFC 4648 base32 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let (mut text, mut bits, mut pending_bits) = (String::new(), 0u32, 0);
    for byte in bytes {
        bits = (bits << 8) | u32::from(*byte);
        pending_bits += 8;
        while pending_bits >= 5 {
            pending_bits -= 5;
            text.push(char::from(LETTERS[(bits >> pending_bits) as usize & 31]));
        }
        bits &= (1 << pending_bits) - 1;
    }
    if pending_bits > 0 {
        text.push(char::from(LETTERS[(bits << (5 - pending_bits)) as usize & 31]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_name_matches_kube_apiserver() {
        // The lease name of the recorded kube-apiserver, on a machine with this name.
        assert_eq!(Identity::new("vm").name, "apiserver-wlv32tlttr4jl3gtroqexyxapa");
        assert_eq!(identity_lease_name(Some("test-host")), "apiserver-aafqjbvdrjjl2c5nvqhebm6kym");
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(base32(b"f"), "my");
    }
}
