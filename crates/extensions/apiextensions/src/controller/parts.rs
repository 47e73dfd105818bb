//! The parts of stored definitions. Most of a definition are its schemas, which are only read when their resource is
//! first asked for.

use std::sync::Arc;

use crate::{Definition, SchemaOrigin, SchemaReader};
use binnacle_meta::Status;
use binnacle_registry::Resource;
use binnacle_schema::{Message, Value};
use binnacle_watchcache::Entry;

/// Reads parts of definitions in the cache.
pub(super) struct Parts {
    resource: Arc<Resource>,
    /// All but the schemas.
    served: Message,
    /// The schemas.
    schemas: Arc<Message>,
}

/// One definition at one revision.
struct Stored {
    resource: Arc<Resource>,
    schemas: Arc<Message>,
    entry: Arc<Entry>,
}

impl Parts {
    pub(super) fn new(resource: &Arc<Resource>) -> Self {
        let narrowed = |paths: &[&[&str]]| resource.collection.narrowed(paths);
        Self {
            resource: resource.clone(),
            served: narrowed(Definition::PARTS),
            schemas: Arc::new(narrowed(&[&["spec", "versions", "schema", "openAPIV3Schema"]])),
        }
    }

    /// Decodes all but the schemas of a definition.
    pub(super) fn of(&self, entry: &Entry) -> Result<Value, Status> {
        self.resource.collection.part(&self.served, &entry.value(), entry.revision())
    }

    /// Returns the place of the schemas of a definition.
    pub(super) fn origin(&self, entry: &Arc<Entry>) -> Arc<SchemaOrigin> {
        let Self { resource, schemas, .. } = self;
        let stored = Stored { resource: resource.clone(), schemas: schemas.clone(), entry: entry.clone() };
        Arc::new(SchemaOrigin::new(Arc::new(stored)))
    }
}

impl SchemaReader for Stored {
    fn schema(&self, version: usize) -> Option<Value> {
        let entry = &self.entry;
        // An error is logged there; the definition was readable when it was served.
        let mut part = self.resource.collection.part(&self.schemas, &entry.value(), entry.revision()).ok()?;
        let version = part.at_mut(&["spec", "versions"])?.as_list_mut()?.get_mut(version)?;
        let schema = version.at_mut(&["schema", "openAPIV3Schema"]).map(std::mem::take)?;
        (!schema.is_null()).then_some(schema)
    }
}
