//! Groups and versions of aggregated documents, of this server and others.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_scheme::RemoteResource;

/// A group of an aggregated document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredGroup {
    pub name: Text,
    /// In order of preference.
    pub versions: Vec<DiscoveredVersion>,
}

/// A version of a [`DiscoveredGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredVersion {
    pub version: Text,
    /// True if the last attempt to fetch its resources failed.
    pub is_stale: bool,
    pub resources: Arc<[RemoteResource]>,
}
