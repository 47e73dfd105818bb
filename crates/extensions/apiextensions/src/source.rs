//! The sources of a definition's schemas, which make up most of a definition, and are not needed before the first
//! request for its resource.

use std::fmt;
use std::sync::Arc;

use binnacle_schema::Value;
use binnacle_store::Revision;
use binnacle_structural::UnsupportedKeyword;
use parking_lot::Mutex;

/// Reads the schemas of one definition.
pub trait SchemaReader: Send + Sync {
    /// Returns `openAPIV3Schema` of the n-th version; `None` if it has none or cannot be read.
    fn schema(&self, version: usize) -> Option<Value>;

    /// Returns the revision of the stored definition, `None` if it is not stored.
    fn revision(&self) -> Option<Revision> {
        None
    }
}

/// The schemas of one definition.
pub struct SchemaOrigin(Mutex<Arc<dyn SchemaReader>>);

/// `openAPIV3Schema` of a version.
#[derive(Clone, Debug)]
pub struct SchemaSource {
    origin: Arc<SchemaOrigin>,
    version: usize,
    /// The reason why the schema cannot be served, if the check has found one.
    pub(crate) unsupported: Option<UnsupportedKeyword>,
}

/// Schemas in memory.
struct Trees(Vec<Option<Value>>);

impl SchemaReader for Trees {
    fn schema(&self, version: usize) -> Option<Value> {
        self.0.get(version).cloned().flatten()
    }
}

impl SchemaOrigin {
    pub fn new(reader: Arc<dyn SchemaReader>) -> Self {
        Self(Mutex::new(reader))
    }

    pub(crate) fn of_trees(trees: Vec<Option<Value>>) -> Self {
        Self::new(Arc::new(Trees(trees)))
    }

    /// Returns `openAPIV3Schema` of the n-th version.
    pub fn schema(&self, version: usize) -> Option<Value> {
        self.reader().schema(version)
    }

    /// Returns the revision of the stored definition, `None` if it is not stored.
    pub(crate) fn revision(&self) -> Option<Revision> {
        self.reader().revision()
    }

    /// Replaces the reader by that of a newer origin with the same schemas.
    pub fn renew(&self, newer: &Self) {
        let reader = newer.reader();
        *self.0.lock() = reader;
    }

    fn reader(&self) -> Arc<dyn SchemaReader> {
        self.0.lock().clone()
    }
}

impl fmt::Debug for SchemaOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemaOrigin").finish_non_exhaustive()
    }
}

impl SchemaSource {
    /// Returns the source of the n-th version.
    pub(crate) fn new(origin: &Arc<SchemaOrigin>, version: usize) -> Self {
        Self { origin: origin.clone(), version, unsupported: None }
    }

    /// Reads the schema.
    pub fn tree(&self) -> Option<Value> {
        self.origin.schema(self.version)
    }
}
