//! The contract of the storage engines on a single member.

use std::sync::Arc;

use binnacle_store::Store;
use binnacle_store_etcd::WatchLimits;
use binnacle_testkit::Etcd;

use crate::support::open;

mod plain {
    use super::*;

    async fn store() -> (Etcd, Arc<dyn Store>) {
        let etcd = Etcd::single();
        let store = open(etcd.endpoints(), WatchLimits::default());
        (etcd, Arc::new(store))
    }

    binnacle_store::contract_tests!(
        #[cfg_attr(not(has_etcd), ignore = "needs etcd")]
        store
    );
}

/// With buffers this small, every watch immediately falls behind and reads etcd's history.
mod with_tiny_buffers {
    use super::*;

    async fn store() -> (Etcd, Arc<dyn Store>) {
        let etcd = Etcd::single();
        let limits = WatchLimits { window_revisions: 1, window_bytes: 1 << 10, buffer_events: 1, buffer_bytes: 1 };
        let store = open(etcd.endpoints(), limits);
        (etcd, Arc::new(store))
    }

    binnacle_store::contract_tests!(
        #[cfg_attr(not(has_etcd), ignore = "needs etcd")]
        store
    );
}
