//! All resources of a server, found by name. Hooks and admission, which are part of resources, hold the set before the
//! resources exist; it is bound once they do.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use binnacle_meta::Status;

use crate::resource::Resource;

/// A handle; clones are the same set.
#[derive(Clone, Default)]
pub struct ResourceSet(Arc<OnceLock<HashMap<Name, Arc<Resource>>>>);

/// Group, version, plural.
type Name = (&'static str, &'static str, &'static str);

impl ResourceSet {
    /// A set that is not bound yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fills the set, once: what a later call brings is not taken. Says whether it was the first.
    pub fn bind(&self, resources: &[Arc<Resource>]) -> bool {
        let named = resources.iter().map(|resource| {
            let d = resource.description;
            ((d.group, d.version, d.plural), resource.clone())
        });
        self.0.set(named.collect()).is_ok()
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.0.get()?.get(&(group, version, plural))
    }

    /// [`ResourceSet::find`] for who cannot do without: a version that is not served, or a set that is not bound, is an
    /// internal error.
    pub fn require(&self, group: &str, version: &str, plural: &str) -> Result<&Arc<Resource>, Status> {
        self.find(group, version, plural).ok_or_else(|| {
            tracing::error!(group, version, plural, "the server itself needs a resource that it does not serve");
            Status::internal(format!("{plural}.{version}.{group} is not served"))
        })
    }
}
