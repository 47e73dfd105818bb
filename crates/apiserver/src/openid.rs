//! What lets others verify service account tokens (KEP-1393): where the keys are, and the keys.

use binnacle_endpoints::failure_response;
use binnacle_jwt::PublicKey;
use binnacle_meta::Status;
use binnacle_request::{Body, BoxFuture, Link, Preferences, Request, RequestInfo, Response};
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method};
use serde_json::{Value, json};

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/openid/v1/jwks";

/// Serves the two documents.
pub(crate) struct OpenIdLink {
    configuration: Bytes,
    keys: Bytes,
}

impl OpenIdLink {
    /// `keys_url` is where clients find the key set. An issuer that is no URL by OpenID's rules cannot be discovered,
    /// and the reason is returned.
    pub(crate) fn new(issuer: &str, keys_url: &str, keys: &[PublicKey]) -> Result<Self, String> {
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
        Ok(Self { configuration: configuration.into(), keys: keys.into() })
    }

    fn answer(&self, request: &Request) -> Response {
        if request.method != Method::GET {
            return failure_response(&Status::method_not_allowed(), &Preferences::of_request(request));
        }
        let (body, kind) = match request.info.path.trim_end_matches('/') {
            KEYS => (&self.keys, "application/jwk-set+json"),
            _ => (&self.configuration, "application/json"),
        };
        let mut response = Response::new(Body::full(body.clone()));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
        response
    }
}

/// An object with its members in kube-apiserver's order, which a map would sort.
fn ordered(members: &[(&str, Value)]) -> String {
    let members: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
    format!("{{{}}}", members.join(","))
}

fn key_text(key: &Value) -> String {
    const ORDER: [&str; 8] = ["use", "kty", "kid", "crv", "alg", "x", "y", "n"];
    let named = ORDER.iter().chain(&["e"]).filter_map(|name| Some((*name, key.get(name)?.clone())));
    ordered(&named.collect::<Vec<_>>())
}

/// Where the key set of a server is that clients reach at an address.
pub(crate) fn keys_url(address: &str) -> String {
    format!("https://{address}{KEYS}")
}

impl Link for OpenIdLink {
    fn claims(&self, info: &RequestInfo) -> bool {
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
    use super::*;

    #[test]
    fn issuers() {
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
            let made = OpenIdLink::new(issuer, url, &keys);
            assert_eq!(made.map(drop), want.map_err(str::to_owned), "{issuer}");
        }
        assert!(OpenIdLink::new("https://a", "https://b", &[]).is_err());
    }
}
