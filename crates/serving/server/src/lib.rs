//! The generic API server: handler chain, health, metrics, graceful shutdown. It is independent of kinds and serves the
//! handlers that it is configured with; `binnacle-transport` provides its connections.

mod canary;
mod chain;
mod chain_config;
mod compress;
mod debug;
mod duration;
mod exposition;
mod filters;
mod flow_dump;
mod health;
mod held_resources;
mod impersonation;
mod inflight;
mod metrics;
mod process;
mod request_context;
mod response;
mod router;
mod seats;
mod server;
mod slis;
mod slow_requests;
mod timings;
mod traces;
mod tracked_body;
mod version;

pub use canary::{Canary, CanaryTimes};
pub use chain::Chain;
pub use chain_config::{ChainConfig, ChainOptions};
pub use debug::{
    ConfigPage, DebugFlag, DebugFlagsHandler, DebugSocket, DebugTextHandler, HeapProfile, LogsHandler, PprofHandler,
    ZPagesHandler,
};
pub use filters::authenticate::Authentication;
pub use filters::cors::Cors;
pub use filters::inflight::{InFlightLimits, RequestLimits, RequestQuota};
pub use flow_dump::FlowDumpHandler;
pub use health::{HasBeenReady, Health, HealthCheck, LogCheck, PingCheck, ShutdownCheck};
pub use inflight::InFlight;
pub use metrics::{InFlightCounts, Metrics, MetricsHandler};
pub use process::ProcessUsage;
pub use response::{FailureWriter, json_failure};
pub use router::Router;
pub use server::{Server, ShutdownConfig};
pub use slis::{HealthMetrics, HealthMetricsHandler};
pub use slow_requests::SLOW_REQUESTS;
pub use traces::Tracer;
pub use tracked_body::TrackedBody;
pub use version::{Build, KUBERNETES_VERSION, VersionHandler};
