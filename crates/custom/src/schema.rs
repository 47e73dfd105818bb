//! The schema of a version, as those who serve it see it.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::Value;
use binnacle_scheme::CustomSchema;
use binnacle_structural::resource::{Reading, ResourceSchema};

/// One version's schema, beside those of the others.
pub(crate) struct VersionSchema {
    pub(crate) schema: Arc<ResourceSchema>,
    pub(crate) api_version: Text,
    pub(crate) preserve_unknown: bool,
    /// True where only a webhook knows how versions differ.
    pub(crate) by_webhook: bool,
    /// The `apiVersion` in which objects are stored.
    pub(crate) stored: Text,
    /// All versions, by `apiVersion`.
    pub(crate) versions: Arc<[(Text, Arc<ResourceSchema>)]>,
}

impl VersionSchema {
    fn reading(&self, from_store: bool) -> Reading {
        Reading { tell_unknown: false, preserve_unknown: self.preserve_unknown, from_store }
    }

    fn of(&self, api_version: &str) -> Option<&ResourceSchema> {
        self.versions.iter().find(|(name, _)| *name == api_version).map(|(_, schema)| &**schema)
    }

    /// Names another version: objects of versions that no webhook converts differ in nothing else, but for what the
    /// other version does not know.
    fn rename(&self, object: &mut Value, api_version: &Text, schema: &ResourceSchema) -> Result<(), String> {
        if self.by_webhook {
            let kind = object.str_at(&["kind"]);
            return Err(format!(
                "conversion webhook for {api_version}, Kind={kind} failed: this server does not call it"
            ));
        }
        object.make_object().insert("apiVersion", api_version.clone());
        schema.read(object, self.reading(true)).map(drop).map_err(|error| error.to_string())
    }
}

impl CustomSchema for VersionSchema {
    fn read(&self, object: &mut Value, tell_unknown: bool) -> Result<Vec<String>, String> {
        let reading = Reading { tell_unknown, ..self.reading(false) };
        self.schema.read(object, reading).map_err(|error| error.to_string())
    }

    fn read_stored(&self, object: &mut Value) -> Result<(), String> {
        let given = Text::from(object.str_at(&["apiVersion"]));
        let schema = self.of(&given).ok_or_else(|| format!("no version of the definition is called {given:?}"))?;
        schema.read(object, self.reading(true)).map_err(|error| error.to_string())?;
        schema.set_defaults(object);
        if given != self.api_version {
            self.rename(object, &self.api_version, &self.schema)?;
        }
        Ok(())
    }

    fn to_stored(&self, object: &mut Value) -> Result<(), String> {
        let schema = self.of(&self.stored).ok_or_else(|| "the stored version has no schema".to_owned())?;
        self.rename(object, &self.stored, schema)
    }

    fn is_stored(&self) -> bool {
        self.stored == self.api_version
    }

    fn set_defaults(&self, object: &mut Value) {
        self.schema.set_defaults(object);
    }
}
