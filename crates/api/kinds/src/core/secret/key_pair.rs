//! Checks that a certificate and a private key belong together, with the errors of Go's `tls.X509KeyPair`.

use binnacle_crypto::signature::{Ed25519KeyPair, KeyPair};
use x509_parser::asn1_rs::{Any, FromDer, Tag};
use x509_parser::prelude::X509Certificate;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

use crate::certificates::pem::{self, Block};

const RSA: &str = "1.2.840.113549.1.1.1";
const EC: &str = "1.2.840.10045.2.1";
const ED25519: &str = "1.3.101.112";
const OTHER_TYPE: &str = "tls: private key type does not match public key type";
const OTHER_KEY: &str = "tls: private key does not match public key";

/// Returns the error of a certificate and its key, both in PEM.
pub(super) fn problem(certificate: &[u8], key: &[u8]) -> Option<String> {
    check(certificate, key).err()
}

fn check(certificate: &[u8], key: &[u8]) -> Result<(), String> {
    let certificate = find_certificate(&pem::blocks(certificate))?;
    let key = find_key(&pem::blocks(key))?;
    let Ok(([], certificate)) = X509Certificate::from_der(&certificate) else {
        return Err("x509: malformed certificate".to_owned());
    };
    let key = Key::parse(&key)?;
    key.belongs_to(certificate.public_key()).map_err(str::to_owned)
}

fn find_certificate(blocks: &[Block]) -> Result<Vec<u8>, String> {
    if let Some(block) = blocks.iter().find(|block| block.kind == "CERTIFICATE") {
        return Ok(block.bytes.clone());
    }
    Err(match blocks {
        [] => "tls: failed to find any PEM data in certificate input".to_owned(),
        [one] if one.kind.ends_with("PRIVATE KEY") => "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched".to_owned(),
        _ => format!(
            "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: {}",
            kinds(blocks)
        ),
    })
}

fn find_key(blocks: &[Block]) -> Result<Vec<u8>, String> {
    let is_key = |block: &&Block| block.kind == "PRIVATE KEY" || block.kind.ends_with(" PRIVATE KEY");
    if let Some(block) = blocks.iter().find(is_key) {
        return Ok(block.bytes.clone());
    }
    Err(match blocks {
        [] => "tls: failed to find any PEM data in key input".to_owned(),
        [one] if one.kind == "CERTIFICATE" => {
            "tls: found a certificate rather than a key in the PEM for the private key".to_owned()
        }
        _ => format!(
            "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: {}",
            kinds(blocks)
        ),
    })
}

fn kinds(blocks: &[Block]) -> String {
    let kinds: Vec<&str> = blocks.iter().map(|block| block.kind.as_str()).collect();
    format!("[{}]", kinds.join(" "))
}

/// The public part of a private key.
enum Key {
    /// The modulus, without leading zeros.
    Rsa(Vec<u8>),
    /// The point, if the key has one; otherwise only the type is compared.
    Ec(Option<Vec<u8>>),
    Ed25519(Vec<u8>),
}

impl Key {
    /// Parses a key in PKCS #1, PKCS #8 or SEC 1.
    fn parse(der: &[u8]) -> Result<Self, String> {
        let unreadable = || "tls: failed to parse private key".to_owned();
        let members = sequence(der).ok_or_else(unreadable)?;
        match members.as_slice() {
            [version, modulus, ..] if version.tag() == Tag::Integer && modulus.tag() == Tag::Integer => {
                Ok(Self::Rsa(unsigned(modulus.data).to_vec()))
            }
            [version, algorithm, key, ..] if version.tag() == Tag::Integer && algorithm.tag() == Tag::Sequence => {
                let oid = members_of(algorithm.data).and_then(|members| members.first()?.clone().oid().ok());
                match oid.ok_or_else(unreadable)?.to_id_string().as_str() {
                    RSA => Self::parse(key.data),
                    EC => sequence(key.data).map(|members| Self::ec(&members)).ok_or_else(unreadable),
                    ED25519 => Self::ed25519(key.data).ok_or_else(unreadable),
                    _ => Err("tls: found unknown private key type in PKCS#8 wrapping".to_owned()),
                }
            }
            [version, secret, ..] if version.tag() == Tag::Integer && secret.tag() == Tag::OctetString => {
                Ok(Self::ec(&members))
            }
            _ => Err(unreadable()),
        }
    }

