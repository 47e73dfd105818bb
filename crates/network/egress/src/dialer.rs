//! The destination networks, and the dialer of each.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::config::{self, Connection, EgressError, Proxy, TlsFiles};
use crate::konnectivity::Session;
use crate::metrics::{DialMetrics, Labels};
use crate::network::Network;
use crate::{Tunnel, connect};

/// The timeout for dialing a proxy and connecting through it.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The dialer of each network. Networks without one are dialed directly.
#[derive(Clone, Debug, Default)]
pub struct Egress(HashMap<Network, Arc<Dialer>>);

impl Egress {
    /// Loads the configuration file and the files that it references.
    pub fn load(path: &Path, metrics: &DialMetrics) -> Result<Self, EgressError> {
        let mut dialers = HashMap::new();
        for (network, connection) in config::load(path)? {
            let dialer = Dialer::new(connection, metrics);
            let dialer = dialer.map_err(|why| EgressError::Dialer(format!("{:?}", network.as_str()), why))?;
            dialers.extend(dialer.map(|dialer| (network, Arc::new(dialer))));
        }
        Ok(Self(dialers))
    }

    /// Returns the dialer of a network, or `None` if connections are direct.
    pub fn dialer(&self, network: Network) -> Option<Arc<Dialer>> {
        self.0.get(&network).cloned()
    }
}

/// Dials connections through a proxy.
#[derive(Debug)]
pub struct Dialer {
    transport: Transport,
    metrics: DialMetrics,
}

#[derive(Debug)]
enum Transport {
    Unix(PathBuf),
    Tcp { address: String, tls: Option<(Arc<ClientConfig>, ServerName<'static>)> },
    Grpc(PathBuf),
}

impl Dialer {
    fn new(connection: Connection, metrics: &DialMetrics) -> Result<Option<Self>, String> {
        let transport = match connection {
            Connection::Direct => return Ok(None),
            Connection::Grpc(socket) => Transport::Grpc(socket),
            Connection::HttpConnect(Proxy::Unix(socket)) => Transport::Unix(socket),
            Connection::HttpConnect(Proxy::Tcp(address, files)) => {
                let tls = files.map(|files| Ok::<_, String>((tls(&files)?, server_name(&files, &address)?)));
                Transport::Tcp { address, tls: tls.transpose()? }
            }
        };
        Ok(Some(Self { transport, metrics: metrics.clone() }))
    }

    fn labels(&self) -> Labels {
        match self.transport {
            Transport::Unix(_) => ["http_connect", "uds"],
            Transport::Tcp { .. } => ["http_connect", "tcp"],
            Transport::Grpc(_) => ["grpc", "uds"],
        }
    }

    /// Connects to a `host:port`. Errors have Go's messages.
    pub async fn dial(&self, address: &str) -> Result<Box<dyn Tunnel>, String> {
        let (labels, started) = (self.labels(), Instant::now());
        self.metrics.started(labels);
        let dialed = match tokio::time::timeout(TIMEOUT, self.connect(address)).await {
            Ok(dialed) => dialed,
            Err(_) => Err(("proxy", format!("dial tcp {address}: i/o timeout"))),
        };
        match dialed {
            Ok(tunnel) => {
                self.metrics.succeeded(labels, started.elapsed());
                Ok(tunnel)
            }
            Err((stage, why)) => {
                self.metrics.failed(labels, stage);
                Err(why)
            }
        }
    }

    async fn connect(&self, address: &str) -> Result<Box<dyn Tunnel>, (&'static str, String)> {
        let unreached = |why: String| ("connect", why);
        let (mut stream, proxy): (Box<dyn Tunnel>, String) = match &self.transport {
            Transport::Grpc(socket) => {
                let session = Session::open(socket).await.map_err(unreached)?;
                let tunnel = session.dial(address).await.map_err(|why| ("proxy", why))?;
                return Ok(Box::new(tunnel));
            }
            Transport::Unix(socket) => {
                let shown = socket.display().to_string();
                let stream = UnixStream::connect(socket).await;
                let stream = stream.map_err(|error| unreached(dialing("unix", &shown, &error)))?;
                (Box::new(stream), shown)
            }
            Transport::Tcp { address, tls } => {
                let tcp = TcpStream::connect(address).await;
                let tcp = tcp.map_err(|error| unreached(dialing("tcp", address, &error)))?;
                let _ = tcp.set_nodelay(true);
                let stream: Box<dyn Tunnel> = match tls {
                    None => Box::new(tcp),
                    Some((config, name)) => {
                        let connected = TlsConnector::from(config.clone()).connect(name.clone(), tcp).await;
                        Box::new(connected.map_err(|error| unreached(format!("tls: {error}")))?)
                    }
                };
                (stream, address.clone())
            }
        };
        connect::tunnel(&mut stream, &proxy, address).await.map_err(|why| ("proxy", why))?;
        Ok(stream)
    }
}

fn dialing(network: &str, address: &str, error: &std::io::Error) -> String {
    format!("dial {network} {address}: connect: {}", binnacle_meta::io_error(error))
}

fn server_name(files: &TlsFiles, address: &str) -> Result<ServerName<'static>, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = files.server_name.clone().unwrap_or_else(|| host.to_owned());
    ServerName::try_from(name.clone()).map_err(|error| format!("{name}: {error}"))
}

fn tls(files: &TlsFiles) -> Result<Arc<ClientConfig>, String> {
    let (certificate, key) = (files.certificate.display(), files.key.display());
    let unread = |error: &dyn std::fmt::Display| format!("failed to read key pair {certificate} & {key}, got {error}");
    let chain = CertificateDer::pem_file_iter(&files.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| unread(&error))?;
    let private = PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unread(&error))?;
    let mut roots = RootCertStore::empty();
    match &files.authorities {
        Some(path) => {
            let shown = path.display();
            let found = CertificateDer::pem_file_iter(path)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| format!("failed to read cert file {shown}, got {error}"))?;
            if roots.add_parsable_certificates(found).0 == 0 {
                return Err("failed to append CA cert to the cert pool".to_owned());
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(binnacle_crypto::tls::provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unread(&error))?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, private)
        .map_err(|error| unread(&error))?;
    Ok(Arc::new(config))
}
