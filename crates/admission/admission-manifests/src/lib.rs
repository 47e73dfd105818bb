//! Admission webhooks and policies from manifest files (`staticManifestsDir`, KEP-5793). They are active before the
//! first request, cannot be removed through the API, and also apply to the objects that configure admission.
//!
//! [`load`] reads and validates a directory. [`ManifestReloader`] reloads a directory when it changes, and keeps the previous
//! objects active while it is invalid.

mod documents;
mod files;
mod manifest_type;
mod metrics;
mod reload;
mod validate;

use std::path::Path;

use binnacle_meta::go_quote;
use binnacle_schema::Value;

pub use manifest_type::{ManifestType, StoredTypes};
pub use metrics::Metrics;
pub use reload::{Directory, ManifestReloader};

/// The validated objects of a directory.
#[derive(Clone, Debug, Default)]
pub struct ManifestSet {
    /// Webhook configurations or policies, sorted by name.
    pub objects: Vec<Value>,
    /// Policy bindings, sorted by name.
    pub bindings: Vec<Value>,
    /// The hash of the files; empty if there are none.
    pub hash: String,
}

/// The error of a plugin whose manifests cannot be loaded at startup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to initialize admission plugin {}: failed to load static {} manifests from {}: {why}",
    go_quote(manifest_type.plugin()),
    manifest_type.subject(),
    go_quote(directory)
)]
pub struct LoadError {
    pub manifest_type: ManifestType,
    pub directory: String,
    pub why: String,
}

/// Loads all manifests of a directory.
///
/// # Errors
///
/// Returns kube-apiserver's message, which has the name of the invalid file.
pub fn load(manifest_type: ManifestType, directory: &Path, types: &StoredTypes) -> Result<ManifestSet, String> {
    let read = files::read(directory)?;
    let mut validator = validate::Validator::new(manifest_type, types);
    for document in &read.documents {
        validator.add_document(document).map_err(|why| format!("error loading {}: {why}", document.path))?;
    }
    let (objects, bindings) = validator.finish()?;
    Ok(ManifestSet { objects, bindings, hash: read.hash })
}
