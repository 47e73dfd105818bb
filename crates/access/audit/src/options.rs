//! The `--audit-*` options, their validation with kube-apiserver's messages, and the backends that they configure.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binnacle_egress::Dialer;
use binnacle_meta::io_error;
use binnacle_metrics::Registry;

use crate::auditor::{Auditor, ObjectReader};
use crate::backend::{Backend, IgnoreErrors, Union};
use crate::buffered::Buffered;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::policy::{Policy, PolicyError};
use crate::spill::{Spill, SpillMetrics, SpillOptions};
use crate::truncate::Truncate;
use crate::webhook::Webhook;

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

/// An error in the audit options.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    #[error("loading audit policy file: {0}")]
    Policy(#[from] PolicyError),
    #[error("ensureLogFile: {}", io_error(.0))]
    LogFile(std::io::Error),
    #[error("initializing audit webhook: {0}")]
    Webhook(String),
    #[error("opening the directory for audit events: {}", io_error(.0))]
    Spill(std::io::Error),
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
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

impl AuditOptions {
    /// Creates the auditor, if there is a policy and a backend. Spawns tasks on the current runtime.
    pub fn build(&self, registry: &Registry, read: ObjectReader) -> Result<Option<Auditor>, OptionsError> {
        // Registered even if nothing is audited, as in kube-apiserver.
        let metrics = Metrics::register(registry)?;
        let Some(policy_file) = &self.policy_file else {
            if self.log.is_some() || self.webhook.is_some() {
                tracing::warn!("No audit policy file provided, no events will be recorded");
            }
            return Ok(None);
        };
        let policy = Policy::load(policy_file)?;
        let mut backends: Vec<Box<dyn Backend>> = Vec::new();
        if let Some(log) = &self.log {
            let file = Log::open(log, metrics.clone()).map_err(OptionsError::LogFile)?;
            // Concurrent writes to the file would only wait for each other.
            let backend = with_mode(Box::new(file), log.mode, &log.batch, false, &metrics);
            backends.push(with_truncation(backend, &log.truncate, &metrics));
        }
        if let Some(webhook) = &self.webhook {
            let sender = Webhook::open(webhook, metrics.clone()).map_err(OptionsError::Webhook)?;
            let spill = match &webhook.spill {
                Some(options) => Some(open_spill(options, &sender, &webhook.batch, registry)?),
                None => None,
            };
            let backend: Box<dyn Backend> = match (webhook.mode, spill) {
                (Mode::Batch, Some(spill)) => {
                    let queue = Buffered::new(Box::new(sender), &webhook.batch, true, metrics.clone());
                    Box::new(queue.with_spill(spill))
                }
                (mode, _) => with_mode(Box::new(sender), mode, &webhook.batch, true, &metrics),
            };
            backends.push(with_truncation(backend, &webhook.truncate, &metrics));
        }
        let backend: Box<dyn Backend> = match backends.len() {
            0 => return Ok(None),
            1 => backends.remove(0),
            _ => Box::new(Union(backends)),
        };
        tracing::info!("Using audit backend: {}", backend.name());
        Ok(Some(Auditor::new(policy, backend, metrics, read)))
    }
}

/// Opens the spill directory, and starts to send the events that are in it.
fn open_spill(
    options: &SpillOptions,
    sender: &Webhook,
    batch: &BatchOptions,
    registry: &Registry,
) -> Result<Spill, OptionsError> {
    let spill = Spill::open(options, SpillMetrics::register(registry)?).map_err(OptionsError::Spill)?;
    spill.send_to(Arc::new(sender.clone()), batch.max_batch_size);
    Ok(spill)
}

fn with_mode(
    backend: Box<dyn Backend>,
    mode: Mode,
    batch: &BatchOptions,
    concurrent: bool,
    metrics: &Metrics,
) -> Box<dyn Backend> {
    match mode {
        Mode::BlockingStrict => backend,
        Mode::Blocking => Box::new(IgnoreErrors(backend)),
        Mode::Batch => Box::new(Buffered::new(backend, batch, concurrent, metrics.clone())),
    }
}

fn with_truncation(backend: Box<dyn Backend>, options: &TruncateOptions, metrics: &Metrics) -> Box<dyn Backend> {
    if options.enabled { Box::new(Truncate::new(backend, options.clone(), metrics.clone())) } else { backend }
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

    #[tokio::test]
    async fn builds_the_backend_of_each_mode() {
        let directory = tempfile::tempdir().unwrap();
        let policy = directory.path().join("policy.yaml");
        std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]").unwrap();
        let log = |mode, enabled| {
            let log = log_options(&directory.path().join("log"));
            Some(LogOptions { mode, truncate: TruncateOptions { enabled, ..log.truncate }, ..log })
        };
        for (policy_file, log, want) in [
            (None, None, None),
            (None, log(Mode::Batch, false), None),
            (Some(&policy), None, None),
            (Some(&policy), log(Mode::BlockingStrict, false), Some("log")),
            (Some(&policy), log(Mode::Blocking, false), Some("ignoreErrors<log>")),
            (Some(&policy), log(Mode::Batch, true), Some("truncate<buffered<log>>")),
        ] {
            let options = AuditOptions { policy_file: policy_file.cloned(), log, webhook: None };
            let built = options.build(&Registry::new(), |_, _, _| None).unwrap();
            assert_eq!(built.map(|auditor| auditor.backend_name()).as_deref(), want);
        }
        let missing = AuditOptions { policy_file: Some("/no/such".into()), log: None, webhook: None };
        let error = missing.build(&Registry::new(), |_, _, _| None).err().unwrap();
        assert_eq!(
            error.to_string(),
            "loading audit policy file: failed to read file path \"/no/such\": open /no/such: no such file or directory"
        );
    }
}
