//! Calls to a plugin, with metrics.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use binnacle_egress::plugin::{CallError, Plugin};
use prost::Message;

use crate::metrics::Metrics;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(string, tag = "2")]
    pub healthz: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DecryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
    #[prost(string, tag = "3")]
    pub key_id: String,
    #[prost(map = "string, bytes", tag = "4")]
    pub annotations: HashMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub uid: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub ciphertext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub key_id: String,
    #[prost(map = "string, bytes", tag = "3")]
    pub annotations: HashMap<String, Vec<u8>>,
}

/// A client of a plugin's socket.
pub(crate) struct Client {
    plugin: Plugin,
    timeout: Duration,
    /// The name of the provider.
    name: String,
    metrics: Metrics,
}

impl Client {
    pub(crate) fn new(name: &str, socket: &str, timeout: Duration, metrics: &Metrics) -> Self {
        Self { plugin: Plugin::new(socket), timeout, name: name.to_owned(), metrics: metrics.clone() }
    }

    pub(crate) async fn status(&self) -> Result<StatusResponse, CallError> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {}).await
    }

    pub(crate) async fn encrypt(&self, request: EncryptRequest) -> Result<EncryptResponse, CallError> {
        self.call("/v2.KeyManagementService/Encrypt", request).await
    }

    pub(crate) async fn decrypt(&self, request: DecryptRequest) -> Result<DecryptResponse, CallError> {
        self.call("/v2.KeyManagementService/Decrypt", request).await
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let started = Instant::now();
        let response = self.plugin.call(path, request, self.timeout).await;
        self.metrics.record_call(&self.name, path, started, response.as_ref().err().map(|error| error.code));
        response
    }
}
