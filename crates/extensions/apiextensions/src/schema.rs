//! The schema of a version, in the form that the registry and the endpoints use.

use std::sync::Arc;

use binnacle_fields::meta::v1::PartialObjectMetadata as AnyKind;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{Text, go_quote};
use binnacle_schema::Value;
use binnacle_scheme::{
    Converter, CustomConversion, CustomDefaults, CustomPruning, CustomSource, CustomVersion, PruneResult,
};
use binnacle_structural::resource::{CoercionOptions, DeclaredType, ResourceSchema};

use crate::schemas::LazySchema;

/// The schema of one version, with those of the others.
pub(crate) struct VersionSchema {
    pub(crate) schema: Arc<LazySchema>,
    pub(crate) api_version: Text,
    pub(crate) preserve_unknown: bool,
    /// The conversion webhook, if versions differ in more than their names.
    pub(crate) converter: Option<Arc<dyn Converter>>,
    /// The `apiVersion` of stored objects.
    pub(crate) stored: Text,
    /// The schemas of all versions, by `apiVersion`.
    pub(crate) versions: Arc<[(Text, Arc<LazySchema>)]>,
    /// The `apiVersion` of each version that has a status of its own.
    pub(crate) with_status: Arc<[Text]>,
}

impl VersionSchema {
    fn reading(&self, from_store: bool) -> CoercionOptions {
        CoercionOptions { preserve_unknown: self.preserve_unknown, from_store, ..CoercionOptions::default() }
    }

    fn of(&self, api_version: &str) -> Result<&ResourceSchema, String> {
        let found = self.versions.iter().find(|(name, _)| *name == api_version);
        let unknown = || format!("no version of the definition is called {}", go_quote(api_version));
        found.map(|(_, schema)| schema.resource()).ok_or_else(unknown)
    }

    fn of_object(&self, object: &Value) -> Result<&ResourceSchema, String> {
        self.of(api_version(object))
    }

    /// Converts an object to another version without a webhook: changes the `apiVersion`, and drops the fields that the
    /// other version lacks.
    fn rename(&self, object: &mut Value, api_version: &Text, schema: &ResourceSchema) -> Result<(), String> {
        FieldMut::root(object).set(AnyKind::API_VERSION, api_version.clone());
        schema.read(object, self.reading(true)).map(drop).map_err(|error| error.to_string())
    }
}

impl CustomVersion for VersionSchema {
    fn api_version(&self) -> &str {
        &self.api_version
    }

    fn stored_version(&self) -> &str {
        &self.stored
    }

    fn has_status(&self, api_version: &str) -> bool {
        self.with_status.iter().any(|version| version == api_version)
    }
}

impl CustomPruning for VersionSchema {
    fn prune(&self, object: &mut Value, source: CustomSource) -> Result<PruneResult, String> {
        let reading = self.reading(source == CustomSource::Server);
        let (schema, reading) = match source {
            CustomSource::Request { report_unknown } => {
                let reading = CoercionOptions { report_unknown, ..reading };
                match self.of_object(object) {
                    Ok(schema) => (schema, reading),
                    Err(_) => (
                        self.schema.resource(),
                        CoercionOptions { declared_type: DeclaredType::UnknownVersion, ..reading },
                    ),
                }
            }
            CustomSource::RequestOfOtherKind { report_unknown } => (
                self.schema.resource(),
                CoercionOptions { report_unknown, declared_type: DeclaredType::OtherKind, ..reading },
            ),
            CustomSource::Apply => (self.schema.resource(), CoercionOptions { applied: true, ..reading }),
            CustomSource::Server => (self.of_object(object)?, reading),
        };
        let unknown = schema.read(object, reading).map_err(|error| error.to_string())?;
        let is_unpruned = source == CustomSource::Apply && !self.preserve_unknown && schema.prunes_applied(object);
        Ok(PruneResult { unknown, is_unpruned })
    }
}

impl CustomDefaults for VersionSchema {
    fn set_defaults(&self, object: &mut Value) -> bool {
        self.of_object(object).is_ok_and(|schema| schema.set_defaults(object))
    }

    fn prunes_defaults(&self) -> bool {
        self.schema.resource().prunes_defaults()
    }
}

impl CustomConversion for VersionSchema {
    fn converter(&self) -> Option<&Arc<dyn Converter>> {
        self.converter.as_ref()
    }

    fn to_stored(&self, object: &mut Value) -> Result<(), String> {
        let schema = self.of(&self.stored)?;
        self.rename(object, &self.stored, schema)
    }

    fn read_stored(&self, object: &mut Value) -> Result<(), String> {
        if self.converter.is_some() {
            // The object was pruned and defaulted before it was converted.
            return Ok(());
        }
        let schema = self.of_object(object)?;
        schema.read(object, self.reading(true)).map_err(|error| error.to_string())?;
        schema.set_defaults(object);
        if api_version(object) != self.api_version {
            self.rename(object, &self.api_version, self.schema.resource())?;
        }
        Ok(())
    }
}

fn api_version(object: &Value) -> &str {
    FieldRef::root(object).at(AnyKind::API_VERSION).str()
}
