//! The schema of a version, as those who serve it see it.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::Value;
use binnacle_scheme::CustomSchema;
use binnacle_structural::resource::{Reading, ResourceSchema};

/// One version's schema. Objects of other versions, which differ in nothing but their name, are read as this one's.
pub(crate) struct VersionSchema {
    pub(crate) schema: Arc<ResourceSchema>,
    pub(crate) api_version: Text,
    pub(crate) preserve_unknown: bool,
}

impl CustomSchema for VersionSchema {
    fn read(&self, object: &mut Value, tell_unknown: bool) -> Result<Vec<String>, String> {
        let reading = Reading { tell_unknown, preserve_unknown: self.preserve_unknown, from_store: false };
        self.schema.read(object, reading).map_err(|error| error.to_string())
    }

    fn read_stored(&self, object: &mut Value) -> Result<(), String> {
        let reading = Reading { tell_unknown: false, preserve_unknown: self.preserve_unknown, from_store: true };
        self.schema.read(object, reading).map_err(|error| error.to_string())?;
        object.make_object().insert("apiVersion", self.api_version.clone());
        self.schema.set_defaults(object);
        Ok(())
    }

    fn set_defaults(&self, object: &mut Value) {
        self.schema.set_defaults(object);
    }
}
