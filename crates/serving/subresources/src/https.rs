//! GET requests to other components on this machine. Certificates are not verified, since only health is read.

use std::sync::Arc;
use std::time::Duration;

use binnacle_client::{Meter, MeteredStream, Verification, client_config};
use http::Request;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The maximum number of bytes of a response that are read.
const MAX_BODY: usize = 10 << 10;

/// A response.
pub(crate) struct HttpResponse {
    pub(crate) code: u16,
    pub(crate) body: String,
}

/// Requests `https://HOST:PORT/PATH`.
///
/// # Errors
///
/// Returns the message of Go's client.
pub(crate) async fn get(host: &str, port: u16, path: &str, timeout: Duration) -> Result<HttpResponse, String> {
    let url = format!("https://{host}:{port}{path}");
    let failed = |why: String| format!("Get \"{url}\": {why}");
    match tokio::time::timeout(timeout, send(host, port, path)).await {
        Ok(response) => response.map_err(failed),
        Err(_) => Err(failed("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned())),
    }
}

async fn send(host: &str, port: u16, path: &str) -> Result<HttpResponse, String> {
    let address = format!("{host}:{port}");
    let dial = |error: std::io::Error| {
        let why = match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
            std::io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
            _ => error.to_string(),
        };
        format!("dial tcp {address}: connect: {why}")
    };
    let tcp = TcpStream::connect(&address).await.map_err(dial)?;
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(config()?);
    let stream =
        connector.connect(name, MeteredStream::new(tcp, Meter::default())).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let request = Request::get(path)
        .header("Host", &address)
        .header("User-Agent", "kube-probe/1.36")
        .header("Accept", "*/*")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let exchange = async move {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let code = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        Ok(HttpResponse { code, body: String::from_utf8_lossy(&body).into_owned() })
    };
    // This task drives the connection, which ends with the response.
    tokio::pin!(exchange);
    tokio::select! {
        response = &mut exchange => response,
        connection_end = connection => match connection_end {
            // The response may have arrived before the connection ended.
            Ok(()) => exchange.await,
            Err(error) => Err(error.to_string()),
        },
    }
}

fn config() -> Result<Arc<ClientConfig>, String> {
    client_config(Verification::None, None).map_err(|error| error.to_string())
}
