//! Signature algorithms (RFC 7518, section 3.1) and their elliptic curves.

use std::fmt;

use pkcs8::ObjectIdentifier;

/// An asymmetric algorithm, named as in token headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
}

/// The elliptic curves of [`Algorithm::Es256`] and the other ECDSA algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Curve {
    P256,
    P384,
    P521,
}

impl Algorithm {
    pub const ALL: [Self; 9] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Es256,
        Self::Es384,
        Self::Es512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
    ];

    /// Parses the `alg` of a token header. Returns `None` for all but public-key signatures: `none` and `HS256` are not
    /// supported.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Curve {
    pub(crate) const ALL: [Self; 3] = [Self::P256, Self::P384, Self::P521];

    pub fn algorithm(self) -> Algorithm {
        match self {
            Self::P256 => Algorithm::Es256,
            Self::P384 => Algorithm::Es384,
            Self::P521 => Algorithm::Es512,
        }
    }

    /// Returns the curve of the cryptography provider.
    pub(crate) fn to_provider(self) -> binnacle_crypto::ecdsa::Curve {
        match self {
            Self::P256 => binnacle_crypto::ecdsa::Curve::P256,
            Self::P384 => binnacle_crypto::ecdsa::Curve::P384,
            Self::P521 => binnacle_crypto::ecdsa::Curve::P521,
        }
    }

    /// Returns the `crv` of JWKs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
        }
    }

    /// Returns the object identifier (RFC 5480, section 2.1.1.1).
    pub(crate) const fn oid(self) -> ObjectIdentifier {
        ObjectIdentifier::new_unwrap(match self {
            Self::P256 => "1.2.840.10045.3.1.7",
            Self::P384 => "1.3.132.0.34",
            Self::P521 => "1.3.132.0.35",
        })
    }

    /// Returns the size of a coordinate and of a private key, in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    pub(crate) fn of_oid(oid: ObjectIdentifier) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.oid() == oid)
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|curve| curve.name() == name)
    }
}
