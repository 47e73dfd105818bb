//! A resource as the verbs use it: its description, schemas, rules and objects.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use binnacle_features::Features;
use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::PartialObjectMetadata as AnyKind;
use binnacle_meta::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, Status, Text, go_quote};
use binnacle_patch::apply::Update;
use binnacle_schema::Value;
use binnacle_schema::decode::{self, EmptyFields};
use binnacle_scheme::{Codec, Kinds, MediaType, ResourceType, StoredKind, StoredType, StrategyContext};
use binnacle_watchcache::{Cache, EncodingBudget};
use binnacle_work::BudgetError;
use bytes::Bytes;

use crate::admission::{Admission, Attributes, Operation, OperationOptions};
use crate::context::Context;
use crate::counts::Counts;
use crate::encoding_ids::EncodingIds;
use crate::hooks::Hooks;
use crate::lease_manager::LeaseManager;
use crate::request_store::RequestStore;
use crate::write_object::{RequestObject, WriteObject};

/// The manager of fields that the server sets itself.
pub const MANAGER: &str = "kube-apiserver";

/// The default prefix of all keys.
pub const ROOT: &str = "/registry/";

/// One resource in one served version: a [`ResourceType`], to which it dereferences, on the [`ResourceStore`] of one
/// server. It implements the verbs, and has the encodings of its version. A [`Snapshot`](crate::Snapshot) has all
/// resources of a server.
#[derive(Clone)]
pub struct Resource {
    resource_type: ResourceType,
    pub collection: Arc<ResourceStore>,
    api_version: Text,
    /// The first bytes of each object's JSON.
    pub(crate) type_meta: Bytes,
    pub(crate) encodings: EncodingIds,
    /// The sizes of the events sent to watches of this version.
    pub sent: Arc<binnacle_watchcache::Distribution>,
    /// The seconds until initial events were sent, by the scope of the request.
    pub watch_lists: Arc<[(&'static str, binnacle_watchcache::Distribution); 3]>,
}

/// The stored objects behind all versions of a [`Resource`]: a [`StoredType`] with the store and the cache of one
/// server.
#[derive(Clone)]
pub struct ResourceStore {
    /// The rules of the kind for handling and storing objects, which are the same in every server.
    pub kind: Arc<StoredType>,
    pub hooks: Arc<dyn Hooks>,
    pub admission: Arc<dyn Admission>,
    pub store: RequestStore,
    pub cache: Arc<Cache>,
    /// True if reads use the cache.
    pub cached: bool,
    pub media_type: MediaType,
    /// The number of concurrent deletes in a deletecollection.
    pub delete_workers: usize,
    /// False if finalizers for the garbage collector are not set.
    pub garbage_collector: bool,
    /// True if unreadable objects may be deleted, and errors list them (KEP-3926).
    pub unsafe_deletion: bool,
    /// The feature gates and the settings of the server.
    pub features: Arc<Features>,
    /// The prefix of all keys of the server.
    pub root: Text,
    /// The limit on cached encodings, for all resources.
    pub budget: Arc<EncodingBudget>,
    pub counts: Arc<Counts>,
    /// Set once a custom resource was too large to be read.
    pub(crate) too_large: Arc<AtomicBool>,
    /// The leases of objects that expire (events).
    pub ttl: Option<Arc<LeaseManager>>,
    /// The prefix of the keys, for example `/registry/pods/`.
    pub prefix: Bytes,
    /// The `apiVersion` of stored objects.
    pub api_version: Text,
}

/// kube-apiserver's buckets for the seconds until initial events are sent.
const WATCH_LISTS: [f64; 17] =
    [0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0];
/// kube-apiserver's buckets for the sizes of watch events, in bytes.
const EVENT_SIZES: [f64; 8] = [1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0, 131_072.0];

impl Deref for Resource {
    type Target = ResourceType;

    fn deref(&self) -> &ResourceType {
        &self.resource_type
    }
}

impl Resource {
    /// Creates the n-th served version of a resource store.
    pub fn new(kind: &ResourceType, collection: Arc<ResourceStore>, n: usize) -> Self {
        let api_version = kind.description.group_version_kind().api_version();
        let type_meta = Self::type_meta(&kind.description.kind, &api_version);
        let sent = Arc::new(binnacle_watchcache::Distribution::new(&EVENT_SIZES));
        let watch_lists = ["resource", "namespace", "cluster"]
            .map(|scope| (scope, binnacle_watchcache::Distribution::new(&WATCH_LISTS)));
        Self {
            resource_type: kind.clone(),
            collection,
            api_version,
            type_meta,
            encodings: EncodingIds::of_version(n),
            sent,
            watch_lists: Arc::new(watch_lists),
        }
    }

    /// Returns the same resource with other admission, for writes on behalf of a request that was admitted as a whole.
    #[must_use]
    pub fn with_admission(&self, admission: Arc<dyn Admission>) -> Self {
        let collection = ResourceStore { admission, ..ResourceStore::clone(&self.collection) };
        Self { collection: Arc::new(collection), ..self.clone() }
    }

    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Returns the context of a request for strategies.
    pub(crate) fn strategy_context<'a>(&'a self, context: &'a Context) -> StrategyContext<'a> {
        StrategyContext {
            now: context.now_seconds(),
            namespace: self.namespace_of(context),
            api_version: self.api_version(),
            dry_run: context.dry_run,
            features: &self.collection.features,
        }
    }

    pub fn group_resource(&self) -> GroupResource {
        self.description.group_resource()
    }

    pub fn kind(&self) -> GroupVersionKind {
        self.description.group_version_kind()
    }

    pub fn group_kind(&self) -> GroupKind {
        self.description.group_kind()
    }

    /// Converts an object of this version to the stored one.
    pub fn to_stored(&self, object: &mut Value) {
        if let Some(conversion) = &self.conversion {
            (conversion.to_stored)(object);
        }
    }

    /// Converts a stored object to this version.
    pub fn from_stored(&self, object: &mut Value) {
        if let Some(conversion) = &self.conversion {
            (conversion.from_stored)(object);
        }
    }

    /// Sets the defaults of a decoded object. Empty lists and maps are present for defaults and validation, but are not
    /// part of the object.
    ///
    /// # Errors
    ///
    /// The limit of the work budget that decoding or the defaults have exceeded. Later steps copy the object, which the
    /// budget does not include.
    pub fn complete(&self, mut object: Value, empty_fields: EmptyFields) -> Result<RequestObject, BudgetError> {
        empty_fields.restore(&mut object);
        self.set_defaults(&mut object);
        empty_fields.remove(&mut object);
        binnacle_work::check()?;
        Ok(RequestObject::new(object, empty_fields))
    }

    /// Converts a request's object to the storage version, for the write.
    pub fn to_write_object(&self, request: RequestObject) -> WriteObject {
        let (mut object, empty_fields, unpruned) = request.into_parts();
        if self.conversion.is_none() {
            return WriteObject::new(object, empty_fields).unpruned(unpruned);
        }
        if empty_fields.is_empty() || self.collection.kind.custom.is_some() {
            self.to_stored(&mut object);
            return WriteObject::from(object).unpruned(unpruned);
        }
        // Validation uses the storage version, in which the explicitly empty fields may have other paths: they are
        // converted like all other fields, and recorded again.
        let mut with_empty_fields = object.clone();
        empty_fields.restore(&mut with_empty_fields);
        self.to_stored(&mut with_empty_fields);
        match decode::value(with_empty_fields, &self.collection.kind.message) {
            Ok(converted) => WriteObject::new(converted.value, converted.empty_fields),
            Err(_) => {
                self.to_stored(&mut object);
                object.into()
            }
        }
    }

    /// Sets the defaults of this version.
    pub fn set_defaults(&self, object: &mut Value) {
        if let Some(custom) = &self.collection.kind.custom {
            if FieldRef::<AnyKind>::root(object).at(AnyKind::KIND).str() == self.description.kind {
                custom.set_defaults(object);
            }
            return;
        }
        binnacle_schema::defaults::apply_constants(object, &self.message);
        self.collection.kind.strategy.set_defaults(&self.description.version, object);
    }

    /// Returns the parameters of field tracking for a write by a manager. `subresource` is empty for the object itself.
    pub fn update_by<'a>(&'a self, context: &Context, manager: &'a str, subresource: &'a str) -> Update<'a> {
        let description = &self.description;
        let reset = description.subresource(subresource).map_or(&description.resets, |described| &described.resets);
        Update {
            message: &self.message,
            api_version: self.api_version(),
            manager,
            subresource,
            now: context.now_seconds(),
            reset,
        }
    }

