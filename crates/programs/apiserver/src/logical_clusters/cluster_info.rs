//! The facts about a logical cluster that need no running cluster.

use std::sync::atomic::AtomicBool;

use binnacle_meta::Text;
use binnacle_pki::ClusterKeys;

use super::limits::Limits;

/// What the host knows of a logical cluster that is not awake.
pub(crate) struct ClusterInfo {
    pub(crate) name: Text,
    /// The UID of its object, which its keys in the stores contain.
    pub(crate) uid: Text,
    pub(crate) keys: ClusterKeys,
    pub(crate) limits: Limits,
    /// True once the cluster was started by this process, and has the objects that every cluster has.
    pub(crate) has_started: AtomicBool,
}
