//! The contract of storage engines, on disk and in memory.

use std::sync::Arc;

use binnacle_store::Store;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};

mod on_disk {
    use super::*;

    async fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
        let dir = tempfile::tempdir().expect("a directory");
        let store = EmbeddedStore::open(EmbeddedOptions::new(dir.path())).expect("an empty directory can be used");
        (dir, Arc::new(store))
    }

    binnacle_store::contract_tests!(store);
}

mod in_memory {
    use super::*;

    async fn store() -> ((), Arc<dyn Store>) {
        ((), Arc::new(EmbeddedStore::ephemeral()))
    }

    binnacle_store::contract_tests!(store);
}

/// Every watch immediately falls behind, so all events come from history.
mod with_tiny_buffers {
    use super::*;

    async fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
        let dir = tempfile::tempdir().expect("a directory");
        let mut options = EmbeddedOptions::new(dir.path());
        options.watch.buffer_events = 1;
        options.watch.progress_interval = std::time::Duration::from_millis(1);
        let store = EmbeddedStore::open(options).expect("an empty directory can be used");
        (dir, Arc::new(store))
    }

    binnacle_store::contract_tests!(store);
}

/// Everything is read from disk.
mod lean {
    use super::*;

    async fn store() -> (tempfile::TempDir, Arc<dyn Store>) {
        let dir = tempfile::tempdir().expect("a directory");
        let options = EmbeddedOptions { lean: true, ..EmbeddedOptions::new(dir.path()) };
        let store = EmbeddedStore::open(options).expect("an empty directory can be used");
        (dir, Arc::new(store))
    }

    binnacle_store::contract_tests!(without_counts store);
}
