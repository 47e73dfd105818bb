//! Locations of data: `embedded:DIR` or `etcd:URL,URL`, and how to open them.

use std::fmt;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use binnacle_cli::progress::Progress;
use binnacle_registry::ROOT;
use binnacle_store::{Store, prefix_range};
use binnacle_store_embedded::{OfflineStore, OpenError, is_store};
use binnacle_store_etcd::{ADMIN_SOCKET, EtcdOptions, EtcdStore, Metrics, TlsPaths};
use bytes::Bytes;
use tokio::net::UnixStream;

use crate::Error;

/// A store, as named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreLocation {
    /// The data directory of a server, or the store's directory in it.
    Embedded(PathBuf),
    /// The members' client URLs.
    Etcd(Vec<String>),
}

/// Credentials and key prefix for an etcd cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct EtcdAccess {
    pub(crate) tls: TlsPaths,
    /// The prefix of the keys of all objects; starts and ends with a slash.
    pub(crate) root: String,
}

/// A store that can be read.
pub(crate) struct ReadableStore {
    pub(crate) store: Arc<dyn Store>,
    /// The prefix of the keys of all objects.
    pub(crate) root: String,
    /// Keeps an offline store open while it is used.
    _guard: Option<OfflineStore>,
}

// === impl StoreLocation ===

impl StoreLocation {
    /// Opens the store for reading. An embedded store is not changed; if a server uses it, it is read through that
    /// server.
    pub(crate) async fn read(&self, access: &EtcdAccess) -> Result<ReadableStore, Error> {
        match self {
            Self::Embedded(dir) => {
                let dir = store_dir(dir);
                if let Ok(running) = admin_socket(&dir).await {
                    return Ok(running);
                }
                let opened = tokio::task::spawn_blocking(move || open_offline(&dir)).await;
                let offline = opened.map_err(|error| Error::context("opening the store", error))??;
                Ok(ReadableStore::offline(offline))
            }
            Self::Etcd(endpoints) => Ok(ReadableStore::of(Arc::new(etcd(endpoints, access)?), &access.root)),
        }
    }
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(dir) => write!(f, "embedded:{}", dir.display()),
            Self::Etcd(endpoints) => write!(f, "etcd:{}", endpoints.join(",")),
        }
    }
}

impl FromStr for StoreLocation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("embedded", dir)) if !dir.is_empty() => Ok(Self::Embedded(dir.into())),
            Some(("etcd", urls)) if !urls.is_empty() => {
                let urls: Vec<_> = urls.split(',').map(str::to_owned).collect();
                match urls.iter().any(String::is_empty) {
                    true => Err("one of the etcd URLs is empty".to_owned()),
                    false => Ok(Self::Etcd(urls)),
                }
            }
            Some(("http" | "https", _)) => Err(format!("use etcd:{text} for an etcd cluster")),
            None if is_path(text) => Ok(Self::Embedded(text.into())),
            _ => Err("use embedded:DIR for a data directory, or etcd:URL[,URL...] for an etcd cluster".to_owned()),
        }
    }
}

/// Returns true for text that names a directory rather than a kind of store: `/var/lib/binnacle`, `./data`, or `data`
/// if it exists.
fn is_path(text: &str) -> bool {
    text.contains('/') || Path::new(text).is_dir()
}

/// Returns the path in an argument that takes a directory, which may be written like a store.
pub(crate) fn directory(text: &str) -> PathBuf {
    text.strip_prefix("embedded:").filter(|path| !path.is_empty()).unwrap_or(text).into()
}

// === impl EtcdAccess ===

impl EtcdAccess {
    /// `prefix` is the server's `--etcd-prefix`, the prefix of the keys of all objects.
    pub(crate) fn new(tls: TlsPaths, prefix: &str) -> Self {
        let prefix = prefix.trim_matches('/');
        let root = if prefix.is_empty() { "/".to_owned() } else { format!("/{prefix}/") };
        Self { tls, root }
    }
}

/// Opens the store of a stopped server, and reports the progress.
pub(crate) fn open_offline(dir: &Path) -> Result<OfflineStore, OpenError> {
    OfflineStore::open(dir, Some(Progress::new().report("reading the store")))
}

/// Returns the directory of the store for that directory or a server's data directory.
pub(crate) fn store_dir(dir: &Path) -> PathBuf {
    let inner = dir.join("store");
    if !is_store(dir) && is_store(&inner) { inner } else { dir.to_owned() }
}

/// The directory of a new store next to its final place, where servers do not find it.
pub(crate) struct NewStore {
    pub(crate) unfinished: PathBuf,
    pub(crate) dir: PathBuf,
}

