//! Warnings for the client and annotations of audit events, collected during a request.

use std::fmt;
use std::sync::Arc;

use binnacle_request::{AuditLevel, Record};
use parking_lot::Mutex;

/// The notes of verbs and admission plugins. Clones share them.
#[derive(Clone, Default)]
pub struct RequestNotes {
    warnings: Warnings,
    /// `None` for requests of the server itself, which have no audit events.
    record: Option<Arc<Record>>,
}

/// Texts for `Warning` headers, sent whatever the outcome of the request.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<Vec<String>>>);

/// The limit on warnings; the limit on the size of headers is reached earlier.
const MAX_WARNINGS: usize = 1024;

impl Warnings {
    /// Adds a text, unless it is a duplicate or the limit is reached.
    pub fn add(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.0.lock();
        if warnings.len() < MAX_WARNINGS && !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

impl RequestNotes {
    /// Returns notes with warnings for the caller, and annotations for the request's record.
    pub fn new(warnings: Warnings, record: Arc<Record>) -> Self {
        Self { warnings, record: Some(record) }
    }

    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Adds a text for a `Warning` header.
    pub fn warn(&self, text: impl Into<String>) {
        self.warnings.add(text);
    }

    /// Adds an annotation to audit events of at least this level. The first value of a key stays.
    pub fn annotate(&self, level: AuditLevel, key: &str, value: impl fmt::Display) {
        let notes = self.record.as_deref().and_then(Record::audit);
        if let Some(notes) = notes.filter(|notes| notes.level().is_some_and(|told| told >= level)) {
            notes.annotate(key, &value.to_string());
        }
    }
}

impl fmt::Debug for RequestNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestNotes").field("warnings", &self.warnings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_by_level() {
        for (told, want) in [
            (AuditLevel::None, &[][..]),
            (AuditLevel::Metadata, &["m"]),
            (AuditLevel::Request, &["m", "r"]),
            (AuditLevel::RequestResponse, &["m", "r"]),
        ] {
            let record = Record::open(http::Method::POST, "/".into(), None, None);
            record.begin_audit().decide(told, false);
            let notes = RequestNotes::new(Warnings::default(), record.clone());
            notes.annotate(AuditLevel::Metadata, "m", 1);
            notes.annotate(AuditLevel::Request, "r", 1);
            let noted = record.begin_audit().noted().annotations;
            assert_eq!(noted.keys().collect::<Vec<_>>(), want, "{told:?}");
        }
        RequestNotes::default().annotate(AuditLevel::Metadata, "nobody", "listens");
    }

    #[test]
    fn a_warning_is_given_once() {
        let notes = RequestNotes::default();
        ["a", "b", "a"].into_iter().for_each(|text| notes.warn(text));
        assert_eq!(notes.warnings.take(), ["a", "b"]);
        (0..100_000).for_each(|i| notes.warn(i.to_string()));
        assert_eq!(notes.warnings.take().len(), MAX_WARNINGS);
    }
}
