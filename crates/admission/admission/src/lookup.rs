//! Lookup of objects other than that of the request.

use std::sync::{Arc, OnceLock, Weak};

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::{Status, Text, go_quote};
use binnacle_patch::apply::track_update;
use binnacle_registry::{Catalog, Context, ListOptions, MANAGER, Match, Resource, UpdateOptions};
use binnacle_request::{BoxFuture, CreatePermit};
use binnacle_schema::{Value, value};
use binnacle_watchcache::Entry;

use crate::decoded_cache::DecodedCache;

/// The kinds that plugins look up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LookupKind {
    CsiDriver,
    IngressClass,
    LimitRange,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PriorityClass,
    ResourceQuota,
    RuntimeClass,
    ServiceAccount,
    StorageClass,
    Workload,
}

impl LookupKind {
    /// The number of kinds.
    const COUNT: usize = Self::Workload as usize + 1;

    /// Returns group, version and plural.
    fn path(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::CsiDriver => ("storage.k8s.io", "v1", "csidrivers"),
            Self::IngressClass => ("networking.k8s.io", "v1", "ingressclasses"),
            Self::LimitRange => ("", "v1", "limitranges"),
            Self::Namespace => ("", "v1", "namespaces"),
            Self::Node => ("", "v1", "nodes"),
            Self::PersistentVolume => ("", "v1", "persistentvolumes"),
            Self::PersistentVolumeClaim => ("", "v1", "persistentvolumeclaims"),
            Self::Pod => ("", "v1", "pods"),
            Self::PodGroup => ("scheduling.k8s.io", "v1alpha2", "podgroups"),
            Self::PriorityClass => ("scheduling.k8s.io", "v1", "priorityclasses"),
            Self::ResourceQuota => ("", "v1", "resourcequotas"),
            Self::RuntimeClass => ("node.k8s.io", "v1", "runtimeclasses"),
            Self::ServiceAccount => ("", "v1", "serviceaccounts"),
            Self::StorageClass => ("storage.k8s.io", "v1", "storageclasses"),
            Self::Workload => ("scheduling.k8s.io", "v1alpha2", "workloads"),
        }
    }

    /// Returns true for kinds with few objects, which are looked up frequently and therefore cached.
    fn is_settings(self) -> bool {
        match self {
            Self::CsiDriver
            | Self::IngressClass
            | Self::LimitRange
            | Self::PriorityClass
            | Self::RuntimeClass
            | Self::ServiceAccount
            | Self::StorageClass => true,
            Self::Namespace
            | Self::Node
            | Self::PersistentVolume
            | Self::PersistentVolumeClaim
            | Self::Pod
            | Self::PodGroup
            | Self::ResourceQuota
            | Self::Workload => false,
        }
    }
}

/// The freshness of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// The state of the watch cache, which may lag behind acknowledged writes.
    Cached,
    /// The state after all previously acknowledged writes.
    Consistent,
}

/// The state of a namespace, for writes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamespaceState {
    Absent,
    Active,
    Terminating,
}

/// The resource of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub plural: Text,
    pub namespaced: bool,
}

/// Label keys and values.
pub type Labels = Vec<(Text, Text)>;

/// Looks up objects in their storage version.
pub trait Lookup: Send + Sync + 'static {
    fn namespace<'a>(&'a self, name: &'a str, freshness: Freshness) -> BoxFuture<'a, Result<NamespaceState, Status>>;

    /// Returns an object; `None` if it does not exist. `namespace` is empty for cluster-scoped kinds.
    fn get<'a>(
        &'a self,
        kind: LookupKind,
        namespace: &'a str,
        name: &'a str,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>>;

    /// Returns the labels of an object without decoding it; `None` if it does not exist.
    fn labels<'a>(
        &'a self,
        kind: LookupKind,
        namespace: &'a str,
        name: &'a str,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Option<Labels>, Status>>;

    /// Returns the objects sorted by name.
    fn list<'a>(
        &'a self,
        kind: LookupKind,
        namespace: &'a str,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>>;

    /// Writes the usage of a quota; 409 if the quota has changed since it was read.
    fn charge<'a>(&'a self, quota: &'a Value) -> BoxFuture<'a, Result<(), Status>>;

    /// Creates a namespace as the server itself.
    fn create_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Status>>;

    /// Returns true for kinds of this server, whether or not they are served.
    fn is_known(&self, group: &str, version: &str, kind: &str) -> bool;

    /// Returns the resource of a kind; `None` if the kind is not served.
    fn mapping(&self, group: &str, version: &str, kind: &str) -> Option<Mapping>;
}

/// Returns the error of kube-apiserver's client, which reads what is not cached through the API, for a name that is no
/// path segment.
pub(crate) fn client_error(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("resource name may not be empty".to_owned());
    }
    let wrong = binnacle_validation::names::path_segment(name, false);
    (!wrong.is_empty()).then(|| format!("invalid resource name {}: [{}]", go_quote(name), wrong.join(" ")))
}

/// Returns an object from the cache, or from the store if it is not in the cache.
pub(crate) async fn get_cached_or_stored(
    lookup: &dyn Lookup,
    kind: LookupKind,
    namespace: &str,
    name: &str,
) -> Result<Option<Arc<Value>>, Status> {
    match lookup.get(kind, namespace, name, Freshness::Cached).await? {
        Some(found) => Ok(Some(found)),
        None => lookup.get(kind, namespace, name, Freshness::Consistent).await,
    }
}

/// Looks up objects in the resources of this server.
#[derive(Clone)]
pub struct ResourceLookup {
    resources: Catalog,
    /// By kind. The resources are looked up once the catalog is bound.
    kinds: Arc<[CachedResource; LookupKind::COUNT]>,
}

