//! The health checks of all components, in kube-apiserver's order.

use std::sync::Arc;
use std::time::Instant;

use binnacle_controllers::PostStartHook;
use binnacle_features::Features;
use binnacle_flowcontrol::FlowControl;
use binnacle_pki::Expiry;
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_server::{Canary, Health, HealthMetrics, LogCheck, ShutdownCheck};

use super::built_in::Access;
use super::own_certificates::CertificateCheck;
use crate::encryption::AtRest;
use crate::health::{CacheCheck, FailedTasks, HookCheck, InformersCheck, ORDER, StartedCheck};
use crate::settings::Storage;
use crate::store_maintenance::StoreMaintenance;
use crate::stores::Stores;

/// The components with health checks.
pub(super) struct HealthSources<'a> {
    pub(super) canary: &'a Arc<Canary>,
    pub(super) features: &'a Features,
    pub(super) stores: &'a Stores,
    pub(super) storage: &'a Storage,
    pub(super) at_rest: Option<&'a AtRest>,
    /// `None` for a cluster without a certificate of its own.
    pub(super) certificate: Option<Expiry>,
    pub(super) access: &'a Access,
    pub(super) fairness: Option<&'a Arc<FlowControl>>,
    pub(super) store_maintenance: &'a StoreMaintenance,
    pub(super) failed_tasks: &'a FailedTasks,
    pub(super) catalog: &'a Catalog,
    pub(super) hooks: &'a [PostStartHook],
    /// The time until which `/livez` treats hooks as done.
    pub(super) livez_grace: Option<Instant>,
    pub(super) terminating: Shutdown,
}

impl HealthSources<'_> {
    pub(super) fn health(self, metrics: Arc<HealthMetrics>) -> Health {
        let health = Health::new(metrics).alive(self.canary.alive()).ready(self.canary.ready());
        let health = health.everywhere(Arc::new(LogCheck::default()));
        let health = match &self.certificate {
            Some(expiry) => health.alive(Arc::new(CertificateCheck(expiry.clone()))),
            None => health,
        };
        let mut health = self.stores.add_checks(health, self.storage);
        if let Some(at_rest) = self.at_rest {
            health = at_rest.add_checks(health);
        }
        let (roles, webhooks) = (self.access.roles.index().clone(), self.access.webhooks.sources());
        let health =
            health.ready(Arc::new(InformersCheck { roles, webhooks })).ready(Arc::new(self.failed_tasks.clone()));
        let health = health.ready(Arc::new(CacheCheck(self.catalog.clone())));
        let health =
            self.hooks.iter().filter(|hook| self.lists(hook)).fold(health, |health, hook| self.hook(health, hook));
        self.started(health).ready(Arc::new(ShutdownCheck(self.terminating.clone()))).in_order(&ORDER)
    }

    /// Returns false for hooks of disabled features.
    fn lists(&self, hook: &PostStartHook) -> bool {
        match hook.name() {
            "priority-and-fairness-config-consumer" => self.fairness.is_some(),
            "start-kube-apiserver-identity-lease-controller"
            | "start-kube-apiserver-identity-lease-garbage-collector" => self.features.enabled("APIServerIdentity"),
            _ => true,
        }
    }

    fn hook(&self, health: Health, hook: &PostStartHook) -> Health {
        let health = health.starting(Arc::new(HookCheck::new(hook)), self.livez_grace);
        match hook.name() {
            "kube-apiserver-autoregistration" => {
                health.starting(Arc::new(HookCheck::named("autoregister-completion", hook)), self.livez_grace)
            }
            _ => health,
        }
    }

    /// Adds the checks of components that report whether they have started.
    fn started(&self, health: Health) -> Health {
        let (hooks, policies) = (self.access.webhooks.sources(), self.access.admission_policies.policies.clone());
        let initialized = move || policies.are_read() && hooks.iter().all(|hooks| hooks.are_read());
        let roles = self.access.roles.index().clone();
        let counted = self.store_maintenance.counted();
        let last = match self.fairness.cloned() {
            Some(fairness) => StartedCheck::new("priority-and-fairness-filter", move || fairness.is_running()),
            // The filter needs no start.
            None => StartedCheck::new("max-in-flight-filter", || true),
        };
        [
            StartedCheck::new("start-apiserver-admission-initializer", initialized),
            StartedCheck::new("generic-apiserver-start-informers", move || {
                roles.ready.is_ready() || !roles.ready.is_requested()
            }),
            StartedCheck::new("storage-object-count-tracker-hook", move || counted.is_done()),
            last,
        ]
        .into_iter()
        .fold(health, |health, check| health.starting(check, self.livez_grace))
    }
}
