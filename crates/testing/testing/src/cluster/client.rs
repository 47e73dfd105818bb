//! Requests to a server as its administrator.

use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};

use super::ClusterError;

/// The time limit of a request, on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The access of an administrator to a server.
#[derive(Clone)]
pub(super) struct Client {
    agent: Agent,
    url: String,
    pub(super) token: String,
}

/// The reason why a request failed.
pub(super) enum RequestError {
    /// The server refused it.
    Refused { code: StatusCode, message: String },
    /// The response did not arrive, or is not understood.
    Connection(Box<dyn std::error::Error + Send + Sync>),
}

impl Client {
    /// Creates a client that trusts the authorities `ca`, as PEM.
    pub(super) fn new(url: &str, token: &str, ca: &str) -> Result<Self, RequestError> {
        let mut trusted = Vec::new();
        for item in parse_pem(ca.as_bytes()) {
            if let PemItem::Certificate(certificate) = item? {
                trusted.push(certificate);
            }
        }
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::from(trusted))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            // The server is on this machine, whatever the environment says of proxies.
            .proxy(None)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .build();
        Ok(Self { agent: config.into(), url: url.to_owned(), token: token.to_owned() })
    }

    /// Sends a request, and returns the object in the response.
    pub(super) fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, RequestError> {
        let mut response = self.open(method, path, body)?;
        Ok(serde_json::from_str(&response.body_mut().read_to_string()?)?)
    }

    /// Waits for a later version of an object for which `is_last` is true, and returns it. The function gets the type of
    /// the change, and the object. `path` is that of its resource.
    pub(super) fn watch(
        &self,
        path: &str,
        version: &Value,
        is_last: impl Fn(&str, &Value) -> bool,
    ) -> Result<Value, RequestError> {
        let field = |name: &str| version["metadata"][name].as_str().unwrap_or_default();
        let (name, version) = (field("name"), field("resourceVersion"));
        let path = format!("{path}?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={version}");
        let response = self.open(Method::GET, &path, None)?;
        for line in BufReader::new(response.into_body().into_reader()).lines() {
            let mut event: Value = serde_json::from_str(&line?)?;
            let object = event["object"].take();
            match event["type"].as_str().unwrap_or_default() {
                "ERROR" => return Err(RequestError::Connection(message_in(&object).into())),
                change if is_last(change, &object) => return Ok(object),
                _ => {}
            }
        }
        Err(RequestError::Connection("the watch has ended".into()))
    }

    fn open(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Response<ureq::Body>, RequestError> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        let mut response = match body {
            Some(body) => self.agent.run(request.body(body.to_string())?),
            None => self.agent.run(request.body(())?),
        }?;
        if response.status().is_success() {
            return Ok(response);
        }
        let text = response.body_mut().read_to_string()?;
        let message = serde_json::from_str(&text).map(|status| message_in(&status)).unwrap_or(text);
        Err(RequestError::Refused { code: response.status(), message })
    }
}

fn message_in(status: &Value) -> String {
    status["message"].as_str().unwrap_or_default().to_owned()
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for RequestError {
    fn from(error: E) -> Self {
        Self::Connection(error.into())
    }
}

impl RequestError {
    /// Returns the error of a cluster with this name, if it is not generated.
    pub(super) fn of_cluster(self, name: Option<&str>) -> ClusterError {
        match (self, name) {
            (Self::Refused { code: StatusCode::CONFLICT, .. }, Some(name)) => {
                ClusterError::Exists { name: name.to_owned() }
            }
            (Self::Refused { message, .. }, name) => ClusterError::Refused { name: name.map(str::to_owned), message },
            (Self::Connection(error), _) => ClusterError::Connection(error),
        }
    }
}
