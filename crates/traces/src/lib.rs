//! Export of traces: the configuration file of `--tracing-config-file`, and spans by OTLP over gRPC.
//!
//! Knows nothing of which requests are traced, nor what spans contain.

mod config;
mod convert;
mod export;

pub use config::{ConfigError, TracingConfig};
pub use export::{Exporter, ExporterError};
