//! The cryptography of the server under test: `BINNACLE_CRYPTO` has the feature that it was built with.

/// A cryptography provider of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cryptography {
    Ring,
    AwsLc,
    /// The FIPS module of AWS-LC.
    Fips,
}

impl Cryptography {
    /// Returns the provider of the server under test: ring, unless `BINNACLE_CRYPTO` is set.
    pub fn under_test() -> Self {
        match std::env::var("BINNACLE_CRYPTO").as_deref() {
            Err(_) => Self::Ring,
            Ok("aws-lc") => Self::AwsLc,
            Ok("fips") => Self::Fips,
            Ok(other) => panic!("BINNACLE_CRYPTO={other}: expected aws-lc or fips"),
        }
    }
}
