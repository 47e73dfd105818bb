//! The resources whose objects controllers handle without knowing their kinds.

use std::collections::HashSet;
use std::sync::Arc;

use binnacle_registry::{Resource, Snapshot};
use binnacle_scheme::Verb;

/// Returns the resources whose objects can be deleted, each in its preferred version, in the order of discovery. Objects
/// that several groups serve are in one of them.
pub(crate) fn deletable(snapshot: &Snapshot) -> Vec<Arc<Resource>> {
    let mut prefixes = HashSet::new();
    let groups = snapshot.served().groups();
    let descriptions = groups.into_iter().flat_map(|group| &group.versions).flat_map(|version| version.resources.own());
    let stored = descriptions.filter(|description| description.verbs.contains(Verb::Delete));
    let resources = stored.filter_map(|it| snapshot.find(&it.group, &it.version, &it.plural)).cloned();
    resources.filter(|resource| prefixes.insert(resource.collection.prefix.clone())).collect()
}
