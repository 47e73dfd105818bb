//! Forwarding of requests to other servers, under the identity of the caller.

use binnacle_proxy::{Relay, relay};
use binnacle_request::{Request, Response, User};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use crate::fetch::PEER_PROXIED;
use crate::identity;
use crate::loop_detection::Hop;
use crate::remote::Connections;

const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// A server that trusts this server's client certificate.
pub(crate) struct Destination<'a> {
    pub(crate) address: &'a str,
    pub(crate) connections: &'a Connections,
    pub(crate) mark: ForwardMark<'a>,
    /// True if redirects to other hosts are refused.
    pub(crate) rejects_redirects: bool,
}

/// The header that keeps a request from being forwarded in a circle.
#[derive(Clone, Copy)]
pub(crate) enum ForwardMark<'a> {
    /// This server's entry in `Via`: it does not forward the request a second time.
    Hop(&'a Hop),
    /// The header for peers, which do not forward the request.
    PeerProxied,
}

/// The reason for a missing response, with a text for the client.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ForwardError {
    #[error("this server has already forwarded the request")]
    Loop,
    #[error("{0}")]
    Unreachable(String),
}

/// Sends a request to another server, and returns its response.
pub(crate) async fn forward(mut request: Request, to: Destination<'_>) -> Result<Response, ForwardError> {
    set_headers(&mut request.headers, &request.user, request.record.audit_id(), to.mark)?;
    let connections = to.connections;
    let relayed = Relay {
        address: to.address,
        pool: &connections.pool,
        upgrade_tls: &connections.upgrade_tls,
        server_name: &connections.server_name,
        rejects_redirects: to.rejects_redirects,
    };
    relay(request, relayed).await.map_err(ForwardError::Unreachable)
}

/// Replaces the headers that identify the caller, and adds those of this server. The latter come last, since the caller
/// can have headers removed by naming them in `Connection`.
fn set_headers(
    headers: &mut HeaderMap,
    user: &User,
    audit_id: &str,
    mark: ForwardMark<'_>,
) -> Result<(), ForwardError> {
    identity::set(headers, user)
        .map_err(|why| ForwardError::Unreachable(format!("error trying to reach service: {why}")))?;
    match mark {
        ForwardMark::Hop(hop) if !hop.record(headers) => return Err(ForwardError::Loop),
        ForwardMark::Hop(_) => {}
        ForwardMark::PeerProxied => drop(headers.insert(PEER_PROXIED, HeaderValue::from_static("true"))),
    }
    if let Ok(id) = HeaderValue::from_str(audit_id) {
        headers.insert(AUDIT_ID, id);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::header::{CONNECTION, VIA};

    use super::*;

    #[test]
    fn callers_cannot_remove_headers_of_this_server() {
        let (hop, user) = (Hop::new(), User::new("ann", &[]));
        for (mark, name) in [(ForwardMark::Hop(&hop), VIA), (ForwardMark::PeerProxied, PEER_PROXIED)] {
            let mut headers = HeaderMap::new();
            let names = "via, x-kubernetes-peer-proxied, audit-id, x-remote-user";
            headers.insert(CONNECTION, HeaderValue::from_static(names));
            headers.insert(AUDIT_ID, HeaderValue::from_static("of the caller"));
            assert_eq!(set_headers(&mut headers, &user, "id", mark), Ok(()));
            // The proxy removes what `Connection` names.
            binnacle_streams::strip_connection_headers(&mut headers);
            assert!(headers.contains_key(&name), "{headers:?}");
            assert!(headers[AUDIT_ID] == "id" && headers["x-remote-user"] == "ann", "{headers:?}");
            let again = set_headers(&mut headers, &user, "id", mark);
            assert_eq!(again, if name == VIA { Err(ForwardError::Loop) } else { Ok(()) });
        }
    }
}
