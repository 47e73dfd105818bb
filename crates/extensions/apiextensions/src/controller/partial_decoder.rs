//! Decoding of parts of stored definitions. Schemas make up most of a definition, and are read only at the first
//! request for its resource.

use std::sync::Arc;

use crate::{Definition, SchemaOrigin, SchemaReader};
use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinition as Crd, CustomResourceDefinitionSpec as Spec, CustomResourceDefinitionVersion as Version,
    CustomResourceValidation as Validation, JSONSchemaProps,
};
use binnacle_fields::{FieldMut, Route};
use binnacle_meta::Status;
use binnacle_registry::Resource;
use binnacle_schema::{Message, Value};
use binnacle_scheme::{StoredKind, StoredType};
use binnacle_store::Revision;
use binnacle_watchcache::Entry;

/// Decodes parts of definitions in the watch cache.
pub(super) struct PartialDecoder {
    resource: Arc<Resource>,
    /// All but the schemas.
    without_schemas: Message,
    /// The schemas.
    schemas: Arc<Message>,
}

/// One definition at one revision. It has nothing of a cluster, since others with the same definition share it.
struct StoredDefinition {
    stored: Arc<StoredType>,
    schemas: Arc<Message>,
    entry: Arc<Entry>,
}

impl PartialDecoder {
    pub(super) fn new(resource: &Arc<Resource>) -> Self {
        let narrow = |paths: &[Vec<&str>]| {
            let paths: Vec<&[&str]> = paths.iter().map(Vec::as_slice).collect();
            resource.collection.narrowed(&paths)
        };
        let schemas = Definition::SCHEMAS.names();
        // The empty name leaves the properties of schemas without fields.
        let presence = [schemas.as_slice(), &[JSONSchemaProps::PROPERTIES.name(), ""]].concat();
        let parts: Vec<_> = Definition::PARTS.iter().map(Route::names).chain([presence]).collect();
        Self { resource: resource.clone(), without_schemas: narrow(&parts), schemas: Arc::new(narrow(&[schemas])) }
    }

    /// Decodes all but the schemas of a definition.
    pub(super) fn of(&self, entry: &Entry) -> Result<Value, Status> {
        self.resource.collection.part(&self.without_schemas, &entry.value(), entry.revision())
    }

    /// Returns the origin from which the schemas of a definition are read.
    pub(super) fn origin(&self, entry: &Arc<Entry>) -> Arc<SchemaOrigin> {
        let Self { resource, schemas, .. } = self;
        let stored = resource.collection.kind.clone();
        let definition = StoredDefinition { stored, schemas: schemas.clone(), entry: entry.clone() };
        Arc::new(SchemaOrigin::new(Arc::new(definition)))
    }
}

impl SchemaReader for StoredDefinition {
    fn revision(&self) -> Option<Revision> {
        Some(self.entry.revision())
    }

    fn schema(&self, version: usize) -> Option<Value> {
        let api_version = self.stored.storage.group_version_kind().api_version();
        let kind = StoredKind::new(&self.stored, &api_version);
        let part = self.stored.codec().index(&kind, &self.schemas, &self.entry.value());
        // The definition was readable when the server started to serve it.
        let (mut part, _) = part.inspect_err(|why| tracing::error!(%why, "schemas cannot be decoded")).ok()?;
        let mut definition = FieldMut::<Crd>::root(&mut part);
        let mut spec = definition.structure(Crd::SPEC)?;
        let mut version = spec.items(Spec::VERSIONS).nth(version)?;
        version.structure(Version::SCHEMA)?.take(Validation::OPEN_APIV3_SCHEMA)
    }
}
