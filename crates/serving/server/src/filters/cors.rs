//! Cross-origin resource sharing as configured by operators (`--cors-allowed-origins`).

use std::sync::Arc;

use binnacle_request::{Body, Response};
use binnacle_validation::go_regexp;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ORIGIN,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use regex::Regex;

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE, PATCH");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
);
const HELP: &str = "List of allowed origins for CORS, comma separated. An allowed origin can be a regular expression to support \
                    subdomain matching. If this list is empty CORS will not be enabled. Please ensure each expression matches \
                    the entire hostname by anchoring to the start with '^' or including the '//' prefix, and by anchoring to \
                    the end with '$' or including the ':' port separator suffix. Examples of valid expressions are \
                    '//example\\.com(:|$)' and '^https://example\\.com(:|$)'";

/// The allowed origins.
#[derive(Clone, Debug)]
pub struct Cors(Arc<[Regex]>);

impl Cors {
    /// Returns the origins that match the regular expressions. Each must anchor the start and the end of the host
    /// (CVE-2022-1996).
    pub fn new(patterns: &[&str]) -> Result<Self, String> {
        let mut origins = Vec::new();
        for pattern in patterns {
            if pattern.is_empty() {
                return Err(format!("empty value in --cors-allowed-origins, help: {HELP}"));
            }
            let invalid =
                |why: String| format!("--cors-allowed-origins has an invalid regular expression: {why}, help: {HELP}");
            go_regexp::check(pattern).map_err(invalid)?;
            let origin = Regex::new(pattern).map_err(|error| invalid(error.to_string()))?;
            let begins = pattern.contains('^') || pattern.contains("//");
            let ends = pattern.contains('$') || pattern.contains(':');
            if !begins || !ends {
                let why = "regular expression does not pin to start/end of host in the origin header";
                return Err(invalid(why.to_owned()));
            }
            origins.push(origin);
        }
        Ok(Self(origins.into()))
    }

    /// Returns the origin of a request, if it is allowed.
    pub(crate) fn origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        let text = origin.to_str().ok()?;
        self.0.iter().any(|allowed| allowed.is_match(text)).then(|| origin.clone())
    }
}

/// Returns the response to a browser's preflight request, which is unauthenticated and reveals nothing about the
/// server.
pub(crate) fn preflight(method: &Method) -> Option<Response> {
    (method == Method::OPTIONS).then(|| {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    })
}

/// Allows scripts of the origin to read the response.
pub(crate) fn allow(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, METHODS);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("Date"));
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, HeaderValue::from_static("true"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_unanchored_patterns() {
        for (pattern, begin) in [
            ("", "empty value in --cors-allowed-origins, help: List"),
            (
                "example.com",
                "--cors-allowed-origins has an invalid regular expression: regular expression does not pin to start/end",
            ),
            ("//example.com", "--cors-allowed-origins has an invalid regular expression: regular expression does not"),
            ("^(:", "--cors-allowed-origins has an invalid regular expression: "),
        ] {
            let error = Cors::new(&[pattern]).unwrap_err();
            assert!(error.starts_with(begin), "{pattern}: {error}");
        }
    }

    #[test]
    fn allows_configured_origins_only() {
        let cors = Cors::new(&["//example\\.com(:|$)", "^https://.*\\.other\\.org$"]).unwrap();
        for (origin, allowed) in [
            ("https://example.com", true),
            ("http://example.com:8080", true),
            ("https://example.com.evil.org", false),
            ("https://a.other.org", true),
            ("https://other.org.evil", false),
            ("null", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ORIGIN, origin.parse().unwrap());
            assert_eq!(cors.origin(&headers).is_some(), allowed, "{origin}");
        }
        assert_eq!(cors.origin(&HeaderMap::new()), None);
        assert!(preflight(&Method::OPTIONS).is_some() && preflight(&Method::GET).is_none());
    }
}
