//! Export of traces: the configuration file of `--tracing-config-file`, and spans by OTLP over gRPC.
//!
//! Independent of the choice of traced requests and of the contents of spans.

mod config;
mod convert;
mod export;

pub use config::{ConfigError, TracingConfig};
pub use export::{Exporter, ExporterError};
