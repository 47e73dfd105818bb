//! The informers of webhook configurations, which feed the plugins that call the webhooks.

use std::sync::Arc;

use binnacle_admission_webhooks::Webhooks;
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_schema::Value;
use tokio::task::JoinSet;

use binnacle_controllers::{EventHandler, Informer};

const GROUP: &str = "admissionregistration.k8s.io";

struct WebhookHandler(Arc<Webhooks>);

impl EventHandler for WebhookHandler {
    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
        self.0.retain(|name| exists("", name));
    }

    fn put(&self, object: Value) {
        self.0.put(&object);
    }

    fn remove(&self, _: &str, name: &str) {
        self.0.remove(name);
    }
}

/// Starts the informer of one kind of webhook configurations; it ends with the shutdown signal. If the group is not
/// served (`--runtime-config`), there are no webhooks.
pub fn follow_webhooks(webhooks: &Arc<Webhooks>, resources: &Catalog, tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
    let plural = webhooks.kind().plural();
    let Some(resource) = resources.find(GROUP, "v1", plural) else {
        tracing::warn!("{GROUP}/v1 is not served: there are no {plural}");
        webhooks.were_read();
        return;
    };
    let (handler, read) = (WebhookHandler(webhooks.clone()), webhooks.clone());
    tasks.spawn(Informer::new(resource, handler).run(shutdown.clone(), move || read.were_read()));
}
