//! `internal.apiserver.k8s.io`: the versions in which servers store objects.

mod storage_version;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[("StorageVersion", &storage_version::StorageVersion)];
