//! The schemas of custom resources, as far as those who serve them see.

use binnacle_schema::Value;

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

    /// Puts in what the schema says that values are where none are given.
    fn set_defaults(&self, object: &mut Value);
}
