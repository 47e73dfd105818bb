//! `internal.apiserver.k8s.io`: the versions that servers store.

mod storage_version;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[("StorageVersion", &storage_version::StorageVersion)];