    fn is_namespaces(&self) -> bool {
        self.description.plural == "namespaces" && self.description.group.is_empty()
    }

    /// Returns the admission attributes of a request for this resource. Deletes add their options themselves, since
    /// these change while the deletion is evaluated.
    pub fn attributes(&self, context: &Context, operation: Operation, name: &str, subresource: &str) -> Attributes {
        Attributes {
            operation,
            kind: self.kind(),
            resource: self.description.group_version_resource(),
            subresource: subresource.into(),
            namespace: match &context.namespace {
                // Requests for a namespace are in that namespace, including its creation.
                none if none.is_empty() && self.is_namespaces() => name.into(),
                namespace => namespace.clone(),
            },
            name: name.into(),
            user: context.user.clone(),
            dry_run: context.dry_run,
            options: match operation {
                Operation::Create => OperationOptions::Create(context.options.clone()),
                Operation::Update => OperationOptions::Update(context.options.clone()),
                Operation::Delete | Operation::Connect => OperationOptions::None,
            },
            deadline: context.deadline,
            by_server: context.by_server,
        }
    }
}

impl ResourceStore {
    /// Returns the key of an object. Names are validated on create; only names that would lead outside of the
    /// collection are rejected here.
    pub fn key(&self, namespace: &str, name: &str) -> Result<Bytes, Status> {
        self.check_namespace_and_name(namespace, Some(name))?;
        let mut key = Vec::with_capacity(self.prefix.len() + namespace.len() + 1 + name.len());
        key.extend_from_slice(&self.prefix);
        if self.kind.namespaced {
            key.extend_from_slice(namespace.as_bytes());
            key.push(b'/');
        }
        key.extend_from_slice(name.as_bytes());
        Ok(Bytes::from(key))
    }

