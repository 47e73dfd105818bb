//! Hop-by-hop headers, and the headers of forwarded requests.

use std::net::SocketAddr;

use binnacle_request::Request;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, Uri};

const HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The hop-by-hop headers (RFC 9110, 7.6.1), which are not forwarded.
const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
    HeaderName::from_static("proxy-authorization"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Returns true if the request is an upgrade request.
pub fn is_upgrade(headers: &HeaderMap) -> bool {
    headers.get_all(CONNECTION).iter().any(|value| contains(value, "upgrade"))
}

/// Returns true if a request is a WebSocket handshake.
pub fn is_websocket(headers: &HeaderMap) -> bool {
    headers.get(UPGRADE).is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket")) && is_upgrade(headers)
}

/// Removes the headers that `Connection` names, and its options except `Upgrade`. This must precede the addition of the
/// server's own headers, which a client could name as well. Upgrades to another version of HTTP are not offered to
/// other servers: requests on such a connection would carry only the identity that the client gives them.
pub fn strip_connection_headers(headers: &mut HeaderMap) {
    let named = connection_options(headers);
    let is_upgrade = is_upgrade(headers) && !requests_http(headers);
    for name in named.iter().filter(|name| !HOP_BY_HOP.contains(name)).chain([&HTTP2_SETTINGS]) {
        headers.remove(name);
    }
    headers.remove(CONNECTION);
    if is_upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    }
}

/// Returns true if one of the protocols of an upgrade is HTTP or TLS.
fn requests_http(headers: &HeaderMap) -> bool {
    let is_http = |protocol: &[u8]| {
        let name = protocol.trim_ascii().split(|byte| *byte == b'/').next().unwrap_or_default().to_ascii_lowercase();
        matches!(name.as_slice(), b"h2" | b"h2c" | b"http" | b"tls")
    };
    headers.get_all(UPGRADE).iter().any(|value| value.as_bytes().split(|byte| *byte == b',').any(is_http))
}

/// Returns true if a response switches to SPDY.
pub(crate) fn upgrades_to_spdy(headers: &HeaderMap) -> bool {
    let has = |name, token| headers.get(name).is_some_and(|value| contains(value, token));
    has(CONNECTION, "upgrade") && has(UPGRADE, "spdy/3.1")
}

/// Returns the headers for forwarding an upgrade, including the hop-by-hop ones.
pub(crate) fn upgrade_headers(request: &Request) -> HeaderMap {
    let mut headers = request.headers.clone();
    complete_headers(&mut headers, &request.uri, request.connection.peer);
    headers
}

/// Removes the hop-by-hop headers.
pub fn strip_hop_by_hop(headers: &mut HeaderMap) {
    // The transfer encoding delimits the body; a Content-Length beside it is ignored (RFC 9112, 6.3).
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    for name in connection_options(headers).iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn connection_options(headers: &HeaderMap) -> Vec<HeaderName> {
    let values = headers.get_all(CONNECTION).iter();
    let names = values.flat_map(|value| value.as_bytes().split(|byte| *byte == b','));
    names.filter_map(|name| HeaderName::from_bytes(name.trim_ascii()).ok()).collect()
}

/// Adds Host, which HTTP/2 carries in the URI, and appends the client's address to X-Forwarded-For.
pub fn complete_headers(headers: &mut HeaderMap, uri: &Uri, peer: Option<SocketAddr>) {
    if !headers.contains_key(HOST)
        && let Some(authority) = uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        headers.insert(HOST, host);
    }
    // Only one user agent, like Go's client.
    match headers.remove(USER_AGENT) {
        Some(agent) if !agent.is_empty() => drop(headers.insert(USER_AGENT, agent)),
        _ => {}
    }
    let Some(peer) = peer else { return };
    let mut chain: Vec<String> =
        headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok().map(str::to_owned)).collect();
    chain.push(peer.ip().to_string());
    if let Ok(value) = HeaderValue::from_str(&chain.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
}

fn contains(value: &HeaderValue, token: &str) -> bool {
    value.to_str().is_ok_and(|value| value.to_ascii_lowercase().contains(token))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs =
            headers.iter().map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(name, value);
        }
        map
    }

    #[test]
    fn recognizes_upgrades_and_websockets() {
        for (headers, upgrade, websocket) in [
            (&[][..], false, false),
            (&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")], true, false),
            (&[("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")], true, true),
            (&[("connection", "close"), ("connection", "upgrade"), ("upgrade", "websocket")], true, true),
            (&[("upgrade", "websocket")], false, false),
        ] {
            let headers = map(headers);
            assert_eq!((is_upgrade(&headers), is_websocket(&headers)), (upgrade, websocket), "{headers:?}");
        }
    }

    #[test]
    fn strips_hop_by_hop_headers() {
        let mut headers = map(&[
            ("connection", "close, X-Mine"),
            ("x-mine", "1"),
            ("transfer-encoding", "chunked"),
            ("content-length", "2"),
            ("keep-alive", "5"),
            ("accept", "x"),
        ]);
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers, map(&[("accept", "x")]));
    }

    #[test]
    fn strips_headers_named_by_connection() {
        let upgrade = ("connection", "Upgrade");
        for (headers, want) in [
            (
                &[("connection", "X-Remote-User, Via"), ("x-remote-user", "a"), ("via", "b"), ("accept", "c")][..],
                &[("accept", "c")][..],
            ),
            (&[("connection", "close"), ("connection", "x-a"), ("x-a", "1"), ("close", "2")], &[]),
            (&[("connection", "TE"), ("te", "trailers")], &[("te", "trailers")]),
            (
                &[("connection", "keep-alive, Upgrade,x-a"), ("upgrade", "websocket"), ("x-a", "1")],
                &[upgrade, ("upgrade", "websocket")],
            ),
            (
                &[("connection", "Upgrade, HTTP2-Settings"), ("upgrade", "h2c"), ("http2-settings", "AAA")],
                &[("upgrade", "h2c")],
            ),
            (&[upgrade, ("upgrade", "websocket, HTTP/2.0")], &[("upgrade", "websocket, HTTP/2.0")]),
            (
                &[upgrade, ("upgrade", "websocket"), ("upgrade", "TLS/1.0")],
                &[("upgrade", "websocket"), ("upgrade", "TLS/1.0")],
            ),
            (&[upgrade, ("upgrade", "SPDY/3.1")], &[upgrade, ("upgrade", "SPDY/3.1")]),
        ] {
            let mut settled = map(headers);
            strip_connection_headers(&mut settled);
            assert_eq!(settled, map(want), "{headers:?}");
        }
    }

    #[test]
    fn adds_host_forwarded_for_and_one_user_agent() {
        let peer = Some(([10, 0, 0, 9], 1).into());
        let mut headers = map(&[("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "2.2.2.2")]);
        complete_headers(&mut headers, &"https://h:1/x".parse().unwrap(), peer);
        assert_eq!(headers, map(&[("x-forwarded-for", "1.1.1.1, 2.2.2.2, 10.0.0.9"), ("host", "h:1")]));
        for (agents, want) in [(&["a", "b"][..], &[("user-agent", "a")][..]), (&[""], &[]), (&[], &[])] {
            let mut headers = map(&agents.iter().map(|agent| ("user-agent", *agent)).collect::<Vec<_>>());
            complete_headers(&mut headers, &"/".parse().unwrap(), None);
            assert_eq!(headers, map(want), "{agents:?}");
        }
    }
}
