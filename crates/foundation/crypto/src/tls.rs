//! The provider's part of TLS.

use std::sync::Arc;

use rustls::Error;
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::server::ProducesTickets;
use rustls::sign::SigningKey;
use rustls_pki_types::PrivateKeyDer;

#[cfg(feature = "aws-lc")]
use rustls::crypto::aws_lc_rs as implementation;
#[cfg(not(feature = "aws-lc"))]
use rustls::crypto::ring as implementation;

pub use implementation::{cipher_suite, kx_group};

/// Key exchanges by Go's numbers, which are those of TLS.
pub const KEY_EXCHANGES: &[(i64, &dyn SupportedKxGroup)] = &[
    (23, kx_group::SECP256R1),
    (24, kx_group::SECP384R1),
    (29, kx_group::X25519),
    #[cfg(feature = "aws-lc")]
    (4587, kx_group::SECP256R1MLKEM768),
    #[cfg(feature = "aws-lc")]
    (4588, kx_group::X25519MLKEM768),
];

/// Returns the provider with its default algorithms: with FIPS, only approved ones.
#[must_use]
pub fn provider() -> CryptoProvider {
    implementation::default_provider()
}

/// Returns an issuer of session tickets with new keys, which it replaces every few hours.
///
/// # Errors
/// If the system provides no random bytes.
pub fn ticketer() -> Result<Arc<dyn ProducesTickets>, Error> {
    implementation::Ticketer::new()
}

/// Returns the signer of a private key.
///
/// # Errors
/// If the provider does not support the key.
pub fn signing_key(key: &PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, Error> {
    implementation::sign::any_supported_type(key)
}
