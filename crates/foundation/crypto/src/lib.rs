//! The cryptography provider. Every crate that encrypts, signs, verifies or needs random secrets uses this one, so that
//! one feature of the build selects the implementation:
//!
//! | feature | implementation |
//! | --- | --- |
//! | none | `ring`, with RustCrypto for what it lacks (AES-CBC, AES-GCM with 192 bits, P-521) |
//! | `aws-lc` | AWS-LC |
//! | `fips` | the FIPS module of AWS-LC; algorithms that it does not approve are refused |
//!
//! Features are additive: with several of them, the last one in the table counts. Checksums that protect nothing, such
//! as ETags and names, are computed without the provider.

pub mod aes;
pub mod ecdsa;
mod requests;
pub mod tls;

#[cfg(feature = "aws-lc")]
pub use aws_lc_rs::{digest, error, hkdf, hmac, rand, signature};
#[cfg(not(feature = "aws-lc"))]
pub use ring::{digest, error, hkdf, hmac, rand, signature};

pub use requests::verify_certificate_request;

/// True if only algorithms that the FIPS module approves are available.
pub const FIPS: bool = cfg!(feature = "fips");

/// The name of the provider, for logs and metrics.
pub const PROVIDER: &str = if cfg!(feature = "aws-lc") { "aws-lc-rs" } else { "ring" };

/// The version of the FIPS module; `None` without one.
#[must_use]
pub fn fips_module() -> Option<String> {
    #[cfg(feature = "fips")]
    return aws_lc_rs::fips_version().map(|version| version.to_string());
    #[cfg(not(feature = "fips"))]
    None
}

/// Checks that the provider works in the mode that the program was built for. A program calls this once at startup.
///
/// # Errors
/// If the FIPS module is not in force.
pub fn check() -> Result<(), String> {
    #[cfg(feature = "fips")]
    {
        aws_lc_rs::try_fips_mode().map_err(|error| format!("the FIPS module is not in force: {error}"))?;
        if !tls::provider().fips() {
            return Err("the TLS provider allows algorithms that FIPS does not approve".to_owned());
        }
    }
    Ok(())
}

/// Returns `N` random bytes for keys, nonces and secrets.
///
/// # Errors
/// If the system provides none.
pub fn random<const N: usize>() -> Result<[u8; N], error::Unspecified> {
    use rand::SecureRandom as _;
    let mut bytes = [0; N];
    rand::SystemRandom::new().fill(&mut bytes)?;
    Ok(bytes)
}

/// Returns the SHA-256 digest of `data`.
#[must_use]
pub fn sha256(data: impl AsRef<[u8]>) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest::digest(&digest::SHA256, data.as_ref()).as_ref());
    bytes
}

/// Returns the size in bytes of an RSA key's modulus, and of its signatures.
#[must_use]
pub fn rsa_modulus_len(pair: &signature::RsaKeyPair) -> usize {
    #[cfg(feature = "aws-lc")]
    return pair.public_modulus_len();
    #[cfg(not(feature = "aws-lc"))]
    pair.public().modulus_len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provider_works_in_its_mode() {
        check().unwrap();
        assert_eq!(tls::provider().fips(), FIPS);
        assert_eq!(fips_module().is_some(), FIPS);
    }

    #[test]
    fn random_bytes_differ() {
        assert_ne!(random::<32>().unwrap(), random::<32>().unwrap());
    }

    /// The digest of `abc` in FIPS 180-2.
    #[test]
    fn computes_sha256() {
        let shown: String = sha256("abc").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
