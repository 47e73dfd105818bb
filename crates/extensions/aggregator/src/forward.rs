//! Forwarding of requests to other servers of the control plane, under the identity of the caller.

use binnacle_proxy::{Relay, relay};
use binnacle_request::{Request, Response};
use http::header::{HeaderName, HeaderValue};

use crate::identity;
use crate::remote::Connections;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// Sends a request to a server that trusts this server's client certificate, and returns its response. The error is a
/// text for the client.
pub(crate) async fn forward(
    mut request: Request,
    address: &str,
    connections: &Connections,
) -> Result<Response, String> {
    identity::set(&mut request.headers, &request.user)
        .map_err(|why| format!("error trying to reach service: {why}"))?;
    if let Ok(id) = HeaderValue::from_str(request.record.audit_id()) {
        request.headers.insert(AUDIT_ID, id);
    }
    let to = Relay {
        address,
        pool: &connections.pool,
        upgrade_tls: &connections.upgrade_tls,
        server_name: &connections.server_name,
        rejects_redirects: false,
    };
    relay(request, to).await
}
