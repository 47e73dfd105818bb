//! ServiceAccount: pods run as an existing service account, mount its token, and pull images with its secrets.

mod secrets;

use std::sync::Arc;
use std::time::Duration;

use binnacle_fields::core::v1::{
    Container, LocalObjectReference, Pod, PodSpec, ProjectedVolumeSource, ServiceAccount as Account, Volume,
    VolumeMount, VolumeProjection,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{GroupResource, Status};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_registry::generate_name;
use binnacle_request::BoxFuture;
use binnacle_schema::{Value, value};

use super::pod;
use crate::lookup::{Lookup, LookupKind, client_error, get_cached_or_stored};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_any_of};

const DEFAULT: &str = "default";
const MIRROR: &str = "kubernetes.io/config.mirror";
const VOLUME_PREFIX: &str = "kube-api-access-";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";
/// The lifetime of mounted tokens. Kubelets renew them before they expire. For old clients, which never reload them,
/// they remain valid for a year.
const TOKEN_SECONDS: i64 = 3607;

/// The time to wait for the service account `default`, about the same as in kube-apiserver: the controller that creates
/// it may not have observed a new namespace yet.
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(1350);
const DEFAULT_POLL: Duration = Duration::from_millis(50);

pub(crate) struct ServiceAccount {
    lookup: Arc<dyn Lookup>,
}

impl ServiceAccount {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    /// Returns the service account of a pod.
    async fn account(&self, attributes: &Attributes, pod: &Value) -> Result<Arc<Value>, Status> {
        let (namespace, name) = (attributes.namespace.as_str(), account_name(pod));
        let timeout = if name == DEFAULT { DEFAULT_TIMEOUT } else { Duration::ZERO };
        let until = tokio::time::Instant::now() + timeout;
        loop {
            let why = match get_cached_or_stored(&*self.lookup, LookupKind::ServiceAccount, namespace, name).await {
                Ok(Some(account)) => return Ok(account),
                Ok(None) if tokio::time::Instant::now() < until => {
                    tokio::time::sleep(DEFAULT_POLL).await;
                    continue;
                }
                Ok(None) => Status::not_found(&GroupResource::new("", "serviceaccount"), name),
                Err(status) => status,
            };
            let why = client_error(name).unwrap_or_else(|| why.message().to_owned());
            let why = format!("error looking up service account {namespace}/{name}: {why}");
            return Err(forbidden(attributes, pod, why));
        }
    }

    async fn check(&self, attributes: &Attributes, pod: &Value) -> Result<(), Status> {
        let ephemeral = !attributes.subresource.is_empty();
        if !ephemeral && is_mirror(pod) {
            return check_mirror(attributes, pod);
        }
        if account_name(pod).is_empty() {
            let name = metadata(pod).at(ObjectMeta::NAME).str();
            let why = format!("no service account specified for pod {}/{name}", attributes.namespace);
            return Err(forbidden(attributes, pod, why));
        }
        let account = self.account(attributes, pod).await?;
        if !is_true(metadata(&account).at(ObjectMeta::ANNOTATIONS).key(ENFORCE_MOUNTABLE).str()) {
            return Ok(());
        }
        let account = FieldRef::root(&account);
        if ephemeral {
            secrets::limit_ephemeral(account, pod::spec(pod)).map_err(|why| Status::unknown(500, &why))
        } else {
            secrets::limit(account, pod::spec(pod)).map_err(|why| forbidden(attributes, pod, why))
        }
    }
}

impl Plugin for ServiceAccount {
    fn name(&self) -> &'static str {
        "ServiceAccount"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        is_any_of(attributes, "", "pods")
            && match (attributes.operation, attributes.subresource.as_str()) {
                (Operation::Create, "") => true,
                (Operation::Update, "ephemeralcontainers") => stage == Stage::Validate,
                _ => false,
            }
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            if is_mirror(object) {
                return self.check(request.attributes, object).await;
            }
            if account_name(object).is_empty() {
                let mut pod = FieldMut::<Pod>::root(object);
                let mut spec = pod.entry(Pod::SPEC);
                spec.set(PodSpec::SERVICE_ACCOUNT_NAME, DEFAULT);
                // The deprecated name of the field.
                spec.set(PodSpec::SERVICE_ACCOUNT, DEFAULT);
            }
            let account = self.account(request.attributes, object).await?;
            let account = FieldRef::root(&account);
            if automounts(account, pod::spec(object)) {
                mount_token(object);
            }
            let pull_secrets = account.at(Account::IMAGE_PULL_SECRETS);
            if pod::spec(object).at(PodSpec::IMAGE_PULL_SECRETS).is_empty() && !pull_secrets.is_empty() {
                let names = pull_secrets.values().map(|secret| secret.at(LocalObjectReference::NAME).str());
                let secrets: Vec<Value> = names.map(|name| value!({"name": name})).collect();
                FieldMut::<Pod>::root(object).entry(Pod::SPEC).set(PodSpec::IMAGE_PULL_SECRETS, secrets);
            }
            self.check(request.attributes, object).await
        })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.check(request.attributes, object))
    }
}

