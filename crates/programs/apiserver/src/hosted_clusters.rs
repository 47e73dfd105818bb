//! The logical clusters of a server, for the program that embeds it.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_controllers::{ChangeWatcher, Objects};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Catalog, Resource};
use binnacle_schema::{Value, value};

use crate::logical_clusters::{GROUP, PLURAL, VERSION};
use crate::server::{Handle, ServerEnded};

/// A logical cluster of a server, with the access of its administrator.
#[derive(Clone)]
pub struct LogicalCluster {
    name: String,
    url: String,
    kubeconfig: String,
}

/// The reason why a server provides no logical cluster of a name.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The setting `misc.logical_clusters` is off.
    #[error("the server hosts no logical clusters")]
    NotHosted,
    #[error("the logical cluster {name}: {message}")]
    Failed { name: String, message: String },
    #[error(transparent)]
    Ended(#[from] ServerEnded),
}

/// What to do after a look at the object of a cluster.
enum Step<T> {
    Done(T),
    /// Create it with this spec.
    Create(Value),
    Delete,
    /// Nothing until the object changes.
    Wait,
}

// === impl Handle ===

impl Handle {
    /// Returns the logical cluster with this name, ready or suspended. It is created unless it exists.
    pub async fn cluster(&self, name: &str) -> Result<LogicalCluster, ClusterError> {
        self.ensure_cluster(name, value!({})).await
    }

    /// Returns the logical cluster with this name, ready or suspended. Unless it exists, it is created with the contents
    /// that the cluster `source` has now; that and the new one are independent afterwards.
    pub async fn fork(&self, source: &str, name: &str) -> Result<LogicalCluster, ClusterError> {
        self.ensure_cluster(name, value!({"source": {"cluster": source}})).await
    }

    async fn ensure_cluster(&self, name: &str, spec: Value) -> Result<LogicalCluster, ClusterError> {
        let catalog = self.host_catalog()?;
        let cluster = async {
            let object = changed_until(catalog, name, |object| match object {
                None => Ok(Step::Create(spec.clone())),
                Some(object) if is_deleted(&object) => Ok(Step::Wait),
                Some(object) => match object.str_at(&["status", "phase"]) {
                    "Ready" | "Suspended" => Ok(Step::Done(object)),
                    "Failed" => Err(Status::internal(object.str_at(&["status", "message"]))),
                    _ => Ok(Step::Wait),
                },
            });
            let object = object.await?;
            let kubeconfig = kubeconfig(catalog, object.str_at(&["status", "kubeconfigSecret"])).await?;
            let url = object.str_at(&["status", "url"]).to_owned();
            Ok(LogicalCluster { name: name.to_owned(), url, kubeconfig })
        };
        self.unless_ended(name, cluster).await
    }

    /// Deletes a logical cluster with all its objects, and waits until its name is free. Succeeds if it does not exist.
    pub async fn delete_cluster(&self, name: &str) -> Result<(), ClusterError> {
        let gone = changed_until(self.host_catalog()?, name, |object| match object {
            None => Ok(Step::Done(())),
            Some(object) if is_deleted(&object) => Ok(Step::Wait),
            Some(_) => Ok(Step::Delete),
        });
        self.unless_ended(name, gone).await
    }

    fn host_catalog(&self) -> Result<&Catalog, ClusterError> {
        self.info.host_catalog.as_ref().ok_or(ClusterError::NotHosted)
    }

    /// Waits for something of a cluster, unless the server ends.
    async fn unless_ended<T>(
        &self,
        name: &str,
        done: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, ClusterError> {
        let mut ready = self.ready.clone();
        tokio::select! {
            biased;
            // The server drops the sender when it ends.
            _ = ready.wait_for(|_| false) => Err(ServerEnded.into()),
            done = done => done.map_err(|status| {
                ClusterError::Failed { name: name.to_owned(), message: status.message().to_owned() }
            }),
        }
    }
}

// === impl LogicalCluster ===

impl LogicalCluster {
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the URL for clients, below the one of the server.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the kubeconfig of an administrator of this cluster alone, as it is now: the server renews its certificate
    /// 30 days before the end.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }
}

impl fmt::Debug for LogicalCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The kubeconfig has a private key.
        f.debug_struct("LogicalCluster").field("name", &self.name).field("url", &self.url).finish_non_exhaustive()
    }
}

/// Looks at the object of a cluster, at first and after each change, until that is done.
async fn changed_until<T>(
    catalog: &Catalog,
    name: &str,
    step: impl Fn(Option<Value>) -> Result<Step<T>, Status>,
) -> Result<T, Status> {
    loop {
        let mut served = catalog.changes();
        let Some(resource) = catalog.find(GROUP, VERSION, PLURAL) else {
            // The definition is being installed. The catalog exists as long as its sender of changes.
            let _ = served.changed().await;
            continue;
        };
        let objects = Objects::new(catalog, GROUP, VERSION, PLURAL)?;
        let mut changes = ChangeWatcher::one(&resource, "", name);
        loop {
            tokio::select! {
                _ = changes.changed() => {}
                () = replaced(catalog, &resource) => break,
            }
            match step(objects.get("", name).await?)? {
                Step::Done(value) => return Ok(value),
                Step::Create(spec) => create(&objects, name, spec).await?,
                Step::Delete => objects.delete("", name).await?,
                Step::Wait => {}
            }
        }
    }
}

/// Waits until the catalog has another resource: its definition was changed.
async fn replaced(catalog: &Catalog, resource: &Arc<Resource>) {
    let mut served = catalog.changes();
    let is_current = || catalog.find(GROUP, VERSION, PLURAL).is_some_and(|now| Arc::ptr_eq(&now, resource));
    while is_current() {
        let _ = served.changed().await;
    }
}

async fn create(objects: &Objects, name: &str, spec: Value) -> Result<(), Status> {
    match objects.create("", value!({"metadata": {"name": name}, "spec": spec})).await {
        Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
        created => created.map(drop),
    }
}

fn is_deleted(object: &Value) -> bool {
    !object.str_at(&["metadata", "deletionTimestamp"]).is_empty()
}

/// Reads the kubeconfig in a Secret, which is named with its namespace.
async fn kubeconfig(catalog: &Catalog, secret: &str) -> Result<String, Status> {
    let (namespace, name) = secret.split_once('/').unwrap_or_default();
    let found = Objects::new(catalog, "", "v1", "secrets")?.get(namespace, name).await?;
    let encoded = found.as_ref().map_or("", |found| found.str_at(&["data", "kubeconfig"]));
    let text = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.filter(|text| !text.is_empty())
        .ok_or_else(|| Status::internal(format!("the Secret {secret:?} has no kubeconfig")))
}
