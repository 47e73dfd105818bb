//! The interface of custom resources' schemas to the code that serves them.

use std::pin::Pin;
use std::sync::Arc;

use binnacle_schema::Value;

use crate::read_failure::ReadFailure;

/// The future of converted objects; the error is for clients.
pub type ConversionFuture<'a> = Pin<Box<dyn Future<Output = Result<Vec<Value>, ReadFailure>> + Send + 'a>>;

/// Converts objects of a custom resource to another version by other means than schemas, which takes time and may fail.
pub trait Converter: Send + Sync + 'static {
    /// Converts the objects to the version `api_version`, in their order. None of them is in that version.
    ///
    /// If the objects are too large together, only some of them may be converted.
    fn convert(&self, objects: Vec<Value>, api_version: &str) -> ConversionFuture<'_>;
}

/// The schema of one version of a custom resource. Its objects are free-form trees, stored as JSON with sorted members;
/// this schema validates and prunes them instead of a [`binnacle_schema::Message`].
///
/// It has no methods of its own: one trait for each concern has them.
///
/// | concern | trait |
/// | --- | --- |
/// | which version this is, and which is stored | [`CustomVersion`] |
/// | pruning of unknown fields and coercion of metadata | [`CustomPruning`] |
/// | defaults | [`CustomDefaults`] |
/// | conversion to and from the stored version | [`CustomConversion`] |
pub trait CustomSchema: CustomVersion + CustomPruning + CustomDefaults + CustomConversion {}

impl<T: CustomVersion + CustomPruning + CustomDefaults + CustomConversion> CustomSchema for T {}

/// The version of a [`CustomSchema`] among those of its definition.
pub trait CustomVersion: Send + Sync + 'static {
    /// Returns the `apiVersion` of this version.
    fn api_version(&self) -> &str;

    /// Returns the `apiVersion` of stored objects.
    fn stored_version(&self) -> &str;

    /// Returns true if this is the storage version.
    fn is_stored(&self) -> bool {
        self.stored_version() == self.api_version()
    }

    /// Returns true if the version `api_version` of the definition has a status of its own.
    fn has_status(&self, api_version: &str) -> bool;
}

/// The source of an object, which decides how [`CustomPruning::prune`] treats it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CustomSource {
    /// A client. The schema of this version applies if the definition lacks the version that the object names.
    Request {
        /// True to report the paths of unknown fields.
        report_unknown: bool,
    },
    /// A client, with an object of another kind, to which the schema does not apply: only metadata is coerced.
    RequestOfOtherKind {
        /// True to report the paths of unknown fields.
        report_unknown: bool,
    },
    /// Server-side apply, whose result is in this version. Unknown fields and nulls are kept until the object is
    /// stored, as in kube-apiserver, so that validation of the update sees them.
    Apply,
    /// The store, a converter or admission: malformed metadata is dropped, since the object should always be readable.
    Server,
}

/// The result of [`CustomPruning::prune`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneResult {
    /// The paths of unknown fields, in kube-apiserver's order, if they were to be reported.
    pub unknown: Vec<String>,
    /// True if the result of server-side apply has unknown fields or nulls that are not pruned yet.
    pub is_unpruned: bool,
}

/// The part of a [`CustomSchema`] that coerces objects to it.
pub trait CustomPruning: Send + Sync + 'static {
    /// Coerces a decoded object to the schema of its own version, without a conversion or defaults: prunes unknown
    /// fields, and coerces metadata to `ObjectMeta`.
    ///
    /// # Errors
    ///
    /// Go's error for metadata with fields of a wrong type, and for an object of the server, an error for a version
    /// that the definition does not have.
    fn prune(&self, object: &mut Value, source: CustomSource) -> Result<PruneResult, String>;
}

/// The part of a [`CustomSchema`] that sets defaults.
pub trait CustomDefaults: Send + Sync + 'static {
    /// Sets the defaults of the version that the object names, for absent values. Returns true if any was set.
    fn set_defaults(&self, object: &mut Value) -> bool;

    /// Returns true if defaults may add nulls that are pruned when an object is stored.
    fn prunes_defaults(&self) -> bool;
}

/// The part of a [`CustomSchema`] that converts between this version and the stored one.
pub trait CustomConversion: Send + Sync + 'static {
    /// Returns the converter, if versions differ in more than their names. Objects from the store are then converted to
    /// this version before [`CustomConversion::read_stored`], and [`CustomConversion::to_stored`] is not called.
    fn converter(&self) -> Option<&Arc<dyn Converter>>;

    /// Converts an object of this version to the stored version, which may have fewer fields.
    ///
    /// # Errors
    ///
    /// Metadata that the other version cannot have.
    fn to_stored(&self, object: &mut Value) -> Result<(), String>;

    /// Coerces an object from the store to this version, and sets defaults.
    ///
    /// # Errors
    ///
    /// As for [`CustomPruning::prune`], if dropping metadata does not help.
    fn read_stored(&self, object: &mut Value) -> Result<(), String>;
}
