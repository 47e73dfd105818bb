//! The `apiserver_audit_*` families.

use std::sync::Arc;

use binnacle_metrics::{IntCounter, IntCounterVec, families};
use binnacle_request::AuditLevel;

use crate::Event;
use crate::event::legacy_line;

families! {
    /// Counters of events, failures and levels.
    #[derive(Clone)]
    pub(crate) struct Metrics {
        events: IntCounter = "apiserver_audit_event_total",
            "[ALPHA] Counter of audit events generated and sent to the audit backend.";
        errors: IntCounterVec = "apiserver_audit_error_total" by ["plugin"],
            "[ALPHA] Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by \
             the error.";
        levels: IntCounterVec = "apiserver_audit_level_total" by ["level"],
            "[ALPHA] Counter of policy levels for audit events (1 per request).";
        rejected: IntCounter = "apiserver_audit_requests_rejected_total",
            "[ALPHA] Counter of apiserver requests rejected due to an error in audit logging backend.";
    }
}

impl Metrics {
    pub(crate) fn event(&self) {
        self.events.inc();
    }

    pub(crate) fn level(&self, level: AuditLevel) {
        self.levels.with_label_values(&[level.as_str()]).inc();
    }

    pub(crate) fn rejected(&self) {
        self.rejected.inc();
    }

    /// Counts events that were or may have been lost, and logs a summary of each.
    pub(crate) fn failed(&self, plugin: &str, error: &str, events: &[Arc<Event>]) {
        self.errors.with_label_values(&[plugin]).inc_by(events.len() as u64);
        let lines: Vec<String> = events.iter().map(|event| legacy_line(event)).collect();
        tracing::error!(
            "Error in audit plugin '{plugin}' affecting {} audit events: {error}\nImpacted events:\n{}",
            events.len(),
            lines.join("\n")
        );
    }

    #[cfg(test)]
    pub(crate) fn errors(&self, plugin: &str) -> u64 {
        self.errors.with_label_values(&[plugin]).get()
    }

    #[cfg(test)]
    pub(crate) fn fresh() -> Self {
        Self::build().unwrap()
    }
}
