//! The `--audit-*` options.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binnacle_egress::Dialer;

use crate::spill::SpillOptions;

/// All audit options. By default nothing is audited.
#[derive(Clone, Debug, Default)]
pub struct AuditOptions {
    /// Nothing is audited if absent.
    pub policy_file: Option<PathBuf>,
    pub log: Option<LogOptions>,
    pub webhook: Option<WebhookOptions>,
}

#[derive(Clone, Debug)]
pub struct LogOptions {
    /// `-` for standard output.
    pub path: PathBuf,
    /// Zero for no limit, like `max_backups`.
    pub max_age_days: u64,
    pub max_backups: usize,
    /// Zero to never rotate the file.
    pub max_size_mb: u64,
    pub format: LogFormat,
    pub compress: bool,
    pub mode: Mode,
    pub batch: BatchOptions,
    pub truncate: TruncateOptions,
}

#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// A file in kubeconfig format.
    pub config_file: PathBuf,
    pub initial_backoff: Duration,
    pub mode: Mode,
    pub batch: BatchOptions,
    pub truncate: TruncateOptions,
    /// The dialer for calls; connections are direct if absent.
    pub dialer: Option<Arc<Dialer>>,
    /// Where to spill events that do not fit into the queue; they are lost if absent. Only for [`Mode::Batch`].
    pub spill: Option<SpillOptions>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Legacy,
}

/// How requests wait for their events (`--audit-*-mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Requests never wait: events are queued.
    Batch,
    /// Requests wait until their events are processed.
    Blocking,
    /// Requests wait, and are rejected if their `RequestReceived` event cannot be processed.
    BlockingStrict,
}

/// The options of the queue for [`Mode::Batch`].
#[derive(Clone, Debug)]
pub struct BatchOptions {
    /// Maximum number of events in it.
    pub buffer_size: usize,
    /// Maximum number of events in it.
    pub max_batch_size: usize,
    /// The maximum time that the first event of a batch waits for more events.
    pub max_batch_wait: Duration,
    pub throttle_enable: bool,
    /// Batches per second.
    pub throttle_qps: f32,
    pub throttle_burst: usize,
}

#[derive(Clone, Debug)]
pub struct TruncateOptions {
    pub enabled: bool,
    /// In bytes, like `max_batch_size`.
    pub max_event_size: usize,
    pub max_batch_size: usize,
}

impl LogFormat {
    pub const ALLOWED: &str = "legacy,json";

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "json" => Some(Self::Json),
            "legacy" => Some(Self::Legacy),
            _ => None,
        }
    }
}

impl Mode {
    pub const ALLOWED: &str = "batch,blocking,blocking-strict";

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "batch" => Some(Self::Batch),
            "blocking" => Some(Self::Blocking),
            "blocking-strict" => Some(Self::BlockingStrict),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;

    pub(crate) fn log_options(path: &Path) -> LogOptions {
        LogOptions {
            path: path.to_owned(),
            max_age_days: 0,
            max_backups: 0,
            max_size_mb: 100,
            format: LogFormat::Json,
            compress: false,
            mode: Mode::Blocking,
            batch: BatchOptions {
                buffer_size: 10,
                max_batch_size: 1,
                max_batch_wait: Duration::ZERO,
                throttle_enable: false,
                throttle_qps: 0.0,
                throttle_burst: 0,
            },
            truncate: TruncateOptions { enabled: false, max_event_size: 100, max_batch_size: 1000 },
        }
    }
}
