//! The client's preferences for error responses.

use http::header::{ACCEPT, USER_AGENT};
use http::{HeaderMap, HeaderValue};

use crate::{Query, Request};

/// The parts of a request that determine the encoding of an error response. Cheap to keep until an error occurs.
#[derive(Clone, Debug, Default)]
pub struct Preferences {
    pub accept: Option<HeaderValue>,
    /// True for indented JSON.
    pub pretty: bool,
}

impl Preferences {
    pub fn of(headers: &HeaderMap, query: &Query) -> Self {
        Self { accept: headers.get(ACCEPT).cloned(), pretty: pretty(headers, query) }
    }

    pub fn of_request(request: &Request) -> Self {
        Self::of(&request.headers, &request.query)
    }
}

/// Returns true for `?pretty=`, and for browsers and similar clients.
pub fn pretty(headers: &HeaderMap, query: &Query) -> bool {
    if let Some(value) = query.get("pretty").filter(|value| !value.is_empty()) {
        return matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    let agent = headers.get(USER_AGENT).map_or(&b""[..], HeaderValue::as_bytes);
    [&b"curl"[..], b"Wget", b"Mozilla/5.0"].iter().any(|prefix| agent.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indents_for_browsers_and_on_request() {
        for (agent, query, want) in [
            ("curl/7.88.1", "", true),
            ("Wget/1.21", "", true),
            ("Mozilla/5.0 (X11)", "", true),
            ("kubectl/v1.36", "", false),
            ("", "", false),
            ("curl/7.88.1", "pretty=false", false),
            ("curl/7.88.1", "pretty=", true),
            ("kubectl/v1.36", "pretty=true", true),
            ("kubectl/v1.36", "pretty=1", true),
            ("curl/7.88.1", "pretty=perhaps", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, HeaderValue::from_static(agent));
            assert_eq!(Preferences::of(&headers, &Query::parse(query)).pretty, want, "{agent} {query}");
        }
        assert!(!pretty(&HeaderMap::new(), &Query::default()));
    }
}
