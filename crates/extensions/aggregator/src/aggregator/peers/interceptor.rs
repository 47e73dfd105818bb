//! Forwarding of requests for resources that only a peer serves.

use std::sync::atomic::Ordering;
use std::time::Instant;

use binnacle_endpoints::failure_response;
use binnacle_meta::{Status, Text};
use binnacle_request::{BoxFuture, Interceptor, Preferences, Request, Response};
use http::StatusCode;

use super::Peers;
use crate::aggregator::proxy::{error_text, release_seat};
use crate::fetch::PEER_PROXIED;
use crate::forward::{Destination, ForwardError, ForwardMark, forward};

impl Interceptor for Peers {
    /// Returns true for requests that a peer can serve and this server cannot. Requests that a peer has forwarded are
    /// never forwarded again.
    fn intercepts(&self, request: &Request) -> bool {
        self.is_missing_locally(&request.info)
            && request.headers.get(PEER_PROXIED).is_none_or(|value| value != "true")
            && !self.servers_with(&request.info).is_empty()
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            if let Err(refusal) = release_seat(&request) {
                return *refusal;
            }
            let names = self.servers_with(&request.info);
            let Some(address) = self.address(&names).await else {
                self.0.metrics.unresolved(&request.info);
                let text = "Error getting ip and port info of the remote server while proxying";
                let preferences = Preferences::of(&request.headers, &request.query);
                return failure_response(&Status::service_unavailable(text), &preferences);
            };
            let info = request.info.clone();
            let response = match self.forward(request, &address).await {
                Ok(response) => response,
                Err(error) => error_text(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            };
            self.0.metrics.rerouted(response.status().as_u16(), &info);
            response
        })
    }
}

impl Peers {
    /// Returns the address of one of the servers, chosen round-robin.
    async fn address(&self, names: &[Text]) -> Option<String> {
        let mut addresses = Vec::new();
        for name in names {
            match self.0.addresses.address_of(name).await {
                Ok(address) => addresses.push(address),
                Err(why) => tracing::warn!(server = name.as_str(), why, "address of peer API server is unknown"),
            }
        }
        let turn = self.0.round_robin.fetch_add(1, Ordering::Relaxed);
        turn.checked_rem(addresses.len()).map(|at| addresses.swap_remove(at))
    }

    async fn forward(&self, request: Request, address: &str) -> Result<Response, ForwardError> {
        let connections = self.0.trust.connections(Instant::now());
        let to = Destination {
            address,
            connections: &connections,
            mark: ForwardMark::PeerProxied,
            rejects_redirects: false,
        };
        forward(request, to).await
    }
}
