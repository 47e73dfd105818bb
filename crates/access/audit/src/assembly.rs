//! The auditor and the backends that the options configure, with kube-apiserver's messages for invalid ones.

use std::sync::Arc;

use binnacle_meta::io_error;
use binnacle_metrics::Registry;

use crate::auditor::{Auditor, ObjectReader};
use crate::backend::{Backend, IgnoreErrors, Union};
use crate::buffered::Buffered;
use crate::log::Log;
use crate::metrics::Metrics;
use crate::options::{AuditOptions, BatchOptions, Mode, TruncateOptions};
use crate::policy::{Policy, PolicyError};
use crate::spill::{Spill, SpillMetrics, SpillOptions};
use crate::truncate::Truncate;
use crate::webhook::Webhook;

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
mod tests {
    use super::*;
    use crate::LogOptions;
    use crate::options::tests::log_options;

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
