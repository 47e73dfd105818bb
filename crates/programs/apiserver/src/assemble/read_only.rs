//! Refuses or forwards requests that would change objects, on a server that only reads its store.

use std::sync::Arc;

use binnacle_aggregator::{Writer, WriterOptions};
use binnacle_client::ConnectionOptions;
use binnacle_egress::{Egress, Network};
use binnacle_endpoints::failure_response;
use binnacle_meta::Status;
use binnacle_request::{BoxFuture, Interceptor, Preferences, Request, RequestInfo, Response};
use rustls::client::ResolvesClientCert;

use super::StartFailure;
use crate::settings::Storage;

/// The groups whose objects are questions: creating one stores nothing.
const REVIEW_GROUPS: [&str; 2] = ["authentication.k8s.io", "authorization.k8s.io"];
/// The verbs that change nothing.
const READS: [&str; 3] = ["get", "list", "watch"];
/// The subresources that change something whatever the verb is: they run commands and open ports in Pods.
const SESSIONS: [&str; 3] = ["attach", "exec", "portforward"];

/// Takes all requests for resources except reads and access reviews, aggregated APIs included.
pub(super) struct ReadOnlyGate {
    /// The server that gets the requests; without it they are refused.
    writer: Option<Writer>,
}

impl ReadOnlyGate {
    /// Returns `None` for a server that writes.
    pub(super) fn new(
        settings: &Storage,
        identity: Option<&Arc<dyn ResolvesClientCert>>,
        egress: &Egress,
    ) -> Result<Option<Self>, StartFailure> {
        if !settings.read_only {
            return Ok(None);
        }
        let (Some(to), Some(identity)) = (&settings.writer, identity) else { return Ok(Some(Self { writer: None })) };
        let dialer = egress.dialer(Network::ControlPlane);
        let options = WriterOptions {
            url: to.url.clone(),
            authorities: to.ca_file.clone(),
            identity: identity.clone(),
            connection: ConnectionOptions { dialer, ..ConnectionOptions::default() },
        };
        Ok(Some(Self { writer: Some(Writer::new(options).map_err(StartFailure::Writer)?) }))
    }
}

impl Interceptor for ReadOnlyGate {
    fn intercepts(&self, request: &Request) -> bool {
        !is_read(&request.info)
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            match &self.writer {
                Some(writer) => writer.send(request).await,
                None => failure_response(&Status::read_only(), &Preferences::of_request(&request)),
            }
        })
    }
}

fn is_read(info: &RequestInfo) -> bool {
    if !info.is_resource_request {
        return true;
    }
    let is_review = info.verb == "create" && REVIEW_GROUPS.contains(&info.api_group.as_str());
    is_review || READS.iter().any(|verb| info.verb == *verb) && !SESSIONS.contains(&info.subresource.as_str())
}
