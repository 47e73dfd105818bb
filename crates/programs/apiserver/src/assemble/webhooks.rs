//! The plugins of admission webhooks, and the configurations that they use.

use std::sync::Arc;
use std::time::Instant;

use binnacle_admission::{Lookup, Plugin, PluginOptions};
use binnacle_admission_matching::expressions::MatchConditionMetrics;
use binnacle_admission_webhooks::{Backends, Metrics, Mutating, PluginDependencies, Validating, WebhookKind, Webhooks};
use binnacle_authz::Authorizer;
use binnacle_controlplane::start_webhook_informers;
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_server::DebugTextHandler;
use binnacle_transport::Certificates;
use binnacle_webhook::{Credential, Loopback, OwnCertificates, ServiceResolver, Users};
use tokio::task::JoinSet;

/// The maximum number of concurrent webhook calls to itself: the sum of the default in-flight limits.
const MAX_OWN_CALLS: usize = 600;

/// The enabled ones of the two plugins.
pub(super) struct AdmissionWebhooks {
    sources: Vec<Arc<Webhooks>>,
    surroundings: PluginDependencies,
}

impl AdmissionWebhooks {
    /// Creates the plugins. They follow nothing before [`AdmissionWebhooks::follow`].
    pub(super) fn new(
        options: &PluginOptions,
        is_enabled: &dyn Fn(&str) -> bool,
        services: &Arc<dyn ServiceResolver>,
        surroundings: PluginDependencies,
    ) -> Self {
        let source = |kind: WebhookKind, users: &Users| {
            let backends = Backends::new(users.clone(), services.clone(), &surroundings.metrics);
            Arc::new(Webhooks::new(kind, Arc::new(backends)))
        };
        let plugins = [
            ("MutatingAdmissionWebhook", WebhookKind::Mutating, &options.mutating_webhook_users),
            ("ValidatingAdmissionWebhook", WebhookKind::Validating, &options.validating_webhook_users),
        ];
        let enabled = plugins.into_iter().filter(|(name, ..)| is_enabled(name));
        Self { sources: enabled.map(|(_, kind, users)| source(kind, users)).collect(), surroundings }
    }

    pub(super) fn plugins(&self) -> impl Iterator<Item = Arc<dyn Plugin>> {
        self.sources.iter().map(|source| -> Arc<dyn Plugin> {
            match source.kind() {
                WebhookKind::Mutating => Arc::new(Mutating::new(source.clone(), self.surroundings.clone())),
                WebhookKind::Validating => Arc::new(Validating::new(source.clone(), self.surroundings.clone())),
            }
        })
    }

    /// Watches the webhook configurations; the tasks end with the shutdown signal.
    pub(super) fn start_informers(&self, resources: &Catalog, tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
        self.sources.iter().for_each(|source| start_webhook_informers(source, resources, tasks, shutdown));
    }

    /// Returns the debug page with the table of webhooks.
    pub(super) fn page(&self) -> DebugTextHandler {
        let sources = self.sources();
        DebugTextHandler::new("/debug/admission_webhooks", move || Webhooks::table(&sources, Instant::now()))
    }

    /// Returns the webhooks of the enabled plugins, for health checks.
    pub(super) fn sources(&self) -> Vec<Arc<Webhooks>> {
        self.sources.clone()
    }
}

/// Returns the client identity for calls of this server as a webhook: itself, by a token that no other client has.
pub(super) fn itself(token: &str, certificates: &Arc<Certificates>) -> Loopback {
    let shown = certificates.clone();
    let certificates = OwnCertificates::new(move |certificate| shown.shows(certificate));
    Loopback::new(Credential::Bearer(token.to_owned()), certificates, MAX_OWN_CALLS)
}

/// Returns the components that plugins need, with metrics of its own.
pub(super) fn surroundings(
    catalog: &Catalog,
    lookup: Arc<dyn Lookup>,
    authorizer: &Arc<dyn Authorizer>,
    conditions: &MatchConditionMetrics,
    registry: &binnacle_metrics::Registry,
) -> Result<PluginDependencies, prometheus::Error> {
    Ok(PluginDependencies {
        catalog: catalog.clone(),
        lookup,
        authorizer: authorizer.clone(),
        metrics: Metrics::register(registry)?,
        conditions: conditions.clone(),
    })
}
