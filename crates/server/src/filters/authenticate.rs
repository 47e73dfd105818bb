//! Finds out who is calling, and takes the credentials out of the request.

use std::sync::Arc;
use std::time::Instant;

use binnacle_authn::{Authenticator, Credentials};
use binnacle_meta::Status;
use binnacle_request::{ConnectionInfo, Record, Response, User};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};

use crate::Metrics;
use crate::answer::{CloseConnection, Refusal};

/// The headers in which an authenticating proxy names a user. They are believed from such a proxy only, and nobody behind
/// this filter may see them.
const PROXY_HEADERS: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const PROXY_EXTRA_PREFIX: &str = "x-remote-extra-";

pub(crate) async fn caller(
    authenticator: &dyn Authenticator,
    headers: &mut HeaderMap,
    connection: &ConnectionInfo,
    record: &Record,
    metrics: &Metrics,
) -> Result<Arc<User>, Refusal> {
    let began = Instant::now();
    let result = authenticator.authenticate(Credentials { headers, connection }).await;
    metrics.authenticated(&result, began.elapsed());
    let user = match result {
        Ok(Some(user)) => user,
        failed => {
            if let Err(error) = failed {
                tracing::warn!(audit_id = %record.audit_id(), "Unable to authenticate the request: {error}");
            }
            let status = Status::unauthorized("Unauthorized");
            return Err(if is_http2(connection) { Refusal::StatusThenClose(status) } else { status.into() });
        }
    };
    strip(headers);
    record.note(|facts| facts.user = Some(user.clone()));
    Ok(user)
}

/// Whether the connection ends with this answer.
pub(crate) fn must_leave(user: &User, connection: &ConnectionInfo) -> bool {
    is_http2(connection) && (user.name == User::ANONYMOUS || user.is_in(User::UNAUTHENTICATED))
}

pub(crate) fn leave(leaves: bool, mut response: Response) -> Response {
    if leaves {
        response.extensions_mut().insert(CloseConnection);
    }
    response
}

fn is_http2(connection: &ConnectionInfo) -> bool {
    connection.alpn.as_deref() == Some(b"h2")
}

fn strip(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    for name in PROXY_HEADERS {
        headers.remove(name);
    }
    let extra: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(PROXY_EXTRA_PREFIX)).cloned().collect();
    for name in extra {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_do_not_travel_on() {
        let mut headers = HeaderMap::new();
        for name in
            ["authorization", "x-remote-user", "x-remote-group", "x-remote-extra-a", "x-remote-extra-b", "accept"]
        {
            headers.append(HeaderName::from_static(name), "x".parse().unwrap());
        }
        strip(&mut headers);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn who_must_leave() {
        let over = |alpn: &[u8]| ConnectionInfo::new(([127, 0, 0, 1], 1).into(), Vec::new(), Some(alpn.to_vec()));
        let anonymous = User::new(User::ANONYMOUS, &[User::UNAUTHENTICATED]);
        let somebody = User::new("a", &[User::AUTHENTICATED]);
        for (user, alpn, want) in
            [(&anonymous, &b"h2"[..], true), (&anonymous, b"http/1.1", false), (&somebody, b"h2", false)]
        {
            assert_eq!(must_leave(user, &over(alpn)), want);
        }
    }
}
