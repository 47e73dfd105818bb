//! Occasionally closes HTTP/2 connections, so that clients are balanced across servers (`--goaway-chance`).

use std::hash::{BuildHasher, Hasher};

use binnacle_request::ConnectionInfo;

/// Returns true if the connection is closed after this response.
pub(crate) fn decide(chance: f64, connection: &ConnectionInfo) -> bool {
    chance > 0.0 && connection.alpn.as_deref() == Some(b"h2") && random() < chance
}

/// Returns a number from zero to one, which need not be unpredictable.
fn random() -> f64 {
    let bits = std::collections::hash_map::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_about_the_configured_fraction() {
        let over = |alpn: &[u8]| ConnectionInfo::new(([127, 0, 0, 1], 1).into(), Vec::new(), Some(alpn.to_vec()));
        let times = |chance: f64, alpn: &[u8]| (0..10_000).filter(|_| decide(chance, &over(alpn))).count();
        assert_eq!((times(0.0, b"h2"), times(0.02, b"http/1.1")), (0, 0));
        assert!((50..500).contains(&times(0.02, b"h2")));
    }
}
