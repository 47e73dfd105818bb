//! The health checks of this program's parts.

use std::sync::Arc;
use std::time::Duration;

use binnacle_request::BoxFuture;
use binnacle_server::HealthCheck;
use binnacle_store::Store;

/// How long the store may take (the reference's `--etcd-healthcheck-timeout`).
const PATIENCE: Duration = Duration::from_secs(2);

/// The store answers. Probes know it by the name of the store that the reference has.
pub(crate) struct StoreCheck {
    pub(crate) name: &'static str,
    pub(crate) store: Arc<dyn Store>,
}

impl HealthCheck for StoreCheck {
    fn name(&self) -> &str {
        self.name
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            match tokio::time::timeout(PATIENCE, self.store.health()).await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("context deadline exceeded".to_owned()),
            }
        })
    }
}
