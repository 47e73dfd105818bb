//! For tests: the built-in resources over a store in memory, with or without the admission and hooks of the program.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

mod server;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use binnacle_builtin::Releases;
use binnacle_controllers::{Controller, Manager, Objects};
use binnacle_registry::admission::AdmitAll;
use binnacle_registry::hooks::Hooks;
use binnacle_registry::{Catalog, Installer, StorageOptions};
use binnacle_request::ShutdownTrigger;
use binnacle_schema::Value;
use binnacle_store_embedded::EmbeddedStore;

pub use server::{Server, user};

/// The maximum time to wait for a condition.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// Returns resources that admit everything.
pub fn resources() -> Catalog {
    resources_with(|_| HashMap::new())
}

/// Returns resources with the given hooks, by group and kind.
pub fn resources_with(
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

/// Returns one resource's objects, in `v1`.
pub fn objects(resources: &Catalog, group: &str, plural: &str) -> Objects {
    Objects::new(resources, group, "v1", plural).expect("the resource is served")
}

/// Controllers that run until the value is dropped.
pub struct RunningControllers {
    _manager: Manager,
    _trigger: ShutdownTrigger,
}

impl RunningControllers {
    /// Starts controllers, and waits until their hooks are done.
    pub async fn start(controllers: impl IntoIterator<Item = Vec<Controller>>) -> Self {
        let (trigger, shutdown) = ShutdownTrigger::new();
        let manager = Manager::start(controllers, shutdown);
        let done = tokio::time::timeout(TIMEOUT, manager.done()).await;
        done.expect("every hook is done in time");
        Self { _manager: manager, _trigger: trigger }
    }
}

/// Reads an object until it is `good`.
pub async fn until(objects: &Objects, namespace: &str, name: &str, good: impl Fn(&Value) -> bool) -> Value {
    let began = std::time::Instant::now();
    loop {
        let object = objects.get(namespace, name).await.expect("the object can be read");
        match object {
            Some(object) if good(&object) => return object,
            other => assert!(began.elapsed() < TIMEOUT, "{name} is still {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Waits until the object does not exist.
pub async fn until_gone(objects: &Objects, namespace: &str, name: &str) {
    let began = std::time::Instant::now();
    while objects.get(namespace, name).await.expect("the object can be read").is_some() {
        assert!(began.elapsed() < TIMEOUT, "{name} is still there");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