fn account_name(pod: &Value) -> &str {
    pod::spec(pod).at(PodSpec::SERVICE_ACCOUNT_NAME).str()
}

/// Returns true for mirror pods, which represent the static pods of a kubelet.
fn is_mirror(pod: &Value) -> bool {
    metadata(pod).at(ObjectMeta::ANNOTATIONS).key(MIRROR).is_set()
}

fn check_mirror(attributes: &Attributes, pod: &Value) -> Result<(), Status> {
    let spec = pod::spec(pod);
    let mut projected = spec.at(PodSpec::VOLUMES).values().flat_map(projections);
    let why = if !account_name(pod).is_empty() {
        "a mirror pod may not reference service accounts"
    } else if secrets::any(spec) {
        "a mirror pod may not reference secrets"
    } else if projected.any(|source| source.at(VolumeProjection::SERVICE_ACCOUNT_TOKEN).is_set()) {
        "a mirror pod may not use ServiceAccountToken volume projections"
    } else {
        return Ok(());
    };
    Err(forbidden(attributes, pod, why))
}

/// Iterates over the sources of a projected volume.
fn projections<'v>(
    volume: FieldRef<'_, 'v, Volume>,
) -> impl Iterator<Item = FieldRef<'static, 'v, VolumeProjection>> + use<'v> {
    volume.at(Volume::PROJECTED).at(ProjectedVolumeSource::SOURCES).values()
}

/// Returns true if the token is mounted. The pod's field takes precedence over the account's.
fn automounts(account: FieldRef<Account>, spec: FieldRef<PodSpec>) -> bool {
    let of_pod = spec.at(PodSpec::AUTOMOUNT_SERVICE_ACCOUNT_TOKEN).get_bool();
    of_pod.or_else(|| account.at(Account::AUTOMOUNT_SERVICE_ACCOUNT_TOKEN).get_bool()).unwrap_or(true)
}

/// Mounts the account's token in each container without a mount at its path.
fn mount_token(pod: &mut Value) {
    let mut pod = FieldMut::<Pod>::root(pod);
    let Some(mut spec) = pod.structure(Pod::SPEC) else { return };
    let volumes = spec.read().at(PodSpec::VOLUMES).values();
    let existing = volumes.map(|volume| volume.at(Volume::NAME).str()).find(|name| name.starts_with(VOLUME_PREFIX));
    let name = existing.map(Into::into);
    let exists = name.is_some();
    let name = name.unwrap_or_else(|| generate_name(VOLUME_PREFIX));
    let mut mounted = false;
    for list in [PodSpec::INIT_CONTAINERS, PodSpec::CONTAINERS] {
        for mut container in spec.items(list) {
            let mounts = container.read().at(Container::VOLUME_MOUNTS).detached();
            if mounts.values().any(|mount| mount.at(VolumeMount::MOUNT_PATH).str() == TOKEN_PATH) {
                continue;
            }
            let mount = value!({"name": (name.clone()), "readOnly": true, "mountPath": TOKEN_PATH});
            let all = [mounts.list(), &[mount]].concat();
            container.set(Container::VOLUME_MOUNTS, all);
            mounted = true;
        }
    }
    if mounted && !exists {
        let all = [spec.read().at(PodSpec::VOLUMES).list(), &[token_volume(&name)]].concat();
        spec.set(PodSpec::VOLUMES, all);
    }
}

fn token_volume(name: &str) -> Value {
    value!({
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{
                    "path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
                }]}}
            ],
            "defaultMode": 0o644i64,
        },
    })
}

/// Parses a bool like Go's `strconv.ParseBool`; errors count as false.
fn is_true(text: &str) -> bool {
    ["1", "t", "T", "TRUE", "true", "True"].contains(&text)
}
