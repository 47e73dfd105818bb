//! `storagemigration.k8s.io`: requests to rewrite stored objects.

mod storage_version_migration;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] =
    &[("StorageVersionMigration", &storage_version_migration::StorageVersionMigration)];
