//! Authentication of the caller, and removal of the credentials from the request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_authn::{Authenticator, AuthnError, Credentials, TOKEN_PROTOCOL, ignored_token};
use binnacle_meta::{Status, Text};
use binnacle_request::latency::Part;
use binnacle_request::{ConnectionInfo, Record, Response, User};
use binnacle_transport::Throttle;
use http::header::{AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL};
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::Metrics;
use crate::response::{CloseConnection, Rejection};

/// The standard headers in which authenticating proxies name a user. They are trusted only from such a proxy, and
/// removed for all later filters.
const PROXY_HEADERS: [&str; 3] = ["x-remote-user", "x-remote-uid", "x-remote-group"];
const PROXY_EXTRA_PREFIX: &str = "x-remote-extra-";

/// The number of failures after which an HTTP/1 connection is closed; HTTP/2 connections are closed after the first.
const MAX_FAILED_LOGINS: u32 = 10;

/// The configuration of authentication.
pub struct Authentication {
    pub authenticator: Arc<dyn Authenticator>,
    /// `--api-audiences`: the audiences of tokens for this server.
    pub audiences: Vec<Text>,
    /// Additional headers in which proxies name users, in lower case, and prefixes of such headers.
    pub proxy_headers: Vec<String>,
    pub proxy_prefixes: Vec<String>,
}

impl Authentication {
    /// Returns the configuration for an authenticator that needs neither audiences nor proxies.
    pub fn by(authenticator: Arc<dyn Authenticator>) -> Self {
        Self { authenticator, audiences: Vec::new(), proxy_headers: Vec::new(), proxy_prefixes: Vec::new() }
    }

    /// Removes the credentials, so that no later code can use them.
    fn strip(&self, headers: &mut HeaderMap) {
        headers.remove(AUTHORIZATION);
        for name in PROXY_HEADERS {
            headers.remove(name);
        }
        for name in &self.proxy_headers {
            headers.remove(name);
        }
        let named = |name: &str| {
            name.starts_with(PROXY_EXTRA_PREFIX) || self.proxy_prefixes.iter().any(|prefix| name.starts_with(prefix))
        };
        let extra: Vec<HeaderName> = headers.keys().filter(|name| named(name.as_str())).cloned().collect();
        for name in extra {
            headers.remove(name);
        }
        strip_token_protocol(headers);
    }
}

pub(crate) async fn authenticate(
    authentication: &Authentication,
    headers: &mut HeaderMap,
    connection: &ConnectionInfo,
    path: &str,
    record: &Record,
    metrics: &Metrics,
) -> Result<Arc<User>, Rejection> {
    let began = Instant::now();
    let accepted_audiences = authentication.audiences.as_slice();
    let credentials = Credentials { headers, connection, path, audiences: accepted_audiences };
    let mut result = authentication.authenticator.authenticate(credentials).await;
    if let Ok(Some(authenticated)) = &result
        && !accepted_audiences.is_empty()
        && !authenticated.audiences.is_empty()
        && !authenticated.audiences.iter().any(|audience| accepted_audiences.contains(audience))
    {
        result = Err(AuthnError(format!(
            "unable to match the audience: {:?} , accepted: {accepted_audiences:?}",
            authenticated.audiences
        )));
    }
    let took = began.elapsed();
    metrics.observe_authentication(&result, took);
    record.took(Part::Authentication, took);
    let is_anonymous = match &result {
        Ok(Some(authenticated)) => authenticated.user.name == User::ANONYMOUS,
        _ => true,
    };
    if is_anonymous && let Some(text) = ignored_token(headers) {
        record.note(|facts| facts.warnings.push(Text::new_static(text)));
    }
    let authenticated = match result {
        Ok(Some(authenticated)) => authenticated,
        failed => {
            // A caller that could not be authenticated for lack of memory gets a retriable error, not a 401.
            binnacle_work::check().map_err(Status::from)?;
            static FAILURES: Throttle = Throttle::every(Duration::from_secs(1));
            if let Err(error) = failed
                && let Some(more) = FAILURES.pass()
            {
                tracing::warn!(audit_id = %record.audit_id(), more, "Unable to authenticate the request: {error}");
            }
            let status = Status::unauthorized("Unauthorized");
            let closes = is_http2(connection) || connection.failed_login() >= MAX_FAILED_LOGINS;
            return Err(if closes { Rejection::StatusThenClose(status) } else { status.into() });
        }
    };
    authentication.strip(headers);
    if !is_anonymous {
        connection.identified();
    }
    record.note(|facts| {
        facts.user = Some(authenticated.user.clone());
        facts.warnings.extend(authenticated.notes.warnings);
    });
    for (key, value) in &authenticated.notes.annotations {
        record.annotate(key, value);
    }
    Ok(authenticated.user)
}

