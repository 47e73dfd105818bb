//! The configuration of a handler chain.

use std::sync::Arc;
use std::time::Duration;

use binnacle_audit::Auditor;
use binnacle_authz::Authorizer;
use binnacle_features::Features;
use binnacle_flowcontrol::FlowControl;
use binnacle_meta::Text;
use binnacle_request::Shutdown;
use http::HeaderValue;

use crate::filters::authenticate::Authentication;
use crate::filters::cors::Cors;
use crate::filters::inflight::{InFlightLimits, RequestQuota};
use crate::health::HasBeenReady;
use crate::traces::Tracer;
use crate::{FailureWriter, Metrics, Router};

/// The configuration of a chain.
pub struct ChainConfig {
    pub authentication: Authentication,
    pub authorizer: Arc<dyn Authorizer>,
    pub router: Router,
    pub failure: FailureWriter,
    pub metrics: Arc<Metrics>,
    pub features: Arc<Features>,
    pub shutdown: Shutdown,
    /// The time limit of a request that is not long-running (`--request-timeout`).
    pub request_timeout: Duration,
    pub options: ChainOptions,
}

/// Optional parts of a chain, all off by default.
#[derive(Default)]
pub struct ChainOptions {
    pub auditor: Option<Arc<Auditor>>,
    /// The caller that all requests of the chain are charged to, if the process serves other chains that must not lose
    /// their share. `None` charges each user.
    pub charged_to: Option<Text>,
    /// Annotations of every audit event.
    pub audit_annotations: Vec<(Text, Text)>,
    pub cors: Option<Cors>,
    /// The value of `Strict-Transport-Security`.
    pub hsts: Option<HeaderValue>,
    /// The fraction of requests whose HTTP/2 connection is closed after the response.
    pub goaway_chance: f64,
    /// Fixed limits on requests in flight; `None` with priority and fairness.
    pub limits: Option<InFlightLimits>,
    /// Limits on all requests of the chain together.
    pub quota: Option<Arc<RequestQuota>>,
    pub fairness: Option<Arc<FlowControl>>,
    /// Decides which requests are traced.
    pub tracer: Option<Arc<Tracer>>,
    /// Requests are rejected until this is true.
    pub has_been_ready: Option<HasBeenReady>,
    /// Fires when new requests should be sent to other servers.
    pub draining: Option<Shutdown>,
    /// Fires when the shutdown is initiated: HTTP/1 connections are then closed after their next response.
    pub shutdown_initiated: Option<Shutdown>,
}
