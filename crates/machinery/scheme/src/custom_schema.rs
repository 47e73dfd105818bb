//! The interface of custom resources' schemas to the code that serves them.

use std::pin::Pin;
use std::sync::Arc;

use binnacle_schema::Value;

use crate::ReadFailure;

/// The future of converted objects; the error is for clients.
pub type Converted<'a> = Pin<Box<dyn Future<Output = Result<Vec<Value>, ReadFailure>> + Send + 'a>>;

/// Converts objects of a custom resource to another version by other means than schemas, which takes time and may fail.
pub trait Converter: Send + Sync + 'static {
    /// Converts the objects to the version `api_version`, in their order. None of them is in that version yet.
    ///
    /// Errors: of many objects that are too large together, fewer may be converted.
    fn convert(&self, objects: Vec<Value>, api_version: &str) -> Converted<'_>;
}

/// The schema of one version of a custom resource. Its objects are free-form trees, stored as JSON with sorted members;
/// this schema validates and prunes them instead of a [`binnacle_schema::Message`].
pub trait CustomSchema: Send + Sync + 'static {
    /// Fits a decoded object to the schema of the version that it names, without a conversion: prunes unknown fields, and
    /// coerces metadata to `ObjectMeta`. Returns the paths of unknown fields if `tell_unknown`, in kube-apiserver's order.
    ///
    /// Errors: metadata with fields of a wrong type, in Go's words.
    fn read(&self, object: &mut Value, tell_unknown: bool) -> Result<Vec<String>, String>;

    /// [`CustomSchema::read`] for an object of another kind, to which the schema does not apply: only metadata is coerced.
    ///
    /// Errors: as for [`CustomSchema::read`].
    fn read_metadata(&self, object: &mut Value, tell_unknown: bool) -> Result<Vec<String>, String>;

    /// [`CustomSchema::read`] with defaults, for an object from the store, which should always be readable: malformed
    /// metadata is dropped.
    ///
    /// Errors: as for [`CustomSchema::read`], if dropping metadata does not help.
    fn read_stored(&self, object: &mut Value) -> Result<(), String>;

    /// Converts an object of this version to the stored version, which may have fewer fields.
    ///
    /// Errors: metadata that the other version cannot have.
    fn to_stored(&self, object: &mut Value) -> Result<(), String>;

    /// Returns true if this is the storage version.
    fn is_stored(&self) -> bool;

    /// Returns the converter, if versions differ in more than their names. Objects from the store are then converted to
    /// this version before [`CustomSchema::read_stored`].
    fn converter(&self) -> Option<&Arc<dyn Converter>>;

    /// Returns the `apiVersion` of this version.
    fn api_version(&self) -> &str;

    /// Returns the `apiVersion` of stored objects.
    fn stored_version(&self) -> &str;

    /// Returns true if the version `api_version` of the definition has a status of its own.
    fn has_status(&self, api_version: &str) -> bool;

    /// [`CustomSchema::read_stored`] in the version that the object names, without converting it.
    ///
    /// Errors: as there, and for versions that the definition does not have.
    fn read_given(&self, object: &mut Value) -> Result<(), String>;

    /// Fits an object that was converted to the schema of the version that it names.
    ///
    /// Errors: as for [`CustomSchema::read_given`].
    fn fit(&self, object: &mut Value) -> Result<(), String>;

    /// Sets the schema's defaults for absent values. Returns true if any was set.
    fn set_defaults(&self, object: &mut Value) -> bool;

    /// Returns true if objects may have nulls from defaults, which go when they are stored.
    fn prunes_defaults(&self) -> bool;

    /// [`CustomSchema::read`] for the result of server-side apply: unknown fields are not reported. They and nulls stay until
    /// the object is stored, as in kube-apiserver, so that what judges the update sees them: returns true if there are any.
    ///
    /// Errors: as for [`CustomSchema::read`].
    fn read_applied(&self, object: &mut Value) -> Result<bool, String>;
}
