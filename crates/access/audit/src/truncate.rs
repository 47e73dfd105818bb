//! A backend that limits the size of events and batches: first the objects of a large event are omitted, then the
//! event.

use std::sync::Arc;

use binnacle_request::{AuditLevel, BoxFuture};

use crate::event::encoded_size;
use crate::metrics::Metrics;
use crate::{Backend, Event, TruncateOptions};

const PLUGIN: &str = "truncate";
/// The annotation of events whose objects are omitted.
pub(crate) const TRUNCATED: &str = "audit.k8s.io/truncated";

pub(crate) struct Truncate<B> {
    next: B,
    options: TruncateOptions,
    metrics: Metrics,
}

impl<B: Backend> Truncate<B> {
    pub(crate) fn new(next: B, options: TruncateOptions, metrics: Metrics) -> Self {
        Self { next, options, metrics }
    }
}

impl<B: Backend> Backend for Truncate<B> {
    fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let (mut accepted, mut too_large) = (true, Vec::new());
            let (mut batch, mut batch_size) = (Vec::new(), 0);
            for mut event in events {
                let mut size = encoded_size(&event);
                if size > self.options.max_event_size && event.level >= AuditLevel::Request {
                    event = Arc::new(without_objects(&event));
                    size = encoded_size(&event);
                }
                if size > self.options.max_event_size {
                    too_large.push(event);
                    continue;
                }
                if !batch.is_empty() && batch_size + size > self.options.max_batch_size {
                    accepted &= self.next.process(std::mem::take(&mut batch)).await;
                    batch_size = 0;
                }
                batch_size += size;
                batch.push(event);
            }
            if !batch.is_empty() {
                accepted &= self.next.process(batch).await;
            }
            if !too_large.is_empty() {
                self.metrics.failed(PLUGIN, "event is too large even after truncating", &too_large);
            }
            accepted
        })
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.next.shutdown()
    }

    fn name(&self) -> String {
        format!("{PLUGIN}<{}>", self.next.name())
    }
}

fn without_objects(event: &Event) -> Event {
    let mut event = Event { request_object: None, response_object: None, ..event.clone() };
    event.annotations.insert(TRUNCATED.into(), "true".into());
    event
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::backend::tests::RecordingBackend;
    use crate::event::tests::full_event;

    #[tokio::test]
    async fn omits_objects_then_events_and_splits_batches() {
        let bare = encoded_size(&without_objects(&full_event()));
        let large = Bytes::from(format!("\"{}\"", "x".repeat(5000)));
        let event = |id: &str, object: Option<&Bytes>, level| {
            Arc::new(Event {
                audit_id: id.into(),
                request_object: object.cloned(),
                response_object: None,
                level,
                ..full_event()
            })
        };
        let seen = Arc::new(RecordingBackend::default());
        let metrics = Metrics::fresh();
        let options = TruncateOptions { enabled: true, max_event_size: bare + 20, max_batch_size: 2 * bare + 40 };
        let backend = Truncate::new(seen.clone(), options, metrics.clone());
        let request = AuditLevel::Request;
        let long_agent = Arc::new(Event { user_agent: "x".repeat(5000).into(), ..full_event() });
        let accepted = backend
            .process(vec![
                event("id-1", None, request),
                event("id-2", Some(&large), request),
                event("id-3", Some(&large), AuditLevel::Metadata),
                long_agent,
                event("id-4", None, request),
            ])
            .await;
        assert!(accepted);
        assert_eq!(*seen.batches.lock(), [vec!["id-1", "id-2"], vec!["id-4"]]);
        let events = seen.events.lock();
        assert_eq!(events[1].annotations.get(TRUNCATED).map(|text| text.as_str()), Some("true"));
        assert!(events[1].request_object.is_none() && !events[0].annotations.contains_key(TRUNCATED));
        assert_eq!(metrics.errors("truncate"), 2);
        assert_eq!(backend.name(), "truncate<seen>");
    }
}
