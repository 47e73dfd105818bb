//! The schemas of custom resources, as far as those who serve them see.

use std::pin::Pin;
use std::sync::Arc;

use binnacle_schema::Value;

/// Objects on their way into another version; the error is for clients.
pub type Converted<'a> = Pin<Box<dyn Future<Output = Result<Vec<Value>, String>> + Send + 'a>>;

/// Brings objects of a custom resource into another version where schemas cannot tell how, which takes time and may fail.
pub trait Converter: Send + Sync + 'static {
    /// The objects in the version of an `apiVersion`, in their order. None of them is of that version yet.
    fn convert(&self, objects: Vec<Value>, api_version: &str) -> Converted<'_>;
}

/// The schema of one version of a custom resource. Its objects are free trees, stored as JSON with sorted members, which
/// the schema makes fit instead of a [`binnacle_schema::Message`].
pub trait CustomSchema: Send + Sync + 'static {
    /// Makes a decoded object one of this schema: what it does not know goes, and metadata becomes metadata. Returns the
    /// paths of unknown fields where they are wanted, in kube-apiserver's order.
    ///
    /// Errors: metadata with fields of a wrong type, in Go's words.
    fn read(&self, object: &mut Value, tell_unknown: bool) -> Result<Vec<String>, String>;

    /// [`CustomSchema::read`] and the defaults, for an object from the store, which must be readable: what is malformed
    /// in its metadata is left out.
    ///
    /// Errors: as there, where nothing can be left out.
    fn read_stored(&self, object: &mut Value) -> Result<(), String>;

    /// Turns an object of this version into the one that is stored, which may know less.
    ///
    /// Errors: metadata that the other version cannot have.
    fn to_stored(&self, object: &mut Value) -> Result<(), String>;

    /// True when objects are stored in this version.
    fn is_stored(&self) -> bool;

    /// Who converts between versions where they differ in more than their names. What is read from the store is then
    /// brought into this version before [`CustomSchema::read_stored`] sees it.
    fn converter(&self) -> Option<&Arc<dyn Converter>>;

    /// The `apiVersion` of this version.
    fn api_version(&self) -> &str;

    /// The `apiVersion` in which objects are stored.
    fn stored_version(&self) -> &str;

    /// [`CustomSchema::read_stored`] in whatever version the object names, in which it stays.
    ///
    /// Errors: as there, and versions that the definition does not have.
    fn read_given(&self, object: &mut Value) -> Result<(), String>;

    /// Makes an object that was converted fit the version that it names.
    ///
    /// Errors: as for [`CustomSchema::read_given`].
    fn fit(&self, object: &mut Value) -> Result<(), String>;

    /// Puts in what the schema says that values are where none are given. True when anything was.
    fn set_defaults(&self, object: &mut Value) -> bool;

    /// [`CustomSchema::read`] of what server-side apply has merged: nulls stay, and nothing is told of unknown fields.
    ///
    /// Errors: as there.
    fn read_applied(&self, object: &mut Value) -> Result<(), String>;
}
