//! Encryption at rest, configured by flags.

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_encryption::{EncryptedStore, Encryption, Metrics, StorageKeys, load, reload_on_change};
use binnacle_metrics::Registry;
use binnacle_registry::StorageOptions;
use binnacle_request::BoxFuture;
use binnacle_resources::key_prefixes;
use binnacle_server::{Health, HealthCheck};
use binnacle_store::Store;
use binnacle_supervise::supervise;
use tokio::task::JoinHandle;

use crate::health::StartedCheck;
use crate::settings::Storage;
use crate::start_failure::{StartFailure, not_registered};

/// Encryption between the resources and the stores. Reloading stops on drop.
pub(crate) struct AtRest {
    encryption: Arc<Encryption>,
    reloading: Option<JoinHandle<()>>,
}

impl AtRest {
    /// Reads the configuration file, if there is one. `root` is the prefix of all keys, `server` the name of the
    /// identity lease.
    pub(crate) async fn open(
        storage: &Storage,
        root: &str,
        server: &str,
        registry: &Registry,
    ) -> Result<Option<Self>, StartFailure> {
        let metrics = Metrics::new(registry, server).map_err(not_registered)?;
        let Some(path) = &storage.encryption_file else { return Ok(None) };
        let loaded = load(path, storage.encryption_reload, &metrics).await?;
        metrics.in_use(&loaded.hash);
        let keys = StorageKeys::new(root, key_prefixes());
        let encryption = Arc::new(Encryption::new(keys, loaded.transformers, metrics));
        let reloading = storage.encryption_reload.then(|| {
            let (path, encryption): (PathBuf, _) = (path.clone(), Arc::clone(&encryption));
            tokio::spawn(supervise("encryption config", move || {
                let (path, encryption) = (path.clone(), Arc::clone(&encryption));
                async move { reload_on_change(&path, loaded.hash, encryption).await }
            }))
        });
        Ok(Some(Self { encryption, reloading }))
    }

    /// Returns the same encryption for the keys below another root. It follows the same configuration.
    pub(crate) fn below(&self, root: &str) -> Self {
        let encryption = Arc::new(self.encryption.for_keys(StorageKeys::new(root, key_prefixes())));
        Self { encryption, reloading: None }
    }

    /// Wraps the stores with encryption.
    pub(crate) fn wrap(&self, options: StorageOptions) -> StorageOptions {
        options.map_stores(|store| self.wrap_store(store))
    }

    /// Wraps a store with encryption.
    pub(crate) fn wrap_store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(EncryptedStore::new(store, Arc::clone(&self.encryption)))
    }

    /// Adds the health checks of KMS plugins, if there are any or reloading may add some.
    pub(crate) fn add_checks(&self, health: Health) -> Health {
        let health = match &self.reloading {
            Some(reloading) => {
                let reloading = reloading.abort_handle();
                health.everywhere(StartedCheck::new("start-encryption-provider-config-automatic-reload", move || {
                    !reloading.is_finished()
                }))
            }
            None if !self.encryption.transformers().uses_kms() => return health,
            None => health,
        };
        health.usable(Arc::new(KmsProviders(Arc::clone(&self.encryption))))
    }
}

impl Drop for AtRest {
    fn drop(&mut self) {
        if let Some(reloading) = &self.reloading {
            reloading.abort();
        }
    }
}

struct KmsProviders(Arc<Encryption>);

impl HealthCheck for KmsProviders {
    fn name(&self) -> &str {
        "kms-providers"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { self.0.transformers().check().check().await })
    }
}