impl NewStore {
    /// Creates the directory, removing that of another attempt. `None` if the data directory has a store.
    pub(crate) fn prepare(data: &Path) -> Result<Option<Self>, Error> {
        let (unfinished, dir) = (data.join("store.unfinished"), data.join("store"));
        if is_store(&dir) || is_store(data) {
            return Ok(None);
        }
        let about = |error: io::Error| Error::context(&unfinished.display().to_string(), error);
        match fs::remove_dir_all(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(about(error)),
            _ => {}
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&unfinished).map_err(about)?;
        Ok(Some(Self { unfinished, dir }))
    }

    /// Moves the closed store to its final place.
    pub(crate) fn finish(&self) -> Result<(), Error> {
        let about = |error: io::Error| Error::context(&self.dir.display().to_string(), error);
        fs::rename(&self.unfinished, &self.dir).map_err(about)?;
        let parent = self.dir.parent().unwrap_or(Path::new("."));
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(about)
    }
}

/// Returns the path of the socket on which a running server serves its store.
pub(crate) fn socket(dir: &Path) -> PathBuf {
    dir.join(ADMIN_SOCKET)
}

/// Opens the store of a running server through the socket in its directory.
pub(crate) async fn admin_socket(dir: &Path) -> Result<ReadableStore, Error> {
    let socket = socket(dir);
    let unreachable = |error| Error::context(&format!("no server is running with {}", socket.display()), error);
    let path = socket.canonicalize().map_err(unreachable)?;
    // A killed server leaves its socket behind.
    UnixStream::connect(&path).await.map_err(unreachable)?;
    let access = EtcdAccess { tls: TlsPaths::default(), root: ROOT.to_owned() };
    let store = etcd(&[format!("unix://{}", path.display())], &access)?;
    Ok(ReadableStore::of(Arc::new(store), ROOT))
}

pub(crate) fn etcd(endpoints: &[String], access: &EtcdAccess) -> Result<EtcdStore, Error> {
    let metrics = Metrics::new(&binnacle_metrics::Registry::new(), Vec::new());
    let options = EtcdOptions {
        endpoints: endpoints.to_vec(),
        tls: access.tls.clone(),
        watched: prefix_range(access.root.as_bytes()),
        metrics: metrics.map_err(|error| Error::context("metrics", error))?,
        dialer: None,
    };
    Ok(EtcdStore::new(&options)?)
}

impl ReadableStore {
    pub(crate) fn of(store: Arc<dyn Store>, root: &str) -> Self {
        Self { store, root: root.to_owned(), _guard: None }
    }

    pub(crate) fn offline(offline: OfflineStore) -> Self {
        Self { store: offline.store(), root: ROOT.to_owned(), _guard: Some(offline) }
    }

    /// Returns the range of all objects' keys.
    pub(crate) fn range(&self) -> std::ops::Range<Bytes> {
        prefix_range(self.root.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_store_locations() {
        for (text, want) in [
            ("embedded:/var/lib/binnacle", Ok(StoreLocation::Embedded("/var/lib/binnacle".into()))),
            ("embedded:data", Ok(StoreLocation::Embedded("data".into()))),
            ("etcd:http://a:1", Ok(StoreLocation::Etcd(vec!["http://a:1".into()]))),
            ("etcd:a:1,https://b:2", Ok(StoreLocation::Etcd(vec!["a:1".into(), "https://b:2".into()]))),
        ] {
            assert_eq!(text.parse(), want, "{text}");
            assert_eq!(want.map(|location: StoreLocation| location.to_string()), Ok(text.to_owned()));
        }
        for (text, want) in [("/var/lib/binnacle", "/var/lib/binnacle"), ("./data", "./data"), ("src", "src")] {
            assert_eq!(text.parse(), Ok(StoreLocation::Embedded(want.into())), "{text}");
        }
        for text in ["", "embedded", "embedded:", "etcd:", "etcd:a:1,", "missing", "redis:a"] {
            assert!(text.parse::<StoreLocation>().is_err(), "{text}");
        }
        let url = "https://10.0.0.1:2379".parse::<StoreLocation>();
        assert_eq!(url, Err("use etcd:https://10.0.0.1:2379 for an etcd cluster".to_owned()));
        for (text, want) in [("embedded:/data", "/data"), ("/data", "/data"), ("embedded:", "embedded:")] {
            assert_eq!(directory(text), PathBuf::from(want), "{text}");
        }
        for (prefix, root) in [("/registry", "/registry/"), ("a/b/", "/a/b/"), ("", "/"), ("/", "/")] {
            assert_eq!(EtcdAccess::new(TlsPaths::default(), prefix).root, root);
        }
    }
}
