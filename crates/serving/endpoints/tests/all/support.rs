//! The API with an in-memory store, and requests to it.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_authz::{AlwaysAllow, Attributes, authorize_with_permit};
use binnacle_builtin::Releases;
use binnacle_discovery::Addresses;
use binnacle_endpoints::Api;
use binnacle_registry::admission::AdmitAll;
use binnacle_registry::{Catalog, Installer, StorageOptions};
use binnacle_request::{
    Body, ConnectionInfo, Handler, Query, Record, Request, RequestInfo, Shutdown, ShutdownTrigger, User,
};
use binnacle_store_embedded::EmbeddedStore;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use http_body_util::BodyExt;
use serde_json::Value as Json;

/// The API without authentication and authorization.
pub(crate) struct Server {
    api: Api,
    shutdown: Shutdown,
    /// Prevents the shutdown of the server.
    _trigger: ShutdownTrigger,
}

/// A response with its complete body.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl TestResponse {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Json {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    /// Returns the value at a pointer, or `null` if there is none.
    pub(crate) fn at(&self, pointer: &str) -> Json {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        let catalog = Catalog::new(binnacle_builtin::kinds(), Arc::default());
        let storage = StorageOptions::new(Arc::new(EmbeddedStore::ephemeral()));
        let installer = Installer::new(storage, Arc::new(AdmitAll), HashMap::new(), 1 << 20);
        let releases = Releases::default();
        let served = binnacle_builtin::served(releases, |_, description| description.feature_gate.is_none());
        binnacle_builtin::install(&catalog, &installer, served, releases);
        let addresses = Addresses { default: "localhost:6443".to_owned(), rules: Vec::new() };
        let (_trigger, shutdown) = ShutdownTrigger::new();
        Self { api: Api::new(catalog, HashMap::new(), addresses, Arc::new(AlwaysAllow)), shutdown, _trigger }
    }

    /// Sends a request: `request_line` is a method and a path with its query, `headers` are lines such as `accept:
    /// application/yaml`.
    pub(crate) async fn send(&self, request_line: &str, headers: &[&str], body: &str) -> TestResponse {
        let (method, target) = request_line.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let uri: Uri = target.parse().unwrap();
        let query = Query::parse(uri.query().unwrap_or_default());
        let info = Arc::new(RequestInfo::parse(&method, uri.path(), &query, target).unwrap());
        let user = Arc::new(User::new("somebody", &["system:authenticated"]));
        let (_, permit) = authorize_with_permit(&AlwaysAllow, &Attributes::of(&info, &user)).await.unwrap();
        let header = |line: &&str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.parse::<HeaderName>().unwrap(), value.parse::<HeaderValue>().unwrap())
        };
        let request = Request {
            headers: headers.iter().map(header).collect::<HeaderMap>(),
            body: Body::full(body.to_owned()),
            upgrade: None,
            info,
            query,
            user,
            permit: permit.unwrap(),
            connection: Arc::new(ConnectionInfo::default()),
            record: Record::open(method.clone(), target.into(), None, None),
            deadline: None,
            shutdown: self.shutdown.clone(),
            method,
            uri,
        };
        let response = self.api.handle(request).await;
        let all = |name: &str| -> Vec<String> {
            let values = response.headers().get_all(name).iter();
            values.map(|value| value.to_str().unwrap().to_owned()).collect()
        };
        let (kind, warnings) = (all("content-type").join(", "), all("warning"));
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map(|body| body.to_bytes().to_vec()).unwrap();
        TestResponse { status, kind, warnings, body }
    }

    /// Gets an object, with a header.
    pub(crate) async fn get(&self, path: &str, header: &str) -> TestResponse {
        self.send(&format!("GET {path}"), &[header], "").await
    }

    /// Creates config maps in the namespace `default`.
    pub(crate) async fn with_config_maps(self, names: &[&str]) -> Self {
        for name in names {
            let body =
                format!("{{\"metadata\":{{\"name\":\"{name}\",\"labels\":{{\"l\":\"v\"}}}},\"data\":{{\"k\":\"v\"}}}}");
            let response = self.send(&format!("POST {CONFIG_MAPS}"), &[], &body).await;
            assert_eq!(response.status, 201, "{}", response.text());
        }
        self
    }
}

pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
