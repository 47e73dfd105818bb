//! The health checks of this program's parts.

use std::sync::Arc;
use std::time::Duration;

use binnacle_authz::RbacIndex;
use binnacle_controlplane::Step;
use binnacle_request::BoxFuture;
use binnacle_server::HealthCheck;
use binnacle_store::Store;

/// The store answers. Probes know it by the name of the store that the reference has.
pub(crate) struct StoreCheck {
    pub(crate) name: String,
    pub(crate) store: Arc<dyn Store>,
    /// How long the store may take.
    pub(crate) patience: Duration,
    /// Ask whether the store should be sent work, not only whether it can serve.
    pub(crate) ready: bool,
}

impl HealthCheck for StoreCheck {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let asked = if self.ready { self.store.readiness() } else { self.store.health() };
            match tokio::time::timeout(self.patience, asked).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(format!("error getting data from etcd: {error}")),
                Err(_) => Err("error getting data from etcd: context deadline exceeded".to_owned()),
            }
        })
    }
}

/// Something that the control plane does at the start was done.
pub(crate) struct StepCheck {
    name: String,
    step: Step,
}

impl StepCheck {
    pub(crate) fn new(step: &Step) -> Self {
        Self { name: format!("poststarthook/{}", step.name()), step: step.clone() }
    }
}

impl HealthCheck for StepCheck {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { if self.step.is_done() { Ok(()) } else { Err("not finished".to_owned()) } })
    }
}

/// What decisions are made by has been read from the store.
pub(crate) struct RolesCheck(pub(crate) Arc<RbacIndex>);

impl HealthCheck for RolesCheck {
    fn name(&self) -> &str {
        "informer-sync"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            if self.0.ready.is_ready() { Ok(()) } else { Err("roles and bindings have not been read yet".to_owned()) }
        })
    }
}
