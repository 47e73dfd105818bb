//! The schemas of custom resources, as the code that serves them sees them.

use std::pin::Pin;
use std::sync::Arc;

use binnacle_schema::Value;

/// Objects on their way into another version; the error is for clients.
pub type Converted<'a> = Pin<Box<dyn Future<Output = Result<Vec<Value>, String>> + Send + 'a>>;

/// Brings objects of a custom resource into another version by other means than schemas, which takes time and may fail.
pub trait Converter: Send + Sync + 'static {
    /// The objects in the version of an `apiVersion`, in their order. None of them is of that version yet.
    fn convert(&self, objects: Vec<Value>, api_version: &str) -> Converted<'_>;
}

/// The schema of one version of a custom resource. Its objects are free trees, stored as JSON with sorted members, which
/// the schema validates and prunes in place of a [`binnacle_schema::Message`].
pub trait CustomSchema: Send + Sync + 'static {
    /// Fits a decoded object to this schema: unknown fields are pruned, and metadata is coerced to `ObjectMeta`.
    /// Returns the paths of unknown fields where they are wanted, in kube-apiserver's order.
    ///
    /// Errors: metadata with fields of a wrong type, in Go's words.
    fn read(&self, object: &mut Value, tell_unknown: bool) -> Result<Vec<String>, String>;

    /// [`CustomSchema::read`] and the defaults, for an object from the store, which must be readable: malformed
    /// metadata is left out.
    ///
    /// Errors: as there, where leaving out does not help.
    fn read_stored(&self, object: &mut Value) -> Result<(), String>;

    /// Turns an object of this version into the one that is stored, which may have fewer fields.
    ///
    /// Errors: metadata that the other version cannot have.
    fn to_stored(&self, object: &mut Value) -> Result<(), String>;

    /// True when objects are stored in this version.
    fn is_stored(&self) -> bool;

    /// The converter between versions where they differ in more than their names. Objects from the store are then
    /// converted to this version before [`CustomSchema::read_stored`] sees them.
    fn converter(&self) -> Option<&Arc<dyn Converter>>;

    /// The `apiVersion` of this version.
    fn api_version(&self) -> &str;

    /// The `apiVersion` in which objects are stored.
    fn stored_version(&self) -> &str;

    /// [`CustomSchema::read_stored`] in the version that the object names, in which it stays.
    ///
    /// Errors: as there, and versions that the definition does not have.
    fn read_given(&self, object: &mut Value) -> Result<(), String>;

    /// Makes an object that was converted fit the version that it names.
    ///
    /// Errors: as for [`CustomSchema::read_given`].
    fn fit(&self, object: &mut Value) -> Result<(), String>;

    /// Sets the schema's defaults where no values are given. True when any was set.
    fn set_defaults(&self, object: &mut Value) -> bool;

    /// [`CustomSchema::read`] of an object that server-side apply has merged: nulls stay, and unknown fields are not
    /// reported.
    ///
    /// Errors: as there.
    fn read_applied(&self, object: &mut Value) -> Result<(), String>;
}
