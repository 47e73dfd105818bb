//! The server of clusters: creates and deletes them.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use ureq::http::{Method, StatusCode};

use super::client::{Client, RequestError};
use super::{Cluster, ClusterError};

/// The flag of servers that host clusters.
const FLAG: &str = "--logical-clusters";
const RESOURCE: &str = "/apis/binnacle.dev/v1alpha1/logicalclusters";
/// The beginning of generated names.
const PREFIX: &str = "test-";
/// The time limit for the resource, which a server installs after it is ready.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(30);
const INSTALL_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// A server as a host of clusters.
#[derive(Clone)]
pub(crate) struct Host {
    client: Client,
    pub(super) ca: String,
    pub(super) ca_path: PathBuf,
    /// The directory for kubeconfigs, which is removed with the server.
    directory: PathBuf,
    /// True if the server will certainly have the resource.
    has_flag: bool,
}

/// The host of a server, from its first cluster on.
pub(crate) struct LazyHost {
    has_flag: bool,
    host: OnceLock<Host>,
}

impl LazyHost {
    /// Creates the host of a server with these flags.
    pub(crate) fn of(flags: &[std::ffi::OsString]) -> Self {
        let name = |flag: &str| flag.split('=').next().unwrap_or_default().replace('_', "-");
        let has_flag = flags.iter().filter_map(|flag| flag.to_str()).any(|flag| name(flag) == FLAG);
        Self { has_flag, host: OnceLock::new() }
    }

    /// Returns the host, which connects to the server on first use.
    pub(crate) fn get(
        &self,
        url: &str,
        token: &str,
        ca: &str,
        ca_path: PathBuf,
        directory: PathBuf,
    ) -> Result<Host, ClusterError> {
        if let Some(host) = self.host.get() {
            return Ok(host.clone());
        }
        let client = Client::new(url, token, ca).map_err(|error| error.of_cluster(None))?;
        let host = Host { client, ca: ca.to_owned(), ca_path, directory, has_flag: self.has_flag };
        // Another thread may have been faster.
        Ok(self.host.get_or_init(|| host).clone())
    }
}

impl Host {
    pub(super) fn token(&self) -> &str {
        &self.client.token
    }

    /// Creates a cluster, a fork if `source` is the name of another one, and waits until it is ready.
    pub(crate) fn create(&self, name: Option<&str>, source: Option<&str>) -> Result<Cluster, ClusterError> {
        let created = self.post(name, source)?;
        let ready = self.settled(&created, name).and_then(|ready| Ok((self.kubeconfig(&ready, name)?, ready)));
        let text = |object: &Value, pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (name, uid) = (text(&created, "/metadata/name"), text(&created, "/metadata/uid"));
        match ready {
            Ok(((kubeconfig, kubeconfig_path), ready)) => Ok(Cluster {
                name,
                uid,
                url: text(&ready, "/status/url"),
                kubeconfig,
                kubeconfig_path,
                host: self.clone(),
                is_deleted: false,
            }),
            Err(error) => {
                // The first error says more.
                let _ = self.remove(&name, &uid);
                Err(error)
            }
        }
    }

    /// Deletes a cluster, and waits until its name is free.
    pub(super) fn delete(&self, cluster: &Cluster) -> Result<(), ClusterError> {
        let is_gone =
            self.remove(&cluster.name, &cluster.uid).map_err(|error| error.of_cluster(Some(&cluster.name)))?;
        if is_gone {
            // The server's end removes a file that cannot be removed now.
            let _ = std::fs::remove_file(&cluster.kubeconfig_path);
        }
        Ok(())
    }

