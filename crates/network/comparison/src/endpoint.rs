//! A server to compare: its address, its TLS settings, and the credentials of requests.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use binnacle_client::path::escape;
use binnacle_client::{ConnectionOptions, Pool, PooledAnswer};
use binnacle_request::Body;
use binnacle_webhook::{Credential, Target, tls_config};
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderName, HeaderValue, Method, Request, Uri};
use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::pointer::text;

/// The time limit of a request, its response included.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a response.
pub(crate) const MAX_ANSWER: usize = 64 << 20;
/// The bytes that are never percent-encoded, besides letters and digits.
pub(crate) const UNRESERVED: &[u8] = b"_.-~";

/// A server, and the credentials of requests to it. Clones share connections.
#[derive(Clone)]
pub struct Endpoint {
    /// `host:port`.
    address: String,
    host: HeaderValue,
    /// The path of the server's URL, without a slash at its end.
    prefix: String,
    pool: Arc<Pool>,
    /// Connections without a client certificate, for anonymous requests and those with a token of their own.
    bare: Arc<Pool>,
    credential: Credential,
}

/// A request as it is sent.
#[derive(Clone, Debug, Default)]
pub struct Outgoing {
    pub method: String,
    /// The path and query.
    pub target: String,
    /// Headers that replace the default ones; `null` removes one.
    pub headers: Map<String, Value>,
    pub data: Option<Vec<u8>>,
    /// The token that replaces the endpoint's credentials; empty for an anonymous request.
    pub token: Option<String>,
}

impl Endpoint {
    /// Creates an endpoint for the server of a kubeconfig file, or for another target.
    ///
    /// # Errors
    /// If the URL is not an `https` one, or if a certificate or key cannot be read.
    pub fn new(target: &Target) -> Result<Self, String> {
        if target.url.scheme_str() != Some("https") {
            return Err(format!("{}: the URL must begin with https://", target.url));
        }
        let host = target.url.host().unwrap_or_default();
        let address = format!("{host}:{}", target.url.port_u16().unwrap_or(443));
        let bare_host = host.trim_start_matches('[').trim_end_matches(']');
        let name = target.server_name.clone().unwrap_or_else(|| bare_host.to_owned());
        let pool = |target: &Target| {
            let config = tls_config(target).map_err(|error| error.to_string())?;
            Ok::<_, String>(Pool::new(Arc::new(config), name.clone(), ConnectionOptions::default()))
        };
        let with_identity = pool(target)?;
        let bare = match target.identity {
            Some(_) => pool(&Target { identity: None, ..target.clone() })?,
            None => with_identity.clone(),
        };
        Ok(Self {
            host: HeaderValue::from_str(&address).map_err(|error| format!("{address}: {error}"))?,
            address,
            prefix: target.url.path().trim_end_matches('/').to_owned(),
            pool: with_identity,
            bare,
            credential: target.credential.clone(),
        })
    }

    /// Returns `host:port`.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Sends a request and reads the whole response.
    ///
    /// # Errors
    /// If the server cannot be reached, or if the response does not arrive in time or is too large.
    pub async fn request(&self, outgoing: &Outgoing) -> Result<Answer, String> {
        self.request_within(outgoing, TIMEOUT, MAX_ANSWER).await
    }

    /// Like [`Endpoint::request`], with other limits for the time and the size of the response.
    ///
    /// # Errors
    /// Those of [`Endpoint::request`].
    pub async fn request_within(
        &self,
        outgoing: &Outgoing,
        timeout: Duration,
        max_bytes: usize,
    ) -> Result<Answer, String> {
        let sent = async { read(self.send(outgoing).await?, max_bytes).await };
        let done = tokio::time::timeout(timeout, sent).await;
        let done = done.unwrap_or_else(|_| Err(format!("no response within {timeout:?}")));
        done.map_err(|error| format!("{} {}: {error}", outgoing.method, outgoing.target))
    }

    /// Sends a request whose response is streamed.
    pub(crate) async fn open(&self, outgoing: &Outgoing) -> Result<PooledAnswer, String> {
        let opened = tokio::time::timeout(TIMEOUT, self.send(outgoing)).await;
        opened.unwrap_or_else(|_| Err(format!("no response within {TIMEOUT:?}")))
    }

    async fn send(&self, outgoing: &Outgoing) -> Result<PooledAnswer, String> {
        let method = Method::from_bytes(outgoing.method.as_bytes()).map_err(|error| error.to_string())?;
        let target = format!("{}{}", self.prefix, outgoing.target);
        let uri: Uri = target.parse().map_err(|error: http::uri::InvalidUri| error.to_string())?;
        let body = outgoing.data.clone().map_or_else(Body::empty, Body::from);
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        headers.insert(HOST, self.host.clone());
        if let Some(mut value) = self.authorization(outgoing)? {
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        for (name, value) in outgoing.all_headers() {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| format!("{name}: {error}"))?;
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).map_err(|error| error.to_string())?);
        }
        let pool = if outgoing.token.is_some() { &self.bare } else { &self.pool };
        pool.send(&self.address, request).await.map_err(|error| error.to_string())
    }

    /// Returns the value of the header `Authorization`, unless the request has one.
    fn authorization(&self, outgoing: &Outgoing) -> Result<Option<HeaderValue>, String> {
        if outgoing.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            return Ok(None);
        }
        let text = match (&outgoing.token, &self.credential) {
            (Some(token), _) if token.is_empty() => return Ok(None),
            (Some(token), _) | (None, Credential::Bearer(token)) => format!("Bearer {token}"),
            (None, Credential::BearerFile(path)) => {
                let token = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                format!("Bearer {}", token.trim())
            }
            (None, Credential::Basic { username, password }) => {
                format!("Basic {}", BASE64_STANDARD.encode(format!("{username}:{password}")))
            }
            (None, Credential::None) => return Ok(None),
        };
        HeaderValue::from_str(&text).map(Some).map_err(|_| "a token that is no header value".to_owned())
    }
}

