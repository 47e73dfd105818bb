//! The documents for verifying service account tokens (KEP-1393): the discovery document and the key set.

use std::sync::Arc;

use binnacle_endpoints::failure_response;
use binnacle_jwt::PublicKey;
use binnacle_meta::Status;
use binnacle_request::{Body, BoxFuture, Handler, Preferences, Request, RequestInfo, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method};
use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::signing::PublishedKeys;

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

/// The handler of the two documents.
pub(crate) struct OpenIdHandler {
    issuer: String,
    keys_url: String,
    keys: Arc<dyn PublishedKeys>,
    documents: RwLock<Arc<Documents>>,
}

/// Both documents, for one generation of the keys.
#[derive(Clone)]
struct Documents {
    generation: u64,
    configuration: Bytes,
    keys: Bytes,
}

impl OpenIdHandler {
    /// Creates the handler; `keys_url` is the URL of the key set. An issuer that is not a URL by OpenID's rules has no
    /// documents; the error is the reason.
    pub(crate) fn new(issuer: &str, keys_url: &str, keys: Arc<dyn PublishedKeys>) -> Result<Self, String> {
        let Some(rest) = issuer.strip_prefix("https://") else {
            return Err(format!("issuer URL must use https scheme, got: {issuer}"));
        };
        if rest.contains('?') {
            return Err(format!("issuer URL may not include a query, got: {issuer}"));
        }
        if rest.contains('#') {
            return Err(format!("issuer URL may not include a fragment, got: {issuer}"));
        }
        if !keys_url.starts_with("https://") {
            return Err(format!("jwksURI requires https scheme, parsed as: {keys_url}"));
        }
        let (generation, published) = keys.published();
        let documents = RwLock::new(Arc::new(Documents::new(issuer, keys_url, generation, &published)?));
        Ok(Self { issuer: issuer.to_owned(), keys_url: keys_url.to_owned(), keys, documents })
    }

    /// Returns the documents of the current keys; if these cannot be published, the previous keys' documents.
    fn documents(&self) -> Arc<Documents> {
        let documents = self.documents.read().clone();
        if documents.generation == self.keys.generation() {
            return documents;
        }
        let (generation, keys) = self.keys.published();
        let documents = Documents::new(&self.issuer, &self.keys_url, generation, &keys).unwrap_or_else(|why| {
            tracing::error!(err = why, "failed to update openid config metadata");
            Documents { generation, ..(*documents).clone() }
        });
        let documents = Arc::new(documents);
        *self.documents.write() = documents.clone();
        documents
    }

    fn answer(&self, request: &Request) -> Response {
        if request.method != Method::GET {
            return failure_response(&Status::method_not_allowed(), &Preferences::of_request(request));
        }
        let documents = self.documents();
        let (body, kind) = match request.info.path.trim_end_matches('/') {
            KEYS => (&documents.keys, "application/jwk-set+json"),
            _ => (&documents.configuration, "application/json"),
        };
        let mut response = Response::new(Body::full(body.clone()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        let age = format!("public, max-age={}", self.keys.max_age());
        if let Ok(age) = HeaderValue::from_str(&age) {
            response.headers_mut().insert(CACHE_CONTROL, age);
        }
        response
    }
}

impl Documents {
    fn new(issuer: &str, keys_url: &str, generation: u64, keys: &[PublicKey]) -> Result<Self, String> {
        if keys.is_empty() {
            return Err("no keys provided for validating keyset".to_owned());
        }
        let mut algorithms: Vec<&str> = keys.iter().map(|key| key.algorithm().name()).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        let configuration = ordered(&[
            ("issuer", json!(issuer)),
            ("jwks_uri", json!(keys_url)),
            ("response_types_supported", json!(["id_token"])),
            ("subject_types_supported", json!(["public"])),
            ("id_token_signing_alg_values_supported", json!(algorithms)),
        ]);
        let keys: Vec<String> = keys.iter().map(|key| key_text(&key.to_jwk())).collect();
        let keys = format!("{{\"keys\":[{}]}}", keys.join(","));
        Ok(Self { generation, configuration: configuration.into(), keys: keys.into() })
    }
}

/// Formats an object with its members in kube-apiserver's order; a map would sort them.
fn ordered(members: &[(&str, Value)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn key_text(key: &Value) -> String {
    const ORDER: [&str; 8] = ["use", "kty", "kid", "crv", "alg", "x", "y", "n"];
    let named = ORDER.iter().chain(&["e"]).filter_map(|name| Some((*name, key.get(name)?.clone())));
    ordered(&named.collect::<Vec<_>>())
}

/// Returns the URL of a server's key set for the server's external address.
pub(crate) fn keys_url(address: &str) -> String {
    format!("https://{address}{KEYS}")
}

impl Handler for OpenIdHandler {
    fn matches(&self, info: &RequestInfo) -> bool {
        matches!(info.path.trim_end_matches('/'), CONFIGURATION | KEYS)
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move { self.answer(&request) })
    }

    fn paths(&self) -> Vec<String> {
        vec![CONFIGURATION.to_owned(), KEYS.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use binnacle_authn::service_account::FixedKeys;

    use super::*;

    #[test]
    fn rejects_issuers_without_https_url() {
        let key = rcgen::KeyPair::generate().unwrap().public_key_pem();
        let keys = binnacle_jwt::public_from_pem(key.as_bytes()).unwrap();
        for (issuer, url, want) in [
            ("https://kubernetes.default.svc", "https://h/k", Ok(())),
            ("http://a", "https://h/k", Err("issuer URL must use https scheme, got: http://a")),
            ("kubernetes", "https://h/k", Err("issuer URL must use https scheme, got: kubernetes")),
            ("https://a?b", "https://h/k", Err("issuer URL may not include a query, got: https://a?b")),
            ("https://a#b", "https://h/k", Err("issuer URL may not include a fragment, got: https://a#b")),
            ("https://a", "http://h/k", Err("jwksURI requires https scheme, parsed as: http://h/k")),
        ] {
            let documents = OpenIdHandler::new(issuer, url, Arc::new(FixedKeys(keys.clone())));
            assert_eq!(documents.map(drop), want.map_err(str::to_owned), "{issuer}");
        }
        assert!(OpenIdHandler::new("https://a", "https://b", Arc::new(FixedKeys(Vec::new()))).is_err());
    }
}
