//! The objects of extension API servers, as controllers see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_controllers::WriteAuditor;
use binnacle_meta::GroupVersionResource;
use binnacle_request::{BoxFuture, User};

/// Extension API servers.
pub trait RemoteContents: Send + Sync {
    /// Deletes the objects of all resources in a namespace, in the name of a user.
    fn delete_all<'a>(
        &'a self,
        namespace: &'a str,
        user: &'a Arc<User>,
        auditor: Option<&'a WriteAuditor>,
    ) -> BoxFuture<'a, RemoteDeletions>;
}

/// The deletions in a namespace.
#[derive(Debug, Default)]
pub struct RemoteDeletions {
    pub resources: Vec<(GroupVersionResource, RemoteDeletion)>,
    /// The group versions whose resources are not known, with the reasons.
    pub unknown: BTreeMap<String, String>,
}

/// The deletion of the objects of a resource.
#[derive(Debug, Default)]
pub struct RemoteDeletion {
    /// The number of objects whose deletion was requested.
    pub deleted: usize,
    pub remaining: usize,
    /// The number of remaining objects by finalizer.
    pub finalizers: BTreeMap<String, usize>,
    pub failure: Option<String>,
}
