//! A resource as providers hand it over: its facts on every server.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::{MessageRef, Object, Value};

use crate::{
    Codec, Columns, Conversion, CustomSchema, Envelope, JsonText, Kinds, ResourceDescription, SelectableField, Shared,
    Storage, Strategy,
};

/// One resource in one version. Immutable, and shared by all servers of a process.
#[derive(Clone)]
pub struct ResourceType {
    pub description: Arc<ResourceDescription>,
    /// The schema of this version.
    pub message: MessageRef,
    /// The conversion to the version in which objects are handled; `None` where they are the same.
    pub conversion: Option<Conversion>,
    pub stored: Arc<StoredType>,
}

/// The common part of a resource's versions: the handling and storage of its objects.
pub struct StoredType {
    pub storage: Storage,
    pub plural: Text,
    pub namespaced: bool,
    /// Computed from objects in the version in which they are handled.
    pub selectable_fields: Vec<SelectableField>,
    /// The schema of the version in which objects are handled.
    pub message: MessageRef,
    /// The schema of custom resources: their objects are read, kept and written by it, and `message` is for patches
    /// alone.
    pub custom: Option<Arc<dyn CustomSchema>>,
    pub strategy: Shared<dyn Strategy>,
    pub columns: Shared<dyn Columns>,
    /// The version in which objects are written where an older release is emulated, which must know it.
    pub written: Option<Written>,
    /// The fields of `/scale`, where they are not those of workloads.
    pub scale: Option<ScaleFields>,
    /// The kinds in which stored objects may stand.
    pub kinds: Shared<dyn Kinds>,
}

/// The fields of `/scale`: members below each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScaleFields {
    pub spec_replicas: Vec<Text>,
    pub status_replicas: Vec<Text>,
    pub label_selector: Option<Vec<Text>>,
    /// The path of each version's replicas by `apiVersion`, with dots; `None` for one without `/scale`.
    pub versions: Arc<[(Text, Option<Text>)]>,
}

impl StoredType {
    /// The codec of its objects.
    pub fn codec(&self) -> &'static dyn Codec {
        match &self.custom {
            None => &Envelope,
            Some(_) => &JsonText,
        }
    }

    /// Brings an object into its canonical form, in which it is written.
    pub fn canonicalize(&self, object: &mut Value) {
        self.codec().canonicalize(&self.message, object);
    }

    /// Sets a member of a canonical object, which stays canonical.
    pub fn set(&self, members: &mut Object, name: &str, value: impl Into<Value>) {
        self.codec().set(&self.message, members, name, value.into());
    }
}

/// Another version than the one in which stored objects are handled.
#[derive(Clone)]
pub struct Written {
    pub version: Text,
    pub api_version: Text,
    pub message: MessageRef,
    pub conversion: Conversion,
}
