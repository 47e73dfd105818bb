//! Connections to one member: TCP or a Unix socket, optionally with TLS.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use binnacle_egress::Dialer;
use hyper_util::rt::TokioIo;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint};

use crate::options::{ConnectError, TlsPaths};

/// The same as in kube-apiserver, where shorter timeouts broke TLS on small machines (kubernetes issue 64649). With
/// several members, another one is tried long before.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// A silent failure of a member is detected after the sum of both. etcd does not accept pings more often than every
/// five seconds.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Lists have pages and chunks of several megabytes, and share the connection with other responses.
const STREAM_WINDOW: u32 = 4 << 20;
/// The maximum of HTTP/2: streams that wait for their readers must not delay other responses.
const CONNECTION_WINDOW: u32 = i32::MAX as u32;

/// The address of a member, and the dialer for it.
#[derive(Clone)]
struct Target {
    address: Address,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    dialer: Option<Arc<Dialer>>,
}

#[derive(Clone)]
enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Returns a channel to a member, which connects on first use and whenever the connection is lost, and counts its
/// connections.
pub(crate) fn channel(
    endpoint: &str,
    tls: Option<&Arc<ClientConfig>>,
    has_tls_files: bool,
    dialer: Option<Arc<Dialer>>,
    connections: &Arc<AtomicU64>,
) -> Result<Channel, ConnectError> {
    let invalid = |reason: String| ConnectError::Endpoint { endpoint: endpoint.to_owned(), reason };
    let (scheme, address) = match endpoint.split_once("://") {
        Some((scheme, address)) => (scheme, address),
        None if has_tls_files => ("https", endpoint),
        None => ("http", endpoint),
    };
    let (authority, host, address) = match scheme {
        // The path of the socket replaces the host. TLS verifies the name of this machine.
        "unix" | "unixs" if !address.is_empty() => {
            (http::uri::Authority::from_static("localhost"), "localhost".to_owned(), Address::Unix(address.into()))
        }
        _ => {
            let authority: http::uri::Authority =
                address.trim_end_matches('/').parse().map_err(|error| invalid(format!("{error}")))?;
            let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = authority.port_u16().ok_or_else(|| invalid("it has no port".to_owned()))?;
            let address = Address::Tcp(host.clone(), port);
            (authority, host, address)
        }
    };
    let tls = match (scheme, tls) {
        ("http" | "unix", _) => None,
        ("https" | "unixs", Some(config)) => {
            let name = ServerName::try_from(host.clone()).map_err(|error| invalid(error.to_string()))?;
            Some((TlsConnector::from(Arc::clone(config)), name))
        }
        _ => return Err(invalid(format!("scheme {scheme:?} is not supported"))),
    };
    let target = Target { address, tls, dialer };
    // The connector handles TLS; the channel uses plain HTTP/2.
    let endpoint = Endpoint::from_shared(format!("http://{authority}")).map_err(|error| invalid(error.to_string()))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let connections = Arc::clone(connections);
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_| {
        connections.fetch_add(1, Ordering::Relaxed);
        connect(target.clone())
    })))
}

async fn connect(target: Target) -> Result<TokioIo<Box<dyn Connection>>, std::io::Error> {
    let stream: Box<dyn Connection> = match (target.address, target.dialer) {
        (Address::Tcp(host, port), Some(dialer)) => {
            let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            Box::new(dialer.dial(&address).await.map_err(std::io::Error::other)?)
        }
        (Address::Tcp(host, port), None) => {
            let failed = |error: std::io::Error| {
                // As Go describes it: the address is not in the error of the system.
                let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                std::io::Error::new(error.kind(), format!("dial tcp {address}: connect: {error}"))
            };
            let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(failed)?;
            tcp.set_nodelay(true)?;
            Box::new(tcp)
        }
        // A proxy cannot reach the sockets of this machine.
        (Address::Unix(path), _) => Box::new(UnixStream::connect(path).await?),
    };
    let connection: Box<dyn Connection> = match target.tls {
        None => stream,
        Some((tls, name)) => Box::new(tls.connect(name, stream).await?),
    };
    Ok(TokioIo::new(connection))
}

