//! Issuance of certificates by an authority.

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use sec1::der::EncodePem;
use sec1::pkcs8::PrivateKeyInfo;
use sec1::{EcParameters, EcPrivateKey, LineEnding};
use time::{Duration, OffsetDateTime};

use super::authority::Authority;
use super::parameters::{EARLIEST, params};
use super::{CertifiedKey, PkiError};
use crate::SubjectAltNames;

const LEAF_LIFETIME: Duration = Duration::days(365);

const ADMIN_NAME: &str = "kubernetes-admin";
const KUBELET_CLIENT_NAME: &str = "kube-apiserver-kubelet-client";
const ADMIN_GROUP: &str = "system:masters";

pub(super) fn serving(
    issuer: &Authority,
    names: &SubjectAltNames,
    now: OffsetDateTime,
) -> Result<CertifiedKey, PkiError> {
    let mut params = leaf("kube-apiserver", issuer, now);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for name in &names.dns {
        params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
    }
    params.subject_alt_names.extend(names.ips.iter().copied().map(SanType::IpAddress));
    sign(params, issuer)
}

pub(super) fn admin(issuer: &Authority, now: OffsetDateTime) -> Result<CertifiedKey, PkiError> {
    client(ADMIN_NAME, issuer, now)
}

/// Creates the certificate of the server for kubelets, with kubeadm's names.
pub(super) fn kubelet_client(issuer: &Authority, now: OffsetDateTime) -> Result<CertifiedKey, PkiError> {
    client(KUBELET_CLIENT_NAME, issuer, now)
}

/// Creates the certificate of a client in the group of administrators.
fn client(name: &str, issuer: &Authority, now: OffsetDateTime) -> Result<CertifiedKey, PkiError> {
    let mut params = leaf(name, issuer, now);
    params.distinguished_name.push(DnType::OrganizationName, ADMIN_GROUP);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    sign(params, issuer)
}

fn leaf(name: &str, issuer: &Authority, now: OffsetDateTime) -> CertificateParams {
    let mut params = params(name, issuer.begins, (now.max(EARLIEST) + LEAF_LIFETIME).min(issuer.ends));
    params.use_authority_key_identifier_extension = true;
    params
}

fn sign(params: CertificateParams, issuer: &Authority) -> Result<CertifiedKey, PkiError> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer.issuer()?)?;
    Ok(CertifiedKey { certificate: certificate.pem(), key: sec1_pem(&key)? })
}

/// Returns a key as `EC PRIVATE KEY`, like client-go and k3s: fabric8's Java client takes every `PRIVATE KEY` for an
/// RSA key.
fn sec1_pem(key: &KeyPair) -> Result<String, PkiError> {
    let pkcs8 = key.serialize_der();
    let info = PrivateKeyInfo::try_from(pkcs8.as_slice()).map_err(sec1::Error::from)?;
    let mut key = EcPrivateKey::try_from(info.private_key)?;
    // Without the PKCS #8 wrapper, the key itself has to name its curve.
    let curve = info.algorithm.parameters_oid().map_err(|error| sec1::Error::from(sec1::pkcs8::Error::from(error)))?;
    key.parameters = Some(EcParameters::NamedCurve(curve));
    Ok(key.to_pem(LineEnding::LF).map_err(sec1::Error::from)?.to_string())
}