/// Removes the subprotocol with a token, and keeps those that can be negotiated.
fn strip_token_protocol(headers: &mut HeaderMap) {
    let offered = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        offered.flat_map(|line| line.split(',')).map(str::trim).partition(|name| name.starts_with(TOKEN_PROTOCOL));
    if tokens.is_empty() {
        return;
    }
    let others = HeaderValue::try_from(others.join(","));
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    if let Ok(others) = others {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, others);
    }
}

/// Returns true if the connection is closed after this response.
pub(crate) fn must_close(user: &User, connection: &ConnectionInfo) -> bool {
    is_http2(connection) && (user.name == User::ANONYMOUS || user.is_in(User::UNAUTHENTICATED))
}

pub(crate) fn close_connection_if(closes: bool, mut response: Response) -> Response {
    if closes {
        response.extensions_mut().insert(CloseConnection);
    }
    response
}

fn is_http2(connection: &ConnectionInfo) -> bool {
    connection.alpn.as_deref() == Some(b"h2")
}

#[cfg(test)]
mod tests {
    use super::*;

    struct RejectAll;

    impl Authenticator for RejectAll {
        fn authenticate<'a>(
            &'a self,
            _: Credentials<'a>,
        ) -> binnacle_request::BoxFuture<'a, Result<Option<binnacle_authn::AuthenticationResponse>, AuthnError>>
        {
            Box::pin(async { Ok(None) })
        }
    }

    #[test]
    fn strips_credentials() {
        let mut headers = HeaderMap::new();
        for name in [
            "authorization",
            "X-Remote-User",
            "x-remote-group",
            "x-remote-group",
            "x-remote-extra-a",
            "X-Remote-Extra-B",
            "x-remote-uid",
            "accept",
            "x-caller",
            "x-more-a",
        ] {
            headers.append(HeaderName::try_from(name).unwrap(), "x".parse().unwrap());
        }
        headers.append(SEC_WEBSOCKET_PROTOCOL, format!("a, {TOKEN_PROTOCOL}eA").parse().unwrap());
        headers.append(SEC_WEBSOCKET_PROTOCOL, "b".parse().unwrap());
        let mut authentication = Authentication::by(Arc::new(RejectAll));
        authentication.proxy_headers = vec!["x-caller".to_owned()];
        authentication.proxy_prefixes = vec!["x-more-".to_owned()];
        authentication.strip(&mut headers);
        assert_eq!(headers[SEC_WEBSOCKET_PROTOCOL], "a,b");
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }

    #[test]
    fn closes_http2_connections_of_anonymous_users() {
        let over = |alpn: &[u8]| ConnectionInfo::new(([127, 0, 0, 1], 1).into(), Vec::new(), Some(alpn.to_vec()));
        let anonymous = User::new(User::ANONYMOUS, &[User::UNAUTHENTICATED]);
        let somebody = User::new("a", &[User::AUTHENTICATED]);
        for (user, alpn, want) in
            [(&anonymous, &b"h2"[..], true), (&anonymous, b"http/1.1", false), (&somebody, b"h2", false)]
        {
            assert_eq!(must_close(user, &over(alpn)), want);
        }
    }
}
