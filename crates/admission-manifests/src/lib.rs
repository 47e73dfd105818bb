//! Webhooks and policies of admission that stand in files of the server (`staticManifestsDir`, KEP-5793): they are in force
//! before the first request, cannot be removed through the API, and also cover the objects that configure admission.
//!
//! [`load`] reads and validates a directory; [`Followed`] does so again whenever it changes, and keeps the former
//! objects in force when it is wrong.

mod documents;
mod files;
mod followed;
mod judge;
mod metrics;
mod sort;

use std::path::Path;

use binnacle_meta::go_quote;
use binnacle_schema::Value;

pub use followed::{Directory, Followed};
pub use metrics::Metrics;
pub use sort::{Manifests, StoredTypes};

/// The objects of a directory.
#[derive(Clone, Debug, Default)]
pub struct Loaded {
    /// Webhook configurations or policies, by name.
    pub objects: Vec<Value>,
    /// The bindings of policies, by name.
    pub bindings: Vec<Value>,
    /// The hash of the files; empty without any.
    pub hash: String,
}

/// Why the manifests of a plugin cannot be used when the server starts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "failed to initialize admission plugin {}: failed to load static {} manifests from {}: {why}",
    go_quote(sort.plugin()),
    sort.subject(),
    go_quote(directory)
)]
pub struct LoadError {
    pub sort: Manifests,
    pub directory: String,
    pub why: String,
}

/// Reads all manifests of a directory.
///
/// # Errors
/// In kube-apiserver's words, with the file in which something is wrong.
pub fn load(sort: Manifests, directory: &Path, types: &StoredTypes) -> Result<Loaded, String> {
    let read = files::read(directory)?;
    let mut judge = judge::Judge::new(sort, types);
    for document in &read.documents {
        judge.take(document).map_err(|why| format!("error loading {}: {why}", document.path))?;
    }
    let (objects, bindings) = judge.finish()?;
    Ok(Loaded { objects, bindings, hash: read.hash })
}
