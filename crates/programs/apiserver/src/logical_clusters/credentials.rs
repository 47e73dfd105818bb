//! The keys of logical clusters and the kubeconfigs of their administrators, in Secrets of the host.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_controllers::Objects;
use binnacle_fields::core::v1::Secret;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Status;
use binnacle_pki::{CertifiedKey, ClusterKeys, kubeconfig, system_clock};
use binnacle_registry::Catalog;
use binnacle_schema::{Object, Value, value};
use futures::future::try_join_all;

/// The namespace of the Secrets.
pub(super) const NAMESPACE: &str = "logical-clusters";
const AUTHORITY: &str = "ca.crt";
const AUTHORITY_KEY: &str = "ca.key";
const SERVICE_ACCOUNT_KEY: &str = "sa.key";
const KUBECONFIG: &str = "kubeconfig";
const ADMIN: &str = "admin.crt";
const ADMIN_KEY: &str = "admin.key";

/// The Secrets of all logical clusters.
pub(super) struct Credentials {
    secrets: Objects,
}

/// Returns the name of the Secret with the administrator's kubeconfig.
pub(super) fn kubeconfig_secret(cluster: &str) -> String {
    format!("{cluster}-kubeconfig")
}

/// Returns the name of the Secret with the keys of the cluster itself.
fn keys_secret(cluster: &str) -> String {
    format!("{cluster}-keys")
}

impl Credentials {
    pub(super) fn new(catalog: &Catalog) -> Result<Self, Status> {
        Ok(Self { secrets: Objects::new(catalog, "", "v1", "secrets")? })
    }

    /// Reads the keys of a cluster, or creates them. `uid` is the one of its object: keys of a former cluster with the
    /// same name are replaced.
    pub(super) async fn keys(&self, cluster: &str, uid: &str) -> Result<ClusterKeys, Status> {
        let name = keys_secret(cluster);
        if let Some(secret) = self.secret(&name, uid).await? {
            return Ok(ClusterKeys {
                authority: pair(&secret, AUTHORITY, AUTHORITY_KEY)?,
                service_account: text(&secret, SERVICE_ACCOUNT_KEY)?,
            });
        }
        let keys = ClusterKeys::generate(system_clock()()).map_err(Status::internal)?;
        // If another server of the same stores was faster, the next attempt reads its keys.
        self.create(&name, cluster, uid, &key_data(&keys)).await?;
        Ok(keys)
    }

    /// Writes the administrator's kubeconfig, unless the existing one is still right. `trusted` are the authorities of
    /// the host's certificate, as PEM.
    pub(super) async fn ensure_kubeconfig(
        &self,
        (cluster, uid): (&str, &str),
        keys: &ClusterKeys,
        (url, trusted): (&str, &str),
    ) -> Result<(), Status> {
        let name = kubeconfig_secret(cluster);
        let current = self.secret(&name, uid).await?;
        let before = current.as_ref().map(|secret| pair(secret, ADMIN, ADMIN_KEY)).transpose()?;
        let admin = keys.administrator(before, system_clock()()).map_err(Status::internal)?;
        let file = kubeconfig(url, trusted, &admin.certificate, &admin.key);
        let data = [(KUBECONFIG, &file), (ADMIN, &admin.certificate), (ADMIN_KEY, &admin.key)];
        match current {
            None => self.create(&name, cluster, uid, &data).await,
            Some(secret) if text(&secret, KUBECONFIG)? == file => Ok(()),
            Some(_) => {
                let set = |secret: &mut Value| FieldMut::<Secret>::root(secret).set(Secret::DATA, encoded(&data));
                self.secrets.update(NAMESPACE, &name, "", set).await
            }
        }
    }

    /// Replaces the keys of a cluster, so that the administrator's kubeconfig has to be written again.
    pub(super) async fn replace(&self, cluster: &str, uid: &str, keys: &ClusterKeys) -> Result<(), Status> {
        self.delete(cluster).await?;
        self.create(&keys_secret(cluster), cluster, uid, &key_data(keys)).await
    }

    /// Deletes the Secrets of a cluster.
    pub(super) async fn delete(&self, cluster: &str) -> Result<(), Status> {
        let names = [kubeconfig_secret(cluster), keys_secret(cluster)];
        try_join_all(names.iter().map(|name| self.secrets.delete(NAMESPACE, name))).await.map(drop)
    }

    /// Returns a Secret that belongs to the object with this UID. One of another object is deleted.
    async fn secret(&self, name: &str, uid: &str) -> Result<Option<Value>, Status> {
        let Some(secret) = self.secrets.get(NAMESPACE, name).await? else { return Ok(None) };
        if secret.str_at(&["metadata", "labels", UID_LABEL]) == uid {
            return Ok(Some(secret));
        }
        self.secrets.delete(NAMESPACE, name).await?;
        Ok(None)
    }

    async fn create(&self, name: &str, cluster: &str, uid: &str, data: &[(&str, &String)]) -> Result<(), Status> {
        let labels = Value::Object(Object::from_iter([(CLUSTER_LABEL, cluster), (UID_LABEL, uid)]));
        let secret = value!({
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "data": (encoded(data)),
            "type": "Opaque",
        });
        self.secrets.create(NAMESPACE, secret).await.map(drop)
    }
}

/// The labels with the name and the UID of the cluster.
const CLUSTER_LABEL: &str = "binnacle.dev/logical-cluster";
const UID_LABEL: &str = "binnacle.dev/logical-cluster-uid";

fn key_data(keys: &ClusterKeys) -> [(&'static str, &String); 3] {
    [
        (AUTHORITY, &keys.authority.certificate),
        (AUTHORITY_KEY, &keys.authority.key),
        (SERVICE_ACCOUNT_KEY, &keys.service_account),
    ]
}

fn encoded(data: &[(&str, &String)]) -> Value {
    Value::Object(Object::from_iter(data.iter().map(|(key, text)| (*key, STANDARD.encode(text)))))
}

fn pair(secret: &Value, certificate: &str, key: &str) -> Result<CertifiedKey, Status> {
    Ok(CertifiedKey { certificate: text(secret, certificate)?, key: text(secret, key)? })
}

fn text(secret: &Value, key: &str) -> Result<String, Status> {
    let encoded = FieldRef::<Secret>::root(secret).at(Secret::DATA).key(key).str();
    let decoded = STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    decoded.filter(|text| !text.is_empty()).ok_or_else(|| {
        let name = secret.str_at(&["metadata", "name"]);
        Status::internal(format!("the Secret {NAMESPACE}/{name} has no valid {key:?}"))
    })
}
