//! Warnings from before the log is installed: the flags are read first, since they configure it.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

/// Warnings to log when the log is installed.
#[derive(Clone, Default)]
pub(crate) struct EarlyWarnings(Arc<Mutex<Vec<String>>>);

impl EarlyWarnings {
    /// Runs a function, and returns its result with the warnings and errors that it logs.
    pub(crate) fn of<T>(read: impl FnOnce() -> T) -> (T, Self) {
        let warnings = Self::default();
        let subscriber = tracing_subscriber::registry().with(warnings.clone());
        (tracing::subscriber::with_default(subscriber, read), warnings)
    }

    pub(crate) fn log(&self) {
        for warning in self.0.lock().iter() {
            tracing::warn!("{warning}");
        }
    }
}

impl<S: Subscriber> Layer<S> for EarlyWarnings {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() <= Level::WARN {
            let mut line = Line::default();
            event.record(&mut line);
            self.0.lock().push(line.0);
        }
    }
}

/// The message of an event, followed by its fields.
#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collects_warnings_and_errors() {
        let (result, warnings) = EarlyWarnings::of(|| {
            tracing::info!("not this");
            tracing::warn!("skipping {}", "a");
            tracing::error!(count = 7, path = "p", "broken");
            5
        });
        assert_eq!(result, 5);
        assert_eq!(*warnings.0.lock(), ["skipping a", "broken count=7 path=\"p\""]);
    }
}