    /// Checks that a name can be part of a key, as kube-apiserver does before everything else.
    pub fn check_name(&self, namespace: &str, name: &str) -> Result<(), Status> {
        if self.kind.namespaced && namespace.is_empty() {
            return Err(Status::bad_request("Namespace parameter required."));
        }
        if name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let problems = binnacle_validation::names::path_segment(name, false);
        if problems.is_empty() {
            return Ok(());
        }
        let (name, problems) = (go_quote(name), problems.join(";"));
        Err(Status::bad_request(format!("Name parameter invalid: {name}: {problems}")))
    }

    /// Checks a namespace and, if present, a name. Names that would lead to other keys are rejected, even if only the
    /// cache is read.
    pub(crate) fn check_namespace_and_name(&self, namespace: &str, name: Option<&str>) -> Result<(), Status> {
        if let Some(name) = name {
            self.check_name(namespace, name)?;
        }
        if self.kind.namespaced && (matches!(namespace, "." | "..") || namespace.contains('/')) {
            let prefix = self.prefix.strip_prefix(self.root.as_bytes()).unwrap_or(&self.prefix);
            let prefix = String::from_utf8_lossy(prefix);
            let path = format!("/{}{namespace}", prefix.trim_start_matches('/'));
            let key = name.map_or(path.clone(), |name| format!("{path}/{name}"));
            return Err(Status::unknown(500, &format!("invalid key: {}", go_quote(&key))));
        }
        Ok(())
    }

    /// Returns the path of an object in the cache.
    pub(crate) fn path(&self, namespace: &str, name: &str) -> String {
        if self.kind.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    pub(crate) fn stored_kind(&self) -> StoredKind<'_> {
        StoredKind::new(&self.kind, &self.api_version)
    }

    pub(crate) fn codec(&self) -> &'static dyn Codec {
        self.kind.codec()
    }

    /// Returns the kinds for decoding objects.
    pub fn kinds(&self) -> &dyn Kinds {
        &*self.kind.kinds
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind::new(self.kind.storage.group.clone(), self.kind.storage.kind.clone())
    }

    /// Returns the kind for errors of an object. A custom resource has its own kind.
    pub(crate) fn kind_of(&self, object: &Value) -> GroupKind {
        let object = FieldRef::<AnyKind>::root(object);
        match (&self.kind.custom, object.at(AnyKind::KIND).str()) {
            (Some(_), kind) if !kind.is_empty() => {
                let group = match object.at(AnyKind::API_VERSION).str() {
                    "" => self.kind.storage.group.clone(),
                    version => GroupVersion::parse(version).map(|version| version.group).unwrap_or_default(),
                };
                GroupKind::new(group, kind)
            }
            _ => self.group_kind(),
        }
    }

    /// Returns the Go type of an object in kube-apiserver's messages, or the Go type of its list with the suffix
    /// `List`.
    pub fn go_type(&self, suffix: &str) -> String {
        if self.kind.custom.is_some() {
            return format!("*unstructured.Unstructured{suffix}");
        }
        let package = self.kind.storage.group.split('.').next().filter(|name| !name.is_empty()).unwrap_or("core");
        format!("*{package}.{}{suffix}", self.kind.storage.kind)
    }
}
