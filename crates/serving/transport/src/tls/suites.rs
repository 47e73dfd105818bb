//! The names of versions, cipher suites and key exchanges in flags, and their implementations.

use binnacle_crypto::FIPS;
use binnacle_crypto::tls::{KEY_EXCHANGES, cipher_suite as suite};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion, version};

/// The TLS versions and suites that the listener accepts. The defaults are 1.2 and 1.3 with every safe suite.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// True if only version 1.3 is accepted.
    pub only_tls13: bool,
    /// The suites of version 1.2. As in Go, those of 1.3 are not configurable.
    pub suites: Option<Vec<SupportedCipherSuite>>,
    pub groups: Option<Vec<&'static dyn SupportedKxGroup>>,
    /// True if HTTP/2 is not offered.
    pub without_http2: bool,
}

/// The supported suites, with Go's alternative names.
const SUITES: [(&str, SupportedCipherSuite); 11] = [
    ("TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", suite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Suites of Go that are not supported because they are weak (without forward secrecy, authenticated encryption, or
/// both).
const WEAK_SUITES: [&str; 17] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_3DES_EDE_CBC_SHA",
];

/// Go's numbers of key exchanges that some providers do not support: P-521 and the hybrids with ML-KEM.
const OTHER_GROUPS: [i64; 4] = [25, 4587, 4588, 4589];

/// The order of the suites that both sides support. As in Go, the server decides: AES with the shorter key first if
/// both sides have AES instructions, otherwise ChaCha20.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    Aes,
    ChaCha,
}

impl Preference {
    /// `offered` are the client's suites in its order: clients without AES instructions do not list AES first.
    pub(super) fn of_client(offered: &[CipherSuite]) -> Self {
        let first = offered.iter().find_map(CipherSuite::as_str);
        if has_aes() && first.is_some_and(|name| name.contains("_GCM_")) { Self::Aes } else { Self::ChaCha }
    }

    /// Returns the rank of a suite; the lowest rank is preferred.
    fn rank(self, suite: &SupportedCipherSuite) -> (bool, bool) {
        let name = suite.suite().as_str().unwrap_or_default();
        (name.contains("CHACHA20") == (self == Self::Aes), name.contains("_256_"))
    }
}

/// Returns true if this processor has AES instructions.
fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

impl TlsSettings {
    /// Sets the minimum version, such as `VersionTLS12`. Versions below 1.2 are accepted as a minimum, but never
    /// negotiated.
    pub fn set_min_version(&mut self, name: &str) -> Result<(), String> {
        self.only_tls13 = match name {
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => false,
            "VersionTLS13" => true,
            other => return Err(format!("unknown tls version {}", binnacle_meta::go_quote(other))),
        };
        Ok(())
    }

    /// Sets the suites by name. Unsupported ones are ignored with a warning; it is an error if none is left.
    pub fn set_suites(&mut self, names: &[&str]) -> Result<(), String> {
        let mut chosen = Vec::new();
        for name in names {
            match SUITES.iter().find(|(known, _)| known == name) {
                Some((_, suite)) if FIPS && !suite.fips() => {
                    tracing::warn!("skipping cipher suite {name}: not available in FIPS mode");
                }
                Some((_, suite)) => chosen.push(*suite),
                None if WEAK_SUITES.contains(name) => {
                    tracing::warn!("skipping insecure cipher suite {name}");
                }
                None => return Err(format!("Cipher suite {name} not supported or doesn't exist")),
            }
        }
        if chosen.is_empty() && !names.is_empty() {
            return Err("none of the cipher suites of --tls-cipher-suites is available".to_owned());
        }
        self.suites = (!names.is_empty()).then_some(chosen);
        Ok(())
    }

    /// Sets the key exchanges by number.
    pub fn set_groups(&mut self, numbers: &[i64]) -> Result<(), String> {
        let mut chosen: Vec<&'static dyn SupportedKxGroup> = Vec::new();
        for number in numbers {
            match KEY_EXCHANGES.iter().find(|(known, _)| known == number) {
                Some((_, group)) if FIPS && !group.fips() => {
                    tracing::warn!("skipping curve preference {number}: not available in FIPS mode");
                }
                Some((_, group)) => chosen.push(*group),
                None if OTHER_GROUPS.contains(number) => {
                    tracing::warn!("skipping unsupported curve preference {number}");
                }
                None => return Err(format!("curve preference {number} is not supported by the current Go version")),
            }
        }
        if chosen.is_empty() && !numbers.is_empty() {
            return Err("none of the key exchanges of --tls-curve-preferences is available".to_owned());
        }
        self.groups = (!numbers.is_empty()).then_some(chosen);
        Ok(())
    }

    pub(super) fn provider(&self, preference: Preference) -> CryptoProvider {
        let mut provider = binnacle_crypto::tls::provider();
        provider.cipher_suites.sort_by_key(|suite| preference.rank(suite));
        if let Some(suites) = &self.suites {
            provider.cipher_suites.retain(|suite| suite.tls13().is_some() || suites.contains(suite));
        }
        if let Some(groups) = &self.groups {
            provider.kx_groups = groups.clone();
        }
        provider
    }

    pub(super) fn versions(&self) -> Vec<&'static SupportedProtocolVersion> {
        let has_tls12 = self.provider(Preference::Aes).cipher_suites.iter().any(|suite| suite.tls13().is_none());
        if self.only_tls13 || !has_tls12 { vec![&version::TLS13] } else { vec![&version::TLS13, &version::TLS12] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_minimum_version() {
        let mut settings = TlsSettings::default();
        for (name, want) in [("", 2), ("VersionTLS10", 2), ("VersionTLS12", 2), ("VersionTLS13", 1)] {
            settings.set_min_version(name).unwrap();
            assert_eq!(settings.versions().len(), want, "{name}");
        }
        assert_eq!(settings.set_min_version("TLS9").unwrap_err(), "unknown tls version \"TLS9\"");
    }

    #[test]
    fn sets_suites_by_name() {
        let of = |names: &[&str]| {
            let mut settings = TlsSettings::default();
            settings
                .set_suites(names)
                .map(|()| (settings.provider(Preference::Aes).cipher_suites.len(), settings.versions().len()))
        };
        let tls13 = if FIPS { 2 } else { 3 };
        let chacha = match FIPS {
            true => Err("none of the cipher suites of --tls-cipher-suites is available"),
            false => Ok((tls13 + 1, 2)),
        };
        for (names, want) in [
            (&[][..], Ok((if FIPS { 6 } else { 9 }, 2))),
            (&["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"], Ok((tls13 + 1, 2))),
            (&["TLS_RSA_WITH_RC4_128_SHA", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305"], chacha),
            (&["TLS_AES_128_GCM_SHA256"], Ok((tls13, 1))),
            (&["TLS_RSA_WITH_RC4_128_SHA"], Err("none of the cipher suites of --tls-cipher-suites is available")),
            (&["TLS_MAGIC"], Err("Cipher suite TLS_MAGIC not supported or doesn't exist")),
        ] {
            assert_eq!(of(names), want.map_err(str::to_owned), "{names:?}");
        }
    }

    #[test]
    fn prefers_aes_with_hardware_support() {
        use CipherSuite as C;
        let (aes128, aes256) = (C::TLS13_AES_128_GCM_SHA256, C::TLS13_AES_256_GCM_SHA384);
        let (chacha, cbc) = (C::TLS13_CHACHA20_POLY1305_SHA256, C::TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA);
        let aes = if has_aes() { Preference::Aes } else { Preference::ChaCha };
        for (offered, want, first) in [
            (&[aes256, aes128, chacha][..], aes, aes128),
            (&[C::Unknown(0x0a0a), aes256], aes, aes128),
            (&[chacha, aes128], Preference::ChaCha, chacha),
            (&[cbc, aes128], Preference::ChaCha, chacha),
            (&[], Preference::ChaCha, chacha),
        ] {
            assert_eq!(Preference::of_client(offered), want, "{offered:?}");
            let first_suite = TlsSettings::default().provider(want).cipher_suites[0].suite();
            let want = match (FIPS, has_aes()) {
                (true, _) => aes128,
                (false, true) => first,
                (false, false) => chacha,
            };
            assert_eq!(first_suite, want, "{offered:?}");
        }
    }

    #[test]
    fn sets_groups_by_number() {
        let of = |numbers: &[i64]| {
            let mut settings = TlsSettings::default();
            settings.set_groups(numbers).map(|()| settings.provider(Preference::Aes).kx_groups.len())
        };
        for (numbers, want) in [
            (&[][..], Ok(TlsSettings::default().provider(Preference::Aes).kx_groups.len())),
            (&[23, 25], Ok(1)),
            (&[24, 29], Ok(if FIPS { 1 } else { 2 })),
            (&[24, 4588], Ok(if KEY_EXCHANGES.len() > 3 { 2 } else { 1 })),
            (&[25], Err("none of the key exchanges of --tls-curve-preferences is available")),
            (&[1], Err("curve preference 1 is not supported by the current Go version")),
        ] {
            assert_eq!(of(numbers), want.map_err(str::to_owned), "{numbers:?}");
        }
    }
}
