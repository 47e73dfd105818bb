//! Stores on a test's own etcd.

use binnacle_metrics::Registry;
use binnacle_store::prefix_range;
use binnacle_store_etcd::{EtcdOptions, EtcdStore, Metrics, TlsPaths, WatchLimits};

/// Returns options for members without TLS, with all keys watched.
pub(crate) fn options(endpoints: Vec<String>) -> EtcdOptions {
    let metrics = Metrics::new(&Registry::new(), Vec::new()).expect("a new registry takes them");
    EtcdOptions { endpoints, tls: TlsPaths::default(), watched: prefix_range(b""), metrics, dialer: None }
}

pub(crate) fn open(endpoints: Vec<String>, limits: WatchLimits) -> EtcdStore {
    EtcdStore::with_limits(&options(endpoints), limits).expect("the endpoints are good")
}
