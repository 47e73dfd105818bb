//! The targets of requests, and connections to them.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use binnacle_egress::Dialer;
use binnacle_meta::effective_address;
use binnacle_request::ByteStream;
use binnacle_work::in_relay;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

use crate::certificates::Flaws;
use crate::lenient::Lenient;
use crate::metered::{Meter, MeteredStream};
use crate::tls;

/// The time limits for connecting and for the TLS handshake (as in Go's transports).
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The server to which a request is sent.
#[derive(Clone)]
pub struct Target {
    /// An address or a name. IPv6 addresses have no brackets.
    pub host: String,
    /// The port as in the URL, or `None` for the scheme's default.
    pub port: Option<u16>,
    /// `None` for plain HTTP.
    pub tls: Option<Arc<ClientConfig>>,
    /// Addresses that were resolved and checked before. If set, only these are dialed.
    pub addresses: Option<Vec<IpAddr>>,
    /// The name that the certificate must have, if not the host.
    pub server_name: Option<String>,
    pub connection: ConnectionOptions,
}

/// The settings of connections to a server.
#[derive(Clone, Debug, Default)]
pub struct ConnectionOptions {
    /// The rate limit of an upgraded connection, in each direction.
    pub bytes_per_second: Option<NonZeroU64>,
    /// The proxy for connections, or `None` for direct ones.
    pub dialer: Option<Arc<Dialer>>,
}

/// An open connection.
pub(crate) struct OpenConnection {
    pub(crate) stream: Box<dyn ByteStream>,
    pub(crate) meter: Meter,
    /// True if HTTP/2 was negotiated.
    pub(crate) is_multiplexed: bool,
    /// The flaws of the server's certificate.
    pub(crate) flaws: Flaws,
}

/// The reason why a connection failed, with the message of Go's `net` package.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DialError {
    pub text: String,
    /// True if the server's certificate could not be verified.
    pub unverified: bool,
}

impl DialError {
    fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), unverified: false }
    }
}

impl Target {
    /// Creates a target for a `host:port`; an IPv6 address is in brackets.
    pub fn of_address(
        address: &str,
        tls: Option<Arc<ClientConfig>>,
        server_name: Option<String>,
    ) -> Result<Self, DialError> {
        let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let missing = || DialError::new(format!("dial tcp: address {address}: missing port in address"));
        let (host, port) = parts.ok_or_else(missing)?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { host, port: Some(port), tls, addresses: None, server_name, connection: ConnectionOptions::default() })
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns `host:port` as in URLs, without the port if there is none.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }

    pub fn url(&self, path_and_query: &str) -> String {
        format!("{}://{}{path_and_query}", self.scheme(), self.authority())
    }

    /// Opens a connection, including the TLS handshake if the target uses TLS.
    pub(crate) async fn dial(&self) -> Result<OpenConnection, DialError> {
        let meter = Meter::default();
        let stream: Box<dyn ByteStream> = match &self.connection.dialer {
            Some(dialer) => {
                let tunnel = dialer.dial(&self.address()).await.map_err(DialError::new)?;
                Box::new(MeteredStream::new(tunnel, meter.clone()))
            }
            None => Box::new(MeteredStream::new(self.dial_directly().await?, meter.clone())),
        };
        let Some(config) = &self.tls else {
            return Ok(OpenConnection { stream, meter, is_multiplexed: false, flaws: Flaws::default() });
        };
        let name = self.server_name.as_ref().unwrap_or(&self.host);
        let name = ServerName::try_from(name.clone())
            .map_err(|_| DialError::new(format!("tls: invalid server name {name:?}")))?;
        let connector = TlsConnector::from(config.clone());
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, in_relay("TLS handshake", connector.connect(name, stream))).await
        {
            Ok(Ok(stream)) => {
                let is_multiplexed = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                let flaws = Flaws::of(stream.get_ref().1.peer_certificates().unwrap_or_default());
                if is_multiplexed {
                    meter.share();
                }
                Ok(OpenConnection { stream: Box::new(Lenient(stream)), meter, is_multiplexed, flaws })
            }
            Ok(Err(error)) => {
                let text = tls::explain(&error);
                Err(DialError { unverified: text.contains("x509:"), text })
            }
            Err(_) => Err(DialError::new("net/http: TLS handshake timeout")),
        }
    }

    async fn dial_directly(&self) -> Result<TcpStream, DialError> {
        let tcp = match tokio::time::timeout(DIAL_TIMEOUT, self.tcp()).await {
            Ok(tcp) => tcp?,
            Err(_) => return Err(DialError::new(format!("dial tcp {}: i/o timeout", self.dialed()))),
        };
        // Keystrokes must be sent at once.
        let _ = tcp.set_nodelay(true);
        Ok(tcp)
    }

    /// Returns the address for a proxy to dial: a checked address, or the name, which the proxy resolves itself.
    fn address(&self) -> String {
        match self.addresses.as_ref().and_then(|addresses| addresses.first()) {
            Some(ip) => SocketAddr::new(*ip, self.port_to_dial()).to_string(),
            None => self.dialed(),
        }
    }

    async fn tcp(&self) -> Result<TcpStream, DialError> {
        let port = self.port_to_dial();
        let addresses: Vec<SocketAddr> = match &self.addresses {
            Some(addresses) => addresses.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
            None => {
                resolve(&self.host).await.map_err(dialing)?.into_iter().map(|ip| SocketAddr::new(ip, port)).collect()
            }
        };
        let mut failed = None;
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(tcp) => return Ok(tcp),
                Err(error) => failed = Some(DialError::new(format!("dial tcp {address}: {}", explain(&error)))),
            }
        }
        Err(failed.unwrap_or_else(|| DialError::new(format!("dial tcp: lookup {}: no such host", self.host))))
    }

    pub(crate) fn port_to_dial(&self) -> u16 {
        self.port.unwrap_or(if self.tls.is_some() { 443 } else { 80 })
    }

    fn dialed(&self) -> String {
        Self { port: Some(self.port_to_dial()), ..self.clone() }.authority()
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url(""))
    }
}

