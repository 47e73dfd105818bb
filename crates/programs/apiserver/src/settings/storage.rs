//! Settings of the store.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Duration;

use binnacle_meta::GroupResource;
use binnacle_registry::{MediaType, UncachedResources};
use http::Uri;

#[derive(Clone, Debug)]
pub struct Storage {
    /// The directory as given; `None` means the default one, or none if everything is ephemeral.
    pub data_dir: Option<PathBuf>,
    pub ephemeral: bool,
    pub etcd: Option<Etcd>,
    /// True when another server is responsible for the objects in etcd: this one never writes there.
    pub read_only: bool,
    /// The server that gets the writes which a read-only server receives; without it they are refused.
    pub writer: Option<WriterAddress>,
    pub encryption_file: Option<PathBuf>,
    /// True when the file is read again after changes.
    pub encryption_reload: bool,
    /// `None` means never.
    pub compaction_interval: Option<Duration>,
    /// `--history-retention`: the time for which history is kept and served.
    pub history_retention: Option<Duration>,
    pub count_metric_interval: Option<Duration>,
    pub size_metric_interval: Option<Duration>,
    pub health_timeout: Duration,
    pub ready_timeout: Duration,
    pub media_type: MediaType,
    pub uncached: UncachedResources,
    pub delete_workers: usize,
    /// True when deletes set the finalizers that a garbage collector removes.
    pub garbage_collector: bool,
    pub event_ttl: Duration,
    pub lease_reuse: Duration,
}

/// The server to which a read-only server forwards writes.
#[derive(Clone, Debug)]
pub struct WriterAddress {
    pub url: Uri,
    pub ca_file: PathBuf,
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
    /// Uses the default data directory.
    fn default() -> Self {
        Self {
            data_dir: None,
            ephemeral: false,
            etcd: None,
            read_only: false,
            writer: None,
            encryption_file: None,
            encryption_reload: false,
            compaction_interval: Some(Duration::from_secs(300)),
            history_retention: None,
            count_metric_interval: Some(Duration::from_secs(60)),
            size_metric_interval: Some(Duration::from_secs(30)),
            health_timeout: Duration::from_secs(2),
            ready_timeout: Duration::from_secs(2),
            media_type: MediaType::Protobuf,
            uncached: UncachedResources::Some(HashSet::new()),
            delete_workers: 1,
            garbage_collector: true,
            event_ttl: Duration::from_secs(3600),
            lease_reuse: Duration::from_secs(60),
        }
    }
}
