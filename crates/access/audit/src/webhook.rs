//! A backend that sends events as an `EventList` to the server in a kubeconfig file.

use std::sync::Arc;
use std::time::Duration;

use binnacle_request::BoxFuture;
use binnacle_webhook::{Backoff, Client, load};
use bytes::Bytes;

use crate::event::{encode_list, encode_list_of_items};
use crate::metrics::Metrics;
use crate::spill::ReplaySink;
use crate::{Backend, Event, WebhookOptions};

const PLUGIN: &str = "webhook";
/// The timeout of a call. kube-apiserver has none, but a hanging call would hold its events in memory forever.
const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Webhook {
    client: Client,
    backoff: Backoff,
    metrics: Metrics,
    /// True if the caller spills events that the server does not accept.
    caller_spills: bool,
}

impl Webhook {
    pub(crate) fn open(options: &WebhookOptions, metrics: Metrics) -> Result<Self, String> {
        let mut target = load(&options.config_file).map_err(|error| error.to_string())?;
        target.dialer = options.dialer.clone();
        let client = Client::new(target, TIMEOUT).map_err(|error| error.to_string())?;
        let caller_spills = options.spill.is_some();
        Ok(Self { client, backoff: Backoff::starting_at(options.initial_backoff), metrics, caller_spills })
    }
}

impl Backend for Webhook {
    fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            let list = Bytes::from(encode_list(events.iter().map(Arc::as_ref)));
            // All failures are retried, since events should not be lost.
            match self.backoff.run_while(|_| true, || self.client.post(list.clone())).await {
                Ok(_) => true,
                Err(error) if self.caller_spills => {
                    tracing::warn!(%error, events = events.len(), "the audit webhook is unavailable, spilling events to disk");
                    false
                }
                Err(error) => {
                    self.metrics.failed(PLUGIN, &error.to_string(), &events);
                    false
                }
            }
        })
    }

    fn name(&self) -> String {
        PLUGIN.to_owned()
    }
}

impl ReplaySink for Webhook {
    fn replay<'a>(&'a self, events: &'a [Vec<u8>]) -> BoxFuture<'a, bool> {
        Box::pin(async move { self.client.post(encode_list_of_items(events)).await.is_ok() })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, Ordering};

    use binnacle_testkit::Hook;
    use http::Response;
    use parking_lot::Mutex;

    use super::*;
    use crate::event::tests::full_event;
    use crate::options::tests::log_options;

    async fn webhook(answers: &'static [u16]) -> (Webhook, Hook, Arc<Mutex<Vec<serde_json::Value>>>, Metrics) {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let at = Arc::new(AtomicU16::new(0));
        let hook = Hook::start({
            let seen = seen.clone();
            move |request| {
                let (seen, at) = (seen.clone(), at.clone());
                async move {
                    seen.lock().push(serde_json::from_slice(request.body()).unwrap());
                    let code = answers[usize::from(at.fetch_add(1, Ordering::SeqCst)).min(answers.len() - 1)];
                    Response::builder().status(code).body(Vec::new()).unwrap()
                }
            }
        })
        .await;
        let directory = tempfile::tempdir().unwrap();
        let (authority, config) = (directory.path().join("ca.crt"), directory.path().join("config"));
        std::fs::write(&authority, &hook.authority).unwrap();
        let text = format!(
            "clusters: [{{name: c, cluster: {{server: 'https://{}', certificate-authority: {}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\nusers: [{{name: u, user: {{}}}}]\n",
            hook.address,
            authority.display()
        );
        std::fs::write(&config, text).unwrap();
        let metrics = Metrics::fresh();
        let log = log_options(&config);
        let options = WebhookOptions {
            config_file: config,
            initial_backoff: Duration::from_millis(1),
            mode: log.mode,
            batch: log.batch,
            truncate: log.truncate,
            dialer: None,
            spill: None,
        };
        let webhook = Webhook::open(&options, metrics.clone()).unwrap();
        (webhook, hook, seen, metrics)
    }

    #[tokio::test]
    async fn sends_event_lists_with_retries() {
        for (answers, accepted, calls, errors) in
            [(&[200][..], true, 1, 0), (&[400, 500, 200], true, 3, 0), (&[403], false, 5, 2)]
        {
            let (webhook, _hook, seen, metrics) = webhook(answers).await;
            assert_eq!(
                webhook.process(vec![Arc::new(full_event()), Arc::new(full_event())]).await,
                accepted,
                "{answers:?}"
            );
            let seen = seen.lock();
            assert_eq!((seen.len(), metrics.errors("webhook")), (calls, errors), "{answers:?}");
            assert_eq!(seen[0]["kind"], "EventList");
            assert_eq!(seen[0]["items"][1]["auditID"], "id-1");
        }
    }
}
