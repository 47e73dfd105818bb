//! Test support: the built-in resources over a store in memory, with the loops running.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use binnacle_builtin::Releases;
use binnacle_registry::admission::AdmitAll;
use binnacle_registry::hooks::Hooks;
use binnacle_registry::{Catalog, Installer, StorageOptions};
use binnacle_request::{Shutdown, ShutdownTrigger};
use binnacle_schema::Value;
use binnacle_store_embedded::EmbeddedStore;

use crate::objects::Objects;
use crate::{Config, ControlPlane, start};

pub(crate) struct Cluster {
    pub(crate) resources: Catalog,
    pub(crate) control_plane: ControlPlane,
    _trigger: ShutdownTrigger,
}

impl Cluster {
    /// Returns resources without running loops.
    pub(crate) fn resources() -> Catalog {
        Self::resources_with(|_| HashMap::new())
    }

    /// Returns resources with the given hooks.
    pub(crate) fn resources_with(
        hooks: impl FnOnce(&Catalog) -> HashMap<(&'static str, &'static str), Arc<dyn Hooks>>,
    ) -> Catalog {
        let catalog = Catalog::new(binnacle_builtin::kinds(), Arc::default());
        let storage = StorageOptions::new(Arc::new(EmbeddedStore::ephemeral()));
        let installer = Installer::new(storage, Arc::new(AdmitAll), hooks(&catalog), 1 << 20);
        let releases = Releases::default();
        let served = binnacle_builtin::served(releases, |_, description| description.feature_gate.is_none());
        binnacle_builtin::install(&catalog, &installer, served, releases);
        catalog
    }

    pub(crate) async fn start() -> Self {
        Self::with(Self::resources(), Config::default()).await
    }

    /// Starts the loops, and waits until each step has been done once.
    pub(crate) async fn with(resources: Catalog, config: Config) -> Self {
        let (trigger, shutdown): (_, Shutdown) = ShutdownTrigger::new();
        let control_plane = start(resources.clone(), config, shutdown);
        let done = tokio::time::timeout(PATIENCE, control_plane.done()).await;
        done.expect("every step is done in time");
        Self { resources, control_plane, _trigger: trigger }
    }

    pub(crate) fn objects(&self, group: &str, plural: &str) -> Objects {
        Objects::new(&self.resources, group, "v1", plural).unwrap()
    }
}

const PATIENCE: Duration = Duration::from_secs(20);

/// Reads an object until it is `good`.
pub(crate) async fn until(objects: &Objects, namespace: &str, name: &str, good: impl Fn(&Value) -> bool) -> Value {
    let began = std::time::Instant::now();
    loop {
        let object = objects.get(namespace, name).await.unwrap();
        match object {
            Some(object) if good(&object) => return object,
            other => assert!(began.elapsed() < PATIENCE, "{name} is still {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until the object does not exist.
pub(crate) async fn until_gone(objects: &Objects, namespace: &str, name: &str) {
    let began = std::time::Instant::now();
    while objects.get(namespace, name).await.unwrap().is_some() {
        assert!(began.elapsed() < PATIENCE, "{name} is still there");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
