//! A version's part of the OpenAPI documents.

use std::fmt;
use std::sync::Arc;

use binnacle_meta::{GroupVersionKind, Text};
use binnacle_schema::Value;
use binnacle_scheme::{OpenApiDefinitions, OpenApiVersion};
use binnacle_structural::openapi::{self, SpecVersion};

use crate::definition::{Definition, Version};
use crate::schemas::LazySchema;

/// A version of a definition, for the OpenAPI documents.
pub(crate) struct PublishedVersion {
    kind: GroupVersionKind,
    list_kind: Text,
    plural: Text,
    schema: Arc<LazySchema>,
    preserve_unknown: bool,
    /// The paths of selectable fields.
    selectable: Vec<Text>,
}

impl PublishedVersion {
    pub(crate) fn new(definition: &Definition, version: &Version, schema: Arc<LazySchema>) -> Self {
        let names = &definition.accepted;
        Self {
            kind: GroupVersionKind::new(definition.group.clone(), version.name.clone(), names.kind.clone()),
            list_kind: names.list_kind.clone(),
            plural: names.plural.clone(),
            schema,
            preserve_unknown: definition.preserve_unknown,
            selectable: version.selectable.clone(),
        }
    }

    fn with_published<T>(&self, schema: Option<&Value>, build: impl FnOnce(openapi::CrdVersion<'_>) -> T) -> T {
        let selectable = self.selectable.iter().map(|path| path.strip_prefix('.').unwrap_or(path));
        build(openapi::CrdVersion {
            kind: &self.kind,
            schema,
            preserve_unknown: self.preserve_unknown,
            selectable: selectable.collect(),
        })
    }
}

impl fmt::Debug for PublishedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishedVersion").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl OpenApiDefinitions for PublishedVersion {
    fn object(&self, version: OpenApiVersion) -> Value {
        let schema = self.schema.tree();
        self.with_published(schema.as_ref(), |published| published.definition(form(version)))
    }

    fn list(&self, version: OpenApiVersion) -> Value {
        self.with_published(None, |published| published.list_definition(form(version), &self.list_kind, &self.plural))
    }
}

fn form(version: OpenApiVersion) -> SpecVersion {
    match version {
        OpenApiVersion::V2 => SpecVersion::V2,
        OpenApiVersion::V3 => SpecVersion::V3,
    }
}
