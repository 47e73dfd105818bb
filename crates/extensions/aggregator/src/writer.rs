//! Forwarding of writes from a read-only server to the server that writes the store (`--forward-writes-to`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use binnacle_client::ConnectionOptions;
use binnacle_endpoints::failure_response;
use binnacle_meta::Status;
use binnacle_request::{Preferences, Request, Response};
use http::Uri;
use rustls::client::ResolvesClientCert;

use crate::aggregator::proxy::release_seat;
use crate::forward::{Destination, ForwardError, ForwardMark, forward};
use crate::loop_detection::Hop;
use crate::server_trust::{ServerTrust, TrustOptions};

/// The options for reaching the server that writes.
pub struct WriterOptions {
    /// `--forward-writes-to`: an `https` URL without a path.
    pub url: Uri,
    /// `--forward-writes-ca-file`: the file with the authorities of the server's certificate.
    pub authorities: PathBuf,
    /// The client certificate with which the server accepts the identity of callers (`--proxy-client-cert-file`).
    pub identity: Arc<dyn ResolvesClientCert>,
    /// The route to the servers of the control plane.
    pub connection: ConnectionOptions,
}

/// The server that writes the store which this server only reads.
pub struct Writer {
    /// The host and port.
    address: String,
    trust: ServerTrust,
    hop: Hop,
}

impl Writer {
    /// Fails with the reason if the URL or the file of the authorities cannot be used.
    pub fn new(options: WriterOptions) -> Result<Self, String> {
        let url = &options.url;
        let Some(host) = url.host().filter(|_| url.scheme_str() == Some("https") && url.path() == "/") else {
            return Err(format!("{url:?} is not an https URL without a path"));
        };
        let address = format!("{host}:{}", url.port_u16().unwrap_or(443));
        let trust = ServerTrust::new(TrustOptions {
            flag: "--forward-writes-ca-file",
            path: options.authorities,
            server_name: host.trim_matches(['[', ']']).to_owned(),
            identity: options.identity,
            connection: options.connection,
        })?;
        Ok(Self { address, trust, hop: Hop::new() })
    }

    /// Sends a request to the server under the caller's identity, and returns its response.
    pub async fn send(&self, request: Request) -> Response {
        if let Err(refusal) = release_seat(&request) {
            return *refusal;
        }
        let preferences = Preferences::of_request(&request);
        let connections = self.trust.connections(Instant::now());
        let to = Destination {
            address: &self.address,
            connections: &connections,
            mark: ForwardMark::Hop(&self.hop),
            rejects_redirects: false,
        };
        let status = match forward(request, to).await {
            Ok(response) => return response,
            Err(ForwardError::Loop) => Status::internal("the server of --forward-writes-to is this server"),
            Err(ForwardError::Unreachable(why)) => {
                tracing::warn!(address = self.address, why, "failed to forward a request to the server that writes");
                Status::service_unavailable(format!("the server that writes the store cannot be reached: {why}"))
            }
        };
        failure_response(&status, &preferences)
    }
}
