//! The health checks of this program's parts.

use std::sync::Arc;
use std::time::Duration;

use binnacle_request::BoxFuture;
use binnacle_server::HealthCheck;
use binnacle_store::Store;

/// The store answers. Probes know it by the name of the store that the reference has.
pub(crate) struct StoreCheck {
    pub(crate) name: String,
    pub(crate) store: Arc<dyn Store>,
    /// How long the store may take.
    pub(crate) patience: Duration,
}

impl HealthCheck for StoreCheck {
    fn name(&self) -> &str {
        &self.name
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            match tokio::time::timeout(self.patience, self.store.health()).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(format!("error getting data from etcd: {error}")),
                Err(_) => Err("error getting data from etcd: context deadline exceeded".to_owned()),
            }
        })
    }
}