    fn ec(members: &[Any<'_>]) -> Self {
        let public = members.iter().find(|member| member.tag() == Tag(1));
        let point = public.and_then(|member| Any::from_der(member.data).ok()).map(|(_, bits)| bits.data);
        // The first byte of a bit string is the number of unused bits: zero.
        Self::Ec(point.and_then(|bits| bits.split_first()).map(|(_, point)| point.to_vec()))
    }

    fn ed25519(der: &[u8]) -> Option<Self> {
        let (_, seed) = Any::from_der(der).ok()?;
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.data).ok()?;
        Some(Self::Ed25519(pair.public_key().as_ref().to_vec()))
    }

    fn belongs_to(&self, public: &SubjectPublicKeyInfo<'_>) -> Result<(), &'static str> {
        let same = |same: bool| if same { Ok(()) } else { Err(OTHER_KEY) };
        let algorithm = public.algorithm.algorithm.to_id_string();
        match (algorithm.as_str(), self) {
            (RSA, Self::Rsa(modulus)) => match public.parsed() {
                Ok(PublicKey::RSA(key)) => same(unsigned(key.modulus) == modulus),
                _ => Err("x509: invalid RSA public key"),
            },
            (EC, Self::Ec(point)) => same(point.as_ref().is_none_or(|point| *point == *public.subject_public_key.data)),
            (ED25519, Self::Ed25519(key)) => same(*key == *public.subject_public_key.data),
            (RSA | EC | ED25519, _) => Err(OTHER_TYPE),
            _ => Err("tls: unknown public key algorithm"),
        }
    }
}

fn sequence(der: &[u8]) -> Option<Vec<Any<'_>>> {
    let (_, outer) = Any::from_der(der).ok().filter(|(_, outer)| outer.tag() == Tag::Sequence)?;
    members_of(outer.data)
}

fn members_of(mut der: &[u8]) -> Option<Vec<Any<'_>>> {
    let mut members = Vec::new();
    while !der.is_empty() {
        let (rest, member) = Any::from_der(der).ok()?;
        members.push(member);
        der = rest;
    }
    Some(members)
}

fn unsigned(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair as Generated, PKCS_ECDSA_P256_SHA256, PKCS_ED25519};

    fn pair(algorithm: &'static rcgen::SignatureAlgorithm) -> (String, String) {
        let key = Generated::generate_for(algorithm).expect("a key");
        let certificate =
            CertificateParams::new(vec!["a.example".to_owned()]).and_then(|params| params.self_signed(&key));
        (certificate.expect("a certificate").pem(), key.serialize_pem())
    }

    #[test]
    fn validates_tls_key_pairs() {
        let (ec, ec_key) = pair(&PKCS_ECDSA_P256_SHA256);
        let (ed, ed_key) = pair(&PKCS_ED25519);
        let (_, other_key) = pair(&PKCS_ECDSA_P256_SHA256);
        let block = |kind: &str| format!("-----BEGIN {kind}-----\nAAAA\n-----END {kind}-----\n");
        for (certificate, key, want) in [
            (ec.as_str(), ec_key.as_str(), None),
            (&ed, &ed_key, None),
            (&ec, &other_key, Some(OTHER_KEY)),
            (&ec, &ed_key, Some(OTHER_TYPE)),
            ("", &ec_key, Some("tls: failed to find any PEM data in certificate input")),
            (&ec, "", Some("tls: failed to find any PEM data in key input")),
            (
                &ec_key,
                &ec,
                Some(
                    "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been switched",
                ),
            ),
            (&ec, &ec, Some("tls: found a certificate rather than a key in the PEM for the private key")),
            (
                &block("A"),
                &ec_key,
                Some(
                    "tls: failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: [A]",
                ),
            ),
            (
                &ec,
                &(block("A") + &block("B")),
                Some(
                    "tls: failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the following types: [A B]",
                ),
            ),
            (&block("CERTIFICATE"), &ec_key, Some("x509: malformed certificate")),
            (&ec, &block("RSA PRIVATE KEY"), Some("tls: failed to parse private key")),
        ] {
            assert_eq!(problem(certificate.as_bytes(), key.as_bytes()).as_deref(), want);
        }
    }
}
