//! Warnings for the client and annotations of audit events, collected during a request.

use std::fmt;
use std::sync::Arc;

use binnacle_request::{AuditLevel, Record};
use parking_lot::Mutex;

/// The notes of verbs and admission plugins, which clones share.
#[derive(Clone, Default)]
pub struct RequestNotes {
    warnings: Warnings,
    /// `None` for requests of the server itself, which have no audit events.
    record: Option<Arc<Record>>,
}

/// Texts for `Warning` headers, which are sent regardless of the outcome of the request.
#[derive(Clone, Debug, Default)]
pub struct Warnings(Arc<Mutex<WarningList>>);

#[derive(Debug, Default)]
struct WarningList {
    texts: Vec<String>,
    /// The total length of all texts in characters.
    length: usize,
}

/// The limit on the number of warnings. The limit on the size of headers is reached earlier.
const MAX_WARNINGS: usize = 1024;

impl Warnings {
    /// The total length of all warnings in characters above which each one is truncated to [`Warnings::CUT`]
    /// characters.
    pub const MAX_LENGTH: usize = 4 * 1024;
    /// The length to which warnings are truncated.
    pub const CUT: usize = 256;

    /// Adds a text, unless it is a duplicate or the limit is reached. The part that would be truncated later is not
    /// kept, because policies can have warnings as long as an object.
    pub fn add(&self, text: impl Into<String>) {
        let mut text = text.into();
        let mut list = self.0.lock();
        let max_chars = if list.length > Self::MAX_LENGTH { Self::CUT } else { Self::MAX_LENGTH + 1 };
        let (length, end) =
            text.char_indices().take(max_chars).fold((0, 0), |(n, _), (at, c)| (n + 1, at + c.len_utf8()));
        text.truncate(end);
        if list.texts.len() < MAX_WARNINGS && !list.texts.contains(&text) {
            text.shrink_to_fit();
            list.texts.push(text);
            list.length += length;
        }
    }

    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock()).texts
    }
}

impl RequestNotes {
    /// Returns notes with warnings for the client, and annotations for the request's record.
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

    /// Adds an annotation to audit events of at least this level. The first value of a key is kept.
    pub fn annotate(&self, level: AuditLevel, key: &str, value: impl fmt::Display) {
        let notes = self.record.as_deref().and_then(Record::audit);
        if let Some(notes) = notes.filter(|notes| notes.level().is_some_and(|audited| audited >= level)) {
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
    fn annotates_events_of_sufficient_level() {
        for (level, want) in [
            (AuditLevel::None, &[][..]),
            (AuditLevel::Metadata, &["m"]),
            (AuditLevel::Request, &["m", "r"]),
            (AuditLevel::RequestResponse, &["m", "r"]),
        ] {
            let record = Record::open(http::Method::POST, "/".into(), None, None);
            record.begin_audit().decide(level, false);
            let notes = RequestNotes::new(Warnings::default(), record.clone());
            notes.annotate(AuditLevel::Metadata, "m", 1);
            notes.annotate(AuditLevel::Request, "r", 1);
            let recorded = record.begin_audit().noted().annotations;
            assert_eq!(recorded.keys().collect::<Vec<_>>(), want, "{level:?}");
        }
        RequestNotes::default().annotate(AuditLevel::Metadata, "nobody", "listens");
    }

    #[test]
    fn drops_duplicate_warnings() {
        let notes = RequestNotes::default();
        ["a", "b", "a"].into_iter().for_each(|text| notes.warn(text));
        assert_eq!(notes.warnings.take(), ["a", "b"]);
        (0..100_000).for_each(|i| notes.warn(i.to_string()));
        assert_eq!(notes.warnings.take().len(), MAX_WARNINGS);
    }

    #[test]
    fn truncates_long_warnings() {
        let notes = RequestNotes::default();
        (0..2000).for_each(|i| notes.warn(format!("{i}{}", "ä".repeat(100_000))));
        let texts = notes.warnings.take();
        assert_eq!(texts[0].chars().count(), Warnings::MAX_LENGTH + 1);
        assert!(texts[1..].iter().all(|text| text.chars().count() == Warnings::CUT));
        assert_eq!(texts.len(), MAX_WARNINGS);
        // Nothing is truncated below the limit.
        let texts = [1000, 3096].map(|length| "x".repeat(length));
        texts.iter().for_each(|text| notes.warn(text.as_str()));
        assert_eq!(notes.warnings.take(), texts);
    }
}