    fn post(&self, name: Option<&str>, source: Option<&str>) -> Result<Value, ClusterError> {
        let metadata = name.map_or_else(|| json!({"generateName": PREFIX}), |name| json!({"name": name}));
        let spec = source.map_or_else(|| json!({}), |source| json!({"source": {"cluster": source}}));
        let body = json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": metadata, "spec": spec});
        let began = Instant::now();
        loop {
            match self.client.send(Method::POST, RESOURCE, Some(&body)) {
                // Without the resource, the path is unknown.
                Err(RequestError::Refused { code: StatusCode::NOT_FOUND, .. }) => {}
                sent => return sent.map_err(|error| error.of_cluster(name)),
            }
            if !self.has_flag || began.elapsed() >= INSTALL_TIMEOUT {
                return Err(ClusterError::NotHosted);
            }
            thread::sleep(INSTALL_POLL_INTERVAL);
        }
    }

    /// Waits until a new cluster is ready.
    fn settled(&self, created: &Value, name: Option<&str>) -> Result<Value, ClusterError> {
        let phase = |cluster: &Value| cluster["status"]["phase"].as_str().map(str::to_owned);
        let is_settled = |_: &str, cluster: &Value| matches!(phase(cluster).as_deref(), Some("Ready" | "Failed"));
        let settled = self.client.watch(RESOURCE, created, is_settled).map_err(|error| error.of_cluster(name))?;
        match phase(&settled).as_deref() {
            Some("Failed") => {
                let message = settled["status"]["message"].as_str().unwrap_or_default().to_owned();
                Err(ClusterError::Refused { name: name.map(str::to_owned), message })
            }
            _ => Ok(settled),
        }
    }

    /// Reads the kubeconfig of a cluster, and writes it to a file.
    fn kubeconfig(&self, ready: &Value, name: Option<&str>) -> Result<(String, PathBuf), ClusterError> {
        let (namespace, secret) =
            ready["status"]["kubeconfigSecret"].as_str().and_then(|secret| secret.split_once('/')).unwrap_or_default();
        let path = format!("/api/v1/namespaces/{namespace}/secrets/{secret}");
        let secret = self.client.send(Method::GET, &path, None).map_err(|error| error.of_cluster(name))?;
        let decoded = BASE64_STANDARD.decode(secret["data"]["kubeconfig"].as_str().unwrap_or_default());
        let text = decoded.ok().and_then(|bytes| String::from_utf8(bytes).ok()).filter(|text| !text.is_empty());
        let text = text.ok_or_else(|| ClusterError::Connection(format!("{path} has no kubeconfig").into()))?;
        let path =
            self.directory.join(format!("{}.kubeconfig", ready["metadata"]["name"].as_str().unwrap_or_default()));
        match write_private(&path, &text) {
            Ok(()) => Ok((text, path)),
            Err(error) => Err(ClusterError::File { path, error }),
        }
    }

    /// Deletes a cluster, and waits until it is gone. Returns false if another cluster has the name.
    fn remove(&self, name: &str, uid: &str) -> Result<bool, RequestError> {
        let body = json!({"preconditions": {"uid": uid}});
        match self.client.send(Method::DELETE, &format!("{RESOURCE}/{name}"), Some(&body)) {
            // The response is a Status, if the cluster is gone already.
            Ok(deleted) if deleted["kind"] == "Status" => Ok(true),
            Ok(deleted) => self.client.watch(RESOURCE, &deleted, |change, _| change == "DELETED").map(|_| true),
            Err(RequestError::Refused { code: StatusCode::NOT_FOUND, .. }) => Ok(true),
            Err(RequestError::Refused { code: StatusCode::CONFLICT, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Writes a file that only its owner can read, in a directory of its owner.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_flag() {
        for (flags, want) in [
            (&[][..], false),
            (&["--logical-clusters"], true),
            (&["--v=2", "--logical_clusters=true"], true),
            (&["--max-awake-logical-clusters=3"], false),
        ] {
            let given: Vec<_> = flags.iter().map(std::ffi::OsString::from).collect();
            assert_eq!(LazyHost::of(&given).has_flag, want, "{flags:?}");
        }
    }
}
