//! The policy and the backend, for the server's handler chain.

use std::sync::Arc;

use binnacle_request::{RequestInfo, User};
use bytes::Bytes;

use crate::metrics::Metrics;
use crate::policy::{Policy, RequestAuditConfig};
use crate::{Backend, Event};

/// Converts the body of a response with an API object to JSON, by its media type; returns `None` for other bodies.
/// Managed fields are dropped if `omit_managed_fields`.
pub type ObjectReader = fn(media_type: &str, body: &Bytes, omit_managed_fields: bool) -> Option<Bytes>;

/// Applies the policy to requests and records their events.
pub struct Auditor {
    policy: Policy,
    backend: Box<dyn Backend>,
    metrics: Metrics,
    read: ObjectReader,
}

impl Auditor {
    pub(crate) fn new(policy: Policy, backend: Box<dyn Backend>, metrics: Metrics, read: ObjectReader) -> Self {
        Self { policy, backend, metrics, read }
    }

    /// Returns the name of the backend, for the log and for tests.
    pub fn backend_name(&self) -> String {
        self.backend.name()
    }

    /// Waits until all events are processed.
    pub async fn shutdown(&self) {
        self.backend.shutdown().await;
    }

    pub(crate) fn evaluate(&self, info: &RequestInfo, user: Option<&User>) -> RequestAuditConfig {
        let config = self.policy.evaluate(info, user);
        self.metrics.level(config.level);
        config
    }

    pub(crate) async fn process(&self, event: Event) -> bool {
        self.metrics.event();
        self.backend.process(vec![Arc::new(event)]).await
    }

    pub(crate) fn rejected(&self) {
        self.metrics.rejected();
    }

    pub(crate) fn read(&self, media_type: &str, body: &Bytes, omit_managed_fields: bool) -> Option<Bytes> {
        (self.read)(media_type, body, omit_managed_fields)
    }
}
