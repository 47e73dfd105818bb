//! The resource that a request matches as.

use binnacle_meta::{GroupVersionKind, GroupVersionResource};

/// The resource and kind that a request matches as: its own, or those of an equivalent resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedResource {
    pub resource: GroupVersionResource,
    pub kind: GroupVersionKind,
}