#[derive(Default)]
struct CachedResource {
    /// Weak, since resources own the admission chain, which owns this lookup.
    resource: OnceLock<Weak<Resource>>,
    decoded: DecodedCache,
}

impl ResourceLookup {
    pub fn new(resources: Catalog) -> Self {
        Self { resources, kinds: Arc::default() }
    }

    fn resource(&self, kind: LookupKind) -> Result<Arc<Resource>, Status> {
        let resource = &self.kinds[kind as usize].resource;
        if let Some(resource) = resource.get().and_then(Weak::upgrade) {
            return Ok(resource);
        }
        let (group, version, plural) = kind.path();
        let found = self.resources.require(group, version, plural)?;
        resource.get_or_init(|| Arc::downgrade(&found));
        Ok(found)
    }

    fn decode(&self, kind: LookupKind, resource: &Arc<Resource>, entry: &Entry) -> Result<Arc<Value>, Status> {
        let decode = || resource.collection.decode_entry(entry);
        match kind.is_settings() {
            true => self.kinds[kind as usize].decoded.object(resource, entry, decode),
            false => decode().map(Arc::new),
        }
    }
}

impl Lookup for ResourceLookup {
    fn namespace<'a>(&'a self, name: &'a str, freshness: Freshness) -> BoxFuture<'a, Result<NamespaceState, Status>> {
        Box::pin(async move {
            let namespaces = self.resource(LookupKind::Namespace)?;
            let found = namespaces.find(&Context::internal(""), name, freshness.into()).await?;
            let Some(entry) = found else { return Ok(NamespaceState::Absent) };
            // The phase is indexed, so the object need not be decoded.
            let indexed = namespaces.description.selectable_fields.iter().filter(|f| !f.name.starts_with("metadata."));
            let phase = indexed.map(|field| &field.name).position(|name| name == "status.phase");
            let terminating = phase.is_some_and(|position| entry.field(position) == "Terminating");
            Ok(if terminating { NamespaceState::Terminating } else { NamespaceState::Active })
        })
    }

    fn get<'a>(
        &'a self,
        kind: LookupKind,
        namespace: &'a str,
        name: &'a str,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        Box::pin(async move {
            let resource = self.resource(kind)?;
            let found = resource.find(&Context::internal(namespace), name, freshness.into()).await?;
            found.map(|entry| self.decode(kind, &resource, &entry)).transpose()
        })
    }

    fn labels<'a>(
        &'a self,
        kind: LookupKind,
        namespace: &'a str,
        name: &'a str,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Option<Labels>, Status>> {
        Box::pin(async move {
            let found = self.resource(kind)?.find(&Context::internal(namespace), name, freshness.into()).await?;
            let labels = |entry: Arc<Entry>| entry.labels().map(|(k, v)| (k.into(), v.into())).collect();
            Ok(found.map(labels))
        })
    }

    fn list<'a>(
        &'a self,
        kind: LookupKind,
        namespace: &'a str,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>> {
        Box::pin(async move {
            let resource = self.resource(kind)?;
            let options = ListOptions { version: freshness.into(), ..ListOptions::default() };
            let mut page = resource.list(&Context::internal(namespace), &options).await?;
            let mut objects = Vec::new();
            while let Some(chunk) = page.next_chunk() {
                for entry in chunk {
                    objects.push(self.decode(kind, &resource, &entry)?);
                }
            }
            Ok(objects)
        })
    }

    fn charge<'a>(&'a self, quota: &'a Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move { write_status(&*self.resource(LookupKind::ResourceQuota)?, quota).await })
    }

    fn create_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let resource = self.resource(LookupKind::Namespace)?;
            let context = Context::internal("");
            let mut namespace = value!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            resource.set_defaults(&mut namespace);
            track_update(&resource.update_by(&context, MANAGER, ""), None, &mut namespace);
            resource.to_stored(&mut namespace);
            #[expect(
                clippy::disallowed_methods,
                reason = "as in kube-apiserver, the server itself creates the namespace"
            )]
            let permit = CreatePermit::system();
            resource.create(&context, &permit, namespace).await.map(|_| ())
        })
    }

    fn is_known(&self, group: &str, version: &str, kind: &str) -> bool {
        self.resources.snapshot().kinds().kind(group, version, kind).is_some()
    }

    fn mapping(&self, group: &str, version: &str, kind: &str) -> Option<Mapping> {
        let snapshot = self.resources.snapshot();
        let found = snapshot.find_kind(group, version, kind)?;
        Some(Mapping { plural: found.description.plural.clone(), namespaced: found.description.namespaced })
    }
}

/// Writes the status of an object as the server itself.
async fn write_status(resource: &Resource, changed: &Value) -> Result<(), Status> {
    const STATUS: &str = "status";
    let metadata = binnacle_fields::metadata(changed);
    let context = Context::internal(metadata.at(ObjectMeta::NAMESPACE).str());
    let options = UpdateOptions { subresource: STATUS.into(), ..UpdateOptions::default() };
    let mut change = |old: Option<&Value>| {
        let mut object = changed.clone();
        track_update(&resource.update_by(&context, MANAGER, STATUS), old, &mut object);
        Ok(object.into())
    };
    resource.update(&context, metadata.at(ObjectMeta::NAME).str(), &options, &mut change).await.map(|_| ())
}

impl From<Freshness> for Match {
    fn from(freshness: Freshness) -> Self {
        match freshness {
            Freshness::Cached => Self::Any,
            Freshness::Consistent => Self::Consistent,
        }
    }
}
