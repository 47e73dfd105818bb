//! Resource types as supplied by providers, independent of a particular server.

use std::sync::{Arc, OnceLock};

use binnacle_meta::Text;
use binnacle_schema::{Message, MessageRef, Object, Value};

use crate::{
    Codec, Columns, Conversion, CustomSchema, Envelope, JsonText, Kinds, ResourceDescription, SelectableField, Shared,
    Storage, StoredKind, Strategy,
};

/// One version of a resource, as supplied by its provider: a [`ResourceDescription`] with schema and conversion, and
/// the [`StoredType`] that it shares with the other versions. Immutable, and shared by all servers of a process.
///
/// The registry binds it to a store: a `Resource` is a `ResourceType` on a `ResourceStore`. They are separate types,
/// because providers have no store, and because two servers of a process can install the same type over two stores.
#[derive(Clone)]
pub struct ResourceType {
    pub description: Arc<ResourceDescription>,
    /// The schema of this version.
    pub message: MessageRef,
    /// The conversion to the storage version; `None` for the storage version itself.
    pub conversion: Option<Conversion>,
    pub stored: Arc<StoredType>,
}

/// The part of [`ResourceType`] that all versions of a resource share: a [`Storage`] with the schema, the rules and the
/// columns of the stored objects. A [`StoredKind`](crate::StoredKind) is the part that codecs need; the registry's
/// `ResourceStore` has the objects themselves.
pub struct StoredType {
    pub storage: Storage,
    pub plural: Text,
    pub namespaced: bool,
    /// Computed from objects in the storage version.
    pub selectable_fields: Vec<SelectableField>,
    /// The schema of the storage version.
    pub message: MessageRef,
    /// The schema of a custom resource, which determines how its objects are read, stored and written. Only patches
    /// then use `message`.
    pub custom: Option<Arc<dyn CustomSchema>>,
    pub strategy: Shared<dyn Strategy>,
    pub columns: Shared<dyn Columns>,
    /// The version in which objects are written while an older release is emulated, if that lacks the storage version.
    pub written: Option<WriteVersion>,
    /// The fields of `/scale`, if they differ from those of workloads.
    pub scale: Option<ScaleFields>,
    /// The kinds that stored objects may have.
    pub kinds: Shared<dyn Kinds>,
    /// Distinguishes the type from others of the same resource in the same stores: two with the same identity read all objects
    /// alike. `None` if it is not known.
    pub identity: Option<Text>,
    /// The part of the schema that caches of the objects read. Built for the first object: most resources of most clusters
    /// have none.
    pub indexed: OnceLock<Message>,
}

/// The fields of `/scale`, as paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleFields {
    pub spec_replicas: Vec<Text>,
    pub status_replicas: Vec<Text>,
    pub label_selector: Option<Vec<Text>>,
    /// The dotted path of the replicas for each `apiVersion`; `None` for versions without `/scale`.
    pub versions: Arc<[(Text, Option<Text>)]>,
}

impl StoredType {
    /// Returns the codec of the objects.
    pub fn codec(&self) -> &'static dyn Codec {
        match &self.custom {
            None => &Envelope,
            Some(_) => &JsonText,
        }
    }

    /// Converts an object to its canonical form, in which it is written.
    pub fn canonicalize(&self, object: &mut Value) {
        self.codec().canonicalize(&self.message, object);
    }

    /// Sets a member of a canonical object, which stays canonical.
    pub fn set(&self, members: &mut Object, name: &str, value: impl Into<Value>) {
        self.codec().set(&self.message, members, name, value.into());
    }
}

/// The version in which the objects of a [`StoredType`] are written instead of the version of its [`Storage`].
#[derive(Clone)]
pub struct WriteVersion {
    pub version: Text,
    pub api_version: Text,
    pub message: MessageRef,
    pub conversion: Conversion,
}

impl<'a> StoredKind<'a> {
    /// Returns the codec's view of a kind; `api_version` is that of its storage version.
    pub fn new(kind: &'a StoredType, api_version: &'a str) -> Self {
        Self {
            group: &kind.storage.group,
            version: &kind.storage.version,
            kind: &kind.storage.kind,
            api_version,
            message: &kind.message,
            strategy: &*kind.strategy,
            kinds: &*kind.kinds,
            custom: kind.custom.as_deref(),
        }
    }

    /// Returns the kind with the version in which objects are written.
    pub fn written(self, written: &'a WriteVersion) -> Self {
        let WriteVersion { version, api_version, message, .. } = written;
        Self { version, api_version, message, ..self }
    }
}
