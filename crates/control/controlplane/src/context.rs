//! The state that the controllers of the control plane share.

use binnacle_registry::Catalog;

use crate::config::Config;
use crate::identity::Identity;
use crate::storage_versions::StorageVersions;

/// The shared state of the controllers.
pub(crate) struct ControllerContext {
    pub(crate) resources: Catalog,
    pub(crate) config: Config,
    pub(crate) identity: Identity,
    pub(crate) storage_versions: StorageVersions,
}

impl ControllerContext {
    pub(crate) fn new(resources: Catalog, config: Config) -> Self {
        let identity = Identity::of(config.hostname.as_deref());
        let storage_versions = StorageVersions::of(resources.features(), resources.snapshot().served());
        Self { resources, config, identity, storage_versions }
    }
}
