//! Requests to the server under test.

use std::net::SocketAddr;
use std::time::Duration;

use binnacle_testkit::TIMEOUT;
use binnacle_testkit::https::{Client, Handshake};
use http::{Response, Uri};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Map, Value};

use crate::answer::Answer;

/// The address of a server, and the client's credentials.
#[derive(Clone)]
pub struct Endpoint {
    pub address: SocketAddr,
    /// HTTP/1.1 without a client certificate, since some cases are anonymous.
    pub handshake: Handshake,
    /// A bearer token of `system:masters`.
    pub token: String,
}

/// A request as it is sent.
pub(crate) struct Outgoing {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: Map<String, Value>,
    pub(crate) data: Option<Vec<u8>>,
    /// The token that replaces the endpoint's; empty for an anonymous request.
    pub(crate) token: Option<String>,
}

impl Outgoing {
    /// Creates a request with a JSON body.
    pub(crate) fn json(method: &str, target: &str, body: &Value) -> Self {
        Self::patch(method, target, "application/json", body)
    }

    /// Creates a request with a body of another content type.
    pub(crate) fn patch(method: &str, target: &str, kind: &str, body: &Value) -> Self {
        let headers = [("Content-Type".to_owned(), Value::from(kind))].into_iter().collect();
        let data = Some(body.to_string().into_bytes());
        Self { method: method.to_owned(), target: target.to_owned(), headers, data, token: None }
    }

    pub(crate) fn empty(method: &str, target: &str) -> Self {
        Self { method: method.to_owned(), target: target.to_owned(), headers: Map::new(), data: None, token: None }
    }

    /// Returns the default headers, replaced or (by `null`) removed by those of the step.
    fn all_headers(&self, token: &str) -> Vec<(String, String)> {
        let token = self.token.as_deref().unwrap_or(token);
        let mut all = vec![
            ("User-Agent".to_owned(), "conformance/1.0".to_owned()),
            ("Accept".to_owned(), "application/json".to_owned()),
        ];
        if !token.is_empty() {
            all.push(("Authorization".to_owned(), format!("Bearer {token}")));
        }
        for (name, value) in &self.headers {
            all.retain(|(other, _)| other != name);
            let values = match value {
                Value::Null => &[],
                Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            all.extend(values.iter().map(|value| (name.clone(), crate::pointer::text(value))));
        }
        all
    }
}

/// A connection that is opened on demand, and again after the server has closed it.
pub(crate) struct Connection<'a> {
    endpoint: &'a Endpoint,
    open: Option<Client>,
}

impl<'a> Connection<'a> {
    pub(crate) fn new(endpoint: &'a Endpoint) -> Self {
        Self { endpoint, open: None }
    }

    /// Sends a request and reads the whole response.
    pub(crate) async fn request(&mut self, outgoing: &Outgoing) -> Result<Answer, String> {
        let sent = async {
            let kept = self.open.is_some();
            match self.attempt(outgoing).await {
                // A kept connection may just have been closed.
                Err(_) if kept => self.attempt(outgoing).await,
                done => done,
            }
        };
        let done = within(TIMEOUT, sent).await;
        if done.is_err() {
            self.open = None;
        }
        done.map_err(|error| format!("{} {}: {error}", outgoing.method, outgoing.target))
    }

    async fn attempt(&mut self, outgoing: &Outgoing) -> Result<Answer, String> {
        let mut client = match self.open.take() {
            Some(client) => client,
            None => connect(self.endpoint).await?,
        };
        let response = send(&mut client, self.endpoint, outgoing).await?;
        let last = response.headers().get("connection").is_some_and(|value| value == "close");
        let answer = read(response).await?;
        if !last {
            self.open = Some(client);
        }
        Ok(answer)
    }
}

/// Opens a separate connection for a streamed response.
pub(crate) async fn open(endpoint: &Endpoint, outgoing: &Outgoing) -> Result<(Client, Response<Incoming>), String> {
    within(TIMEOUT, async {
        let mut client = connect(endpoint).await?;
        let response = send(&mut client, endpoint, outgoing).await?;
        Ok((client, response))
    })
    .await
}

/// Reads a whole response.
pub(crate) async fn read(response: Response<Incoming>) -> Result<Answer, String> {
    let (parts, body) = response.into_parts();
    let data = body.collect().await.map_err(|error| error.to_string())?.to_bytes().to_vec();
    Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, data })
}

async fn connect(endpoint: &Endpoint) -> Result<Client, String> {
    Client::connect(endpoint.address, &endpoint.handshake).await
}

async fn send(client: &mut Client, endpoint: &Endpoint, outgoing: &Outgoing) -> Result<Response<Incoming>, String> {
    outgoing.target.parse::<Uri>().map_err(|error| error.to_string())?;
    let headers = outgoing.all_headers(&endpoint.token);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let data = outgoing.data.clone().unwrap_or_default();
    client.open(&outgoing.method, &outgoing.target, &headers, data).await
}

async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
}

/// Appends the query to the path.
pub(crate) fn target(path: &str, query: &Map<String, Value>) -> String {
    let mut out = path.to_owned();
    let mut separator = '?';
    for (name, value) in query {
        let values = value.as_array().map_or_else(|| std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            out.push(separator);
            separator = '&';
            escape(name, &mut out);
            out.push('=');
            escape(&crate::pointer::text(value), &mut out);
        }
    }
    out
}

/// Percent-encodes all bytes except unreserved ones.
fn escape(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            *out += &format!("%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Outgoing, target};

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
        let usual = |token: Option<&str>, headers: Value| {
            let mut outgoing = Outgoing::empty("GET", "/");
            outgoing.headers = headers.as_object().unwrap().clone();
            outgoing.token = token.map(str::to_owned);
            let all = outgoing.all_headers("t");
            all.into_iter().map(|(name, value)| format!("{name}: {value}")).collect::<Vec<_>>().join(", ")
        };
        for (token, headers, want) in [
            (None, json!({}), "User-Agent: conformance/1.0, Accept: application/json, Authorization: Bearer t"),
            (Some(""), json!({}), "User-Agent: conformance/1.0, Accept: application/json"),
            (Some("u"), json!({"Accept": null}), "User-Agent: conformance/1.0, Authorization: Bearer u"),
            (Some(""), json!({"Accept": "a", "X": ["1", "2"]}), "User-Agent: conformance/1.0, Accept: a, X: 1, X: 2"),
        ] {
            assert_eq!(usual(token, headers), want);
        }
    }
}