impl Outgoing {
    /// Creates a request with a JSON body.
    pub fn json(method: &str, target: &str, body: &Value) -> Self {
        Self::patch(method, target, "application/json", body)
    }

    /// Creates a request with a body of another content type.
    pub fn patch(method: &str, target: &str, kind: &str, body: &Value) -> Self {
        let headers = [("Content-Type".to_owned(), Value::from(kind))].into_iter().collect();
        Self { headers, data: Some(body.to_string().into_bytes()), ..Self::empty(method, target) }
    }

    pub fn empty(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), ..Self::default() }
    }

    /// Returns the default headers, replaced or (by `null`) removed by those of the request.
    fn all_headers(&self) -> Vec<(String, String)> {
        let mut all = vec![
            ("User-Agent".to_owned(), "conformance/1.0".to_owned()),
            ("Accept".to_owned(), "application/json".to_owned()),
        ];
        for (name, value) in &self.headers {
            all.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            let values = match value {
                Value::Null => &[],
                Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            all.extend(values.iter().map(|value| (name.clone(), text(value))));
        }
        all
    }
}

async fn read(response: PooledAnswer, max_bytes: usize) -> Result<Answer, String> {
    let (parts, body) = response.into_parts();
    let data = Body::new(body).read(max_bytes).await.map_err(|error| error.to_string())?;
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, data })
}

/// Appends the query to the path.
pub(crate) fn target(path: &str, query: &Map<String, Value>) -> String {
    let mut out = path.to_owned();
    for (name, value) in query {
        let values = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            add_parameter(&mut out, name, &text(value));
        }
    }
    out
}

/// Appends a parameter to a path and query.
pub(crate) fn add_parameter(target: &mut String, name: &str, value: &str) {
    target.push(if target.contains('?') { '&' } else { '?' });
    *target += &format!("{}={}", escape(name, UNRESERVED), escape(value, UNRESERVED));
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Endpoint, Outgoing, target};
    use binnacle_webhook::{Credential, Target};

    #[test]
    fn escapes_queries() {
        for (query, want) in [
            (json!({}), "/x"),
            (json!({"limit": 5, "a": "b c"}), "/x?a=b%20c&limit=5"),
            (json!({"labelSelector": "a in (b,c),ä=~_.-"}), "/x?labelSelector=a%20in%20%28b%2Cc%29%2C%C3%A4%3D~_.-"),
            (json!({"a": ["1", "2"]}), "/x?a=1&a=2"),
        ] {
            assert_eq!(target("/x", query.as_object().unwrap()), want);
        }
    }

    #[test]
    fn steps_replace_default_headers() {
        for (headers, want) in [
            (json!({}), "User-Agent: conformance/1.0, Accept: application/json"),
            (json!({"Accept": null}), "User-Agent: conformance/1.0"),
            (json!({"accept": "a", "X": ["1", "2"]}), "User-Agent: conformance/1.0, X: 1, X: 2, accept: a"),
        ] {
            let outgoing = Outgoing { headers: headers.as_object().unwrap().clone(), ..Outgoing::empty("GET", "/") };
            let mut all = outgoing.all_headers();
            all.sort_by_key(|(name, _)| name != "User-Agent");
            let all: Vec<String> = all.into_iter().map(|(name, value)| format!("{name}: {value}")).collect();
            assert_eq!(all.join(", "), want);
        }
    }

    #[test]
    fn tokens_of_requests_replace_credentials() {
        let mut of_server = Target::new("https://a:1/prefix/").unwrap();
        of_server.credential = Credential::Bearer("own".to_owned());
        let endpoint = Endpoint::new(&of_server).unwrap();
        assert_eq!((endpoint.address(), endpoint.prefix.as_str()), ("a:1", "/prefix"));
        let sent = |token: Option<&str>, headers: Value| {
            let headers = headers.as_object().unwrap().clone();
            let outgoing = Outgoing { token: token.map(str::to_owned), headers, ..Outgoing::empty("GET", "/") };
            endpoint.authorization(&outgoing).unwrap().map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(sent(None, json!({})).as_deref(), Some("Bearer own"));
        assert_eq!(sent(Some("t"), json!({})).as_deref(), Some("Bearer t"));
        assert_eq!(sent(Some(""), json!({})), None);
        assert_eq!(sent(None, json!({"authorization": "Bearer x"})), None);
        assert!(Endpoint::new(&Target::new("http://a:1").unwrap()).is_err());
    }
}
