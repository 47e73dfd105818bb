//! The buckets of watchers.

use crate::selection::Property;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BucketKind {
    /// True if the namespace is part of the bucket's key.
    pub(crate) namespaced: bool,
    pub(crate) property: Option<Property>,
}

/// The bucket of a watcher, which is needed to remove it.
#[derive(Debug)]
pub(crate) struct BucketKey {
    pub(crate) kind: BucketKind,
    pub(crate) hash: u64,
}
