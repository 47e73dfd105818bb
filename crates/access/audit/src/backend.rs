//! The [`Backend`] trait and its combinators.

use std::sync::Arc;

use binnacle_request::BoxFuture;

use crate::Event;

/// A destination of events: a log, a webhook, or a wrapper around another backend.
pub trait Backend: Send + Sync {
    /// Processes a batch. Returns true if all events were accepted; events that were not are already counted and
    /// logged.
    fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool>;

    /// Waits until all accepted events are processed. No further events are accepted.
    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// Returns the name for the log: `buffered<webhook>`.
    fn name(&self) -> String;
}

/// A backend that passes events to several backends.
pub(crate) struct Union(pub(crate) Vec<Box<dyn Backend>>);

impl Backend for Union {
    fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let mut accepted = true;
            for backend in &self.0 {
                accepted &= backend.process(events.clone()).await;
            }
            accepted
        })
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for backend in &self.0 {
                backend.shutdown().await;
            }
        })
    }

    fn name(&self) -> String {
        let names: Vec<String> = self.0.iter().map(|backend| backend.name()).collect();
        format!("union[{}]", names.join(","))
    }
}

/// A backend that accepts all events (`blocking`); the wrapped backend counts and logs its failures.
pub(crate) struct IgnoreErrors<B>(pub(crate) B);

impl<B: Backend> Backend for IgnoreErrors<B> {
    fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            self.0.process(events).await;
            true
        })
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.0.shutdown()
    }

    fn name(&self) -> String {
        format!("ignoreErrors<{}>", self.0.name())
    }
}

impl Backend for Box<dyn Backend> {
    fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool> {
        self.as_ref().process(events)
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.as_ref().shutdown()
    }

    fn name(&self) -> String {
        self.as_ref().name()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use parking_lot::Mutex;

    use super::*;

    /// A backend that records the audit IDs of each batch, and accepts or rejects it.
    #[derive(Default)]
    pub(crate) struct RecordingBackend {
        pub(crate) batches: Mutex<Vec<Vec<String>>>,
        pub(crate) events: Mutex<Vec<Arc<Event>>>,
        pub(crate) refuses: bool,
    }

    impl Backend for Arc<RecordingBackend> {
        fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool> {
            self.batches.lock().push(events.iter().map(|event| event.audit_id.to_string()).collect());
            self.events.lock().extend(events);
            Box::pin(async { !self.refuses })
        }

        fn name(&self) -> String {
            "seen".to_owned()
        }
    }

    #[tokio::test]
    async fn union_passes_events_to_all_and_any_can_refuse() {
        let good = Arc::new(RecordingBackend::default());
        let bad = Arc::new(RecordingBackend { refuses: true, ..RecordingBackend::default() });
        let event = Arc::new(crate::event::tests::full_event());
        let union = Union(vec![Box::new(bad.clone()), Box::new(good.clone())]);
        assert!(!union.process(vec![event.clone()]).await);
        assert_eq!((good.batches.lock().len(), bad.batches.lock().len()), (1, 1));
        assert_eq!(union.name(), "union[seen,seen]");
        let lenient = IgnoreErrors(bad);
        assert!(lenient.process(vec![event]).await);
        assert_eq!(lenient.name(), "ignoreErrors<seen>");
    }
}