fn dialing(error: DialError) -> DialError {
    DialError { text: format!("dial tcp: {}", error.text), ..error }
}

/// Resolves a host to its addresses. An IP address resolves to itself.
pub async fn resolve(host: &str) -> Result<Vec<IpAddr>, DialError> {
    if let Ok(ip) = host.parse() {
        return Ok(vec![ip]);
    }
    let none = || DialError::new(format!("lookup {host}: no such host"));
    let found = lookup_host((host, 0)).await.map_err(|_| none())?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.dedup();
    if addresses.is_empty() { Err(none()) } else { Ok(addresses) }
}

/// Returns true if proxies may dial an address: loopback, link-local, multicast and broadcast addresses are excluded
/// (Go's `IsGlobalUnicast`, which includes private ranges).
pub fn is_global_unicast(ip: IpAddr) -> bool {
    match effective_address(ip) {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_link_local() || ip.is_broadcast())
        }
        IpAddr::V6(ip) => !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast() || ip.is_unicast_link_local()),
    }
}

pub(crate) fn explain(error: &std::io::Error) -> String {
    use std::io::ErrorKind as K;
    match error.kind() {
        K::ConnectionRefused => "connect: connection refused".to_owned(),
        K::HostUnreachable => "connect: no route to host".to_owned(),
        K::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        K::TimedOut => "connect: connection timed out".to_owned(),
        K::ConnectionReset => "connect: connection reset by peer".to_owned(),
        _ => format!("connect: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_global_unicast_addresses() {
        for (address, want) in [
            ("10.0.0.1", true),
            ("8.8.8.8", true),
            ("fd00::1", true),
            ("2001:db8::1", true),
            ("127.0.0.1", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("224.0.0.1", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("fe80::1", false),
            ("ff02::1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:169.254.169.254", false),
            ("::127.0.0.1", false),
            ("64:ff9b::127.0.0.1", false),
            ("64:ff9b::169.254.169.254", false),
            ("64:ff9b::8.8.8.8", true),
        ] {
            assert_eq!(is_global_unicast(address.parse().unwrap()), want, "{address}");
        }
    }

    #[test]
    fn formats_urls_with_ipv6_hosts() {
        for (host, port, want) in [
            ("10.0.0.1", Some(80), "http://10.0.0.1:80/a?b"),
            ("fd00::1", None, "http://[fd00::1]/a?b"),
            ("node", Some(10250), "http://node:10250/a?b"),
        ] {
            let target = Target {
                host: host.into(),
                port,
                tls: None,
                addresses: None,
                server_name: None,
                connection: ConnectionOptions::default(),
            };
            assert_eq!(target.url("/a?b"), want);
        }
    }

    #[tokio::test]
    async fn reports_dial_errors_like_go() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let target = |host: &str| Target {
            host: host.into(),
            port: Some(port),
            tls: None,
            addresses: None,
            server_name: None,
            connection: ConnectionOptions::default(),
        };
        let error = target("127.0.0.1").dial().await.err().unwrap();
        assert_eq!(error.text, format!("dial tcp 127.0.0.1:{port}: connect: connection refused"));
        let error = target("nowhere.invalid").dial().await.err().unwrap();
        assert_eq!(error.text, "dial tcp: lookup nowhere.invalid: no such host");
    }
}