/// Returns the configuration of all TLS connections, or an error if a configured file cannot be used.
pub(crate) fn tls_config(paths: &TlsPaths) -> Result<Arc<ClientConfig>, ConnectError> {
    let provider = Arc::new(binnacle_crypto::tls::provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(Path::new("the TLS provider"), &error))?
        .with_root_certificates(roots(paths.ca.as_deref())?);
    let mut config = match (&paths.certificate, &paths.key) {
        (None, None) => builder.with_no_client_auth(),
        (Some(certificate), Some(key)) => {
            let identity = Identity { certificate: certificate.clone(), key: key.clone() };
            identity.load()?;
            builder.with_client_cert_resolver(Arc::new(identity))
        }
        _ => return Err(ConnectError::HalfIdentity),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, ConnectError> {
    let mut roots = RootCertStore::empty();
    match ca {
        Some(path) => {
            let certificates = CertificateDer::pem_file_iter(path).map_err(|error| unusable(path, &error))?;
            for certificate in certificates {
                let certificate = certificate.map_err(|error| unusable(path, &error))?;
                roots.add(certificate).map_err(|error| unusable(path, &error))?;
            }
            if roots.is_empty() {
                return Err(unusable(path, &"there is no certificate in it"));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
    }
    Ok(roots)
}

fn unusable(path: &Path, reason: &dyn fmt::Display) -> ConnectError {
    ConnectError::Tls { path: path.display().to_string(), reason: reason.to_string() }
}

/// The client certificate, which is read from its files for each connection.
#[derive(Debug)]
struct Identity {
    certificate: PathBuf,
    key: PathBuf,
}

impl Identity {
    fn load(&self) -> Result<CertifiedKey, ConnectError> {
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| unusable(&self.certificate, &error))?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| unusable(&self.key, &error))?;
        let key = binnacle_crypto::tls::signing_key(&key).map_err(|error| unusable(&self.key, &error))?;
        Ok(CertifiedKey::new(chain, key))
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        match self.load() {
            Ok(loaded) => Some(Arc::new(loaded)),
            Err(error) => {
                tracing::error!(%error, "connecting to etcd without a client certificate");
                None
            }
        }
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn accepts_endpoints_with_supported_scheme_and_port() {
        let tls = tls_config(&TlsPaths::default()).expect("no file is named");
        let connections = Arc::default();
        // endpoint, whether TLS files are set, whether it is valid
        for (endpoint, has_tls_files, good) in [
            ("http://127.0.0.1:2379", false, true),
            ("https://127.0.0.1:2379", false, true),
            ("https://etcd.example:2379/", false, true),
            ("127.0.0.1:2379", false, true),
            ("127.0.0.1:2379", true, true),
            ("http://[::1]:2379", false, true),
            ("https://[::1]:2379", true, true),
            ("unix:///run/etcd.sock", false, true),
            ("unix://localhost:2379", false, true),
            ("unixs:///run/etcd.sock", true, true),
            ("unix://", false, false),
            ("http://127.0.0.1", false, false),
            ("ftp://127.0.0.1:1", false, false),
            ("http://", false, false),
            ("", false, false),
            ("https://not a host:1", false, false),
        ] {
            assert_eq!(channel(endpoint, Some(&tls), has_tls_files, None, &connections).is_ok(), good, "{endpoint}");
        }
    }

    #[test]
    fn rejects_unusable_tls_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let empty = dir.path().join("empty");
        std::fs::write(&empty, "").expect("a file");
        let missing = dir.path().join("missing");
        let paths = |ca: Option<&Path>, certificate: Option<&Path>, key: Option<&Path>| TlsPaths {
            ca: ca.map(Into::into),
            certificate: certificate.map(Into::into),
            key: key.map(Into::into),
        };
        for (paths, want) in [
            (paths(Some(&empty), None, None), "empty for TLS to etcd: there is no certificate in it"),
            (paths(Some(&missing), None, None), "missing for TLS to etcd"),
            (paths(None, Some(&missing), None), "needs both"),
            (paths(None, None, Some(&missing)), "needs both"),
            (paths(None, Some(&missing), Some(&missing)), "missing for TLS to etcd"),
        ] {
            match tls_config(&paths) {
                Err(error) => assert!(error.to_string().contains(want), "{error}"),
                Ok(_) => panic!("{paths:?} was accepted"),
            }
        }
    }
}
