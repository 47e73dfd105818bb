//! The TLS configuration of the client.

use std::sync::Arc;

use binnacle_client::{ClientIdentity, any_server, bundle_verifier, known_server};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::target::{Identity, Target, TargetError};

/// Returns the TLS configuration of a client for a target.
///
/// # Errors
/// If a certificate or a key cannot be read.
pub fn config(target: &Target) -> Result<ClientConfig, TargetError> {
    let failed = |error: String| TargetError(format!("tls: {error}"));
    let provider = Arc::new(binnacle_crypto::tls::provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?;
    let builder = if let Some(own) = &target.own {
        let own = own.clone();
        let verifier = known_server(move |certificate| own.is_own_certificate(certificate), provider);
        builder.dangerous().with_custom_certificate_verifier(verifier)
    } else if target.insecure {
        builder.dangerous().with_custom_certificate_verifier(any_server(provider))
    } else if let Some(pem) = &target.authorities {
        let verifier = bundle_verifier(bundle(pem)?, provider).map_err(|error| failed(error.to_string()))?;
        builder.dangerous().with_custom_certificate_verifier(verifier)
    } else {
        builder.with_root_certificates(roots_of_system())
    };
    let mut config = match &target.identity {
        None => builder.with_no_client_auth(),
        Some(Identity { files: Some(files), .. }) => {
            let identity = ClientIdentity::load(&files.certificate, &files.key);
            builder.with_client_cert_resolver(Arc::new(identity.map_err(|error| TargetError(error.to_string()))?))
        }
        Some(identity) => {
            let chain = CertificateDer::pem_slice_iter(&identity.certificate)
                .collect::<Result<Vec<_>, _>>()
                .map_err(|_| failed("failed to find any PEM data in certificate input".to_owned()))?;
            if chain.is_empty() {
                return Err(failed("failed to find any PEM data in certificate input".to_owned()));
            }
            let key = PrivateKeyDer::from_pem_slice(&identity.key)
                .map_err(|_| failed("failed to find any PEM data in key input".to_owned()))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| failed(error.to_string()))?
        }
    };
    config.alpn_protocols = match target.service.is_some() || target.http1 {
        true => vec![b"http/1.1".to_vec()],
        false => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(config)
}

fn bundle(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TargetError> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| TargetError(error.to_string()))?;
    if certificates.is_empty() {
        return Err(TargetError("unable to load root certificates: unable to parse bytes as PEM block".into()));
    }
    Ok(certificates)
}

/// Returns the system's authorities. If there are none, calls fail with an untrusted certificate.
fn roots_of_system() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
