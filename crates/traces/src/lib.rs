//! Where traces go: the configuration file of `--tracing-config-file`, and the export of spans by OTLP over gRPC.
//!
//! Knows nothing of which requests are traced, and of what spans tell.

mod config;
mod convert;
mod export;

pub use config::{ConfigError, TracingConfig};
pub use export::{Exporter, ExporterError};
