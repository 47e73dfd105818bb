//! Establishes connections: name resolution, TCP, TLS.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use binnacle_client::{Flaws, Meter, MeteredStream, explain, webhook_certificates};
use binnacle_egress::{Dialer, Tunnel};
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tower_service::Service as Connect;

use crate::service::Service;

/// The error of a connection attempt, with the message of Go's client.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ConnectError {
    pub(crate) message: String,
    /// True if the peer has reset the connection.
    pub(crate) reset: bool,
}

#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) server_name: Option<String>,
    /// The service to dial instead of the URL's host.
    pub(crate) service: Option<Service>,
    /// The proxy to connect through.
    pub(crate) dialer: Option<Arc<Dialer>>,
}

/// An open connection.
pub(crate) struct Stream {
    transport: Transport,
    /// Counts what the server sends.
    meter: Meter,
}

/// A connection with or without TLS.
enum Transport {
    Plain(Box<MeteredStream<Box<dyn Tunnel>>>),
    Tls(Box<TlsStream<MeteredStream<Box<dyn Tunnel>>>>),
}

impl Connect<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(&url).await.map(TokioIo::new) })
    }
}

impl Connector {
    async fn connect(&self, url: &Uri) -> Result<Stream, ConnectError> {
        let secure = url.scheme_str() == Some("https");
        let host = url.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        let stream = match &self.service {
            Some(service) => {
                let address = service.address().await.map_err(|message| ConnectError { message, reset: false })?;
                let (host, port) = split_host_port(&address).ok_or_else(|| ConnectError {
                    message: format!("dial tcp: address {address}: missing port in address"),
                    reset: false,
                })?;
                self.dial(host, port).await?
            }
            None => self.dial(host, url.port_u16().unwrap_or(if secure { 443 } else { 80 })).await?,
        };
        let meter = Meter::default();
        let stream = MeteredStream::new(stream, meter.clone());
        if !secure {
            return Ok(Stream { transport: Transport::Plain(Box::new(stream)), meter });
        }
        let name = self.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|error| ConnectError { message: format!("{name}: {error}"), reset: false })?;
        match TlsConnector::from(self.tls.clone()).connect(name, stream).await {
            Ok(stream) => Ok(Stream { transport: Transport::Tls(Box::new(stream)), meter }),
            Err(error) => {
                let message = tls_error_message(&error);
                webhook_certificates().failed(&message);
                Err(ConnectError { message, reset: is_reset(&error) })
            }
        }
    }
}

impl Connector {
    async fn dial(&self, host: &str, port: u16) -> Result<Box<dyn Tunnel>, ConnectError> {
        if let Some(dialer) = &self.dialer {
            let address = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
            return dialer.dial(&address).await.map_err(|message| ConnectError { message, reset: false });
        }
        let tcp = dial(host, port).await?;
        let _ = tcp.set_nodelay(true);
        Ok(Box::new(tcp))
    }
}

/// Splits an address into host and port; IPv6 addresses are in brackets.
fn split_host_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    Some((host.trim_start_matches('[').trim_end_matches(']'), port.parse().ok()?))
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let addresses: Vec<SocketAddr> = match tokio::net::lookup_host((host, port)).await {
        Ok(addresses) => addresses.collect(),
        Err(_) => Vec::new(),
    };
    let mut failure = ConnectError { message: format!("dial tcp: lookup {host}: no such host"), reset: false };
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(tcp) => return Ok(tcp),
            Err(error) => {
                let message = format!("dial tcp {address}: connect: {}", tcp_error_message(&error));
                failure = ConnectError { message, reset: is_reset(&error) };
            }
        }
    }
    Err(failure)
}

fn is_reset(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionReset
}

fn tcp_error_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        _ => error.to_string(),
    }
}

fn tls_error_message(error: &io::Error) -> String {
    match error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        true => explain(error),
        false if error.kind() == io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        false => tcp_error_message(error),
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        // The extensions are attached to each response on this connection.
        let connected = Connected::new().extra(self.meter.clone());
        let Transport::Tls(stream) = &self.transport else { return connected };
        let session = stream.get_ref().1;
        let connected = connected.extra(Flaws::of(session.peer_certificates().unwrap_or_default()));
        match session.alpn_protocol() == Some(b"h2") {
            true => {
                self.meter.share();
                connected.negotiated_h2()
            }
            false => connected,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(&mut **stream).poll_read(cx, buffer),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(&mut **stream).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().transport {
            Transport::Plain(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(&mut **stream).poll_shutdown(cx),
        }
    }
}
