//! Settings of the store.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use binnacle_meta::GroupResource;
use binnacle_registry::{MediaType, Uncached};

#[derive(Clone, Debug)]
pub struct Storage {
    /// The directory as it was given; `None` means the default one, or none at all when everything is ephemeral.
    pub data_dir: Option<PathBuf>,
    pub ephemeral: bool,
    pub etcd: Option<Etcd>,
    pub encryption_file: Option<PathBuf>,
    /// Read the file again when it changes.
    pub encryption_reload: bool,
    /// None for never.
    pub compaction_interval: Option<Duration>,
    pub count_metric_interval: Option<Duration>,
    pub size_metric_interval: Option<Duration>,
    pub health_timeout: Duration,
    pub ready_timeout: Duration,
    pub media_type: MediaType,
    pub uncached: Uncached,
    pub delete_workers: usize,
    /// Deletes set the finalizers that a garbage collector takes away again.
    pub garbage_collector: bool,
    pub event_ttl: Duration,
    pub lease_reuse: Duration,
}

/// The settings of etcd.
#[derive(Clone, Debug)]
pub struct Etcd {
    pub servers: Vec<String>,
    pub overrides: HashMap<GroupResource, Vec<String>>,
    pub ca_file: Option<PathBuf>,
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// The prefix of all keys; ends with a slash.
    pub root: String,
}

impl Default for Storage {
    /// In the default data directory.
    fn default() -> Self {
        Self {
            data_dir: None,
            ephemeral: false,
            etcd: None,
            encryption_file: None,
            encryption_reload: false,
            compaction_interval: Some(Duration::from_secs(300)),
            count_metric_interval: Some(Duration::from_secs(60)),
            size_metric_interval: Some(Duration::from_secs(30)),
            health_timeout: Duration::from_secs(2),
            ready_timeout: Duration::from_secs(2),
            media_type: MediaType::Protobuf,
            uncached: Uncached::Some(HashSet::new()),
            delete_workers: 1,
            garbage_collector: true,
            event_ttl: Duration::from_secs(3600),
            lease_reuse: Duration::from_secs(60),
        }
    }
}
