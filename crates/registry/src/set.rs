//! All resources of a server, found by name. Hooks and admission, which are part of resources, hold the set before the
//! resources exist; it is bound once they do.

use std::sync::{Arc, OnceLock};

use binnacle_meta::Status;

use crate::resource::Resource;

/// A handle; clones are the same set.
#[derive(Clone, Default)]
pub struct ResourceSet(Arc<OnceLock<Vec<Arc<Resource>>>>);

impl ResourceSet {
    /// A set that is not bound yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fills the set, once: what a later call brings is not taken. Says whether it was the first.
    pub fn bind(&self, resources: &[Arc<Resource>]) -> bool {
        let mut sorted = resources.to_vec();
        sorted.sort_by_key(|resource| name(resource));
        self.0.set(sorted).is_ok()
    }

    /// All of them; none while the set is not bound.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.0.get().into_iter().flatten()
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        let sorted = self.0.get()?;
        let at = sorted.binary_search_by(|resource| name(resource).cmp(&(group, version, plural))).ok()?;
        sorted.get(at)
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

fn name(resource: &Resource) -> (&'static str, &'static str, &'static str) {
    let d = resource.description;
    (d.group, d.version, d.plural)
}
