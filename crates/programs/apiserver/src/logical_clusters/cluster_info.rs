//! The facts about a logical cluster that need no running cluster.

use binnacle_controlplane::Bootstrap;
use binnacle_meta::Text;
use binnacle_pki::ClusterKeys;
use parking_lot::Mutex;

use super::limits::{Limits, Quota};

/// What the host knows of a logical cluster that is not awake.
pub(crate) struct ClusterInfo {
    pub(crate) name: Text,
    /// The UID of its object, which its keys in the stores contain.
    pub(crate) uid: Text,
    pub(crate) keys: ClusterKeys,
    pub(crate) limits: Limits,
    bootstrap: Mutex<Bootstrap>,
}

impl ClusterInfo {
    pub(super) fn new((name, uid): (Text, Text), keys: ClusterKeys, quota: Quota, bootstrap: Bootstrap) -> Self {
        Self { name, uid, keys, limits: Limits::new(quota), bootstrap: Mutex::new(bootstrap) }
    }

    /// Returns what is known of the objects that every cluster has. They are complete once the cluster was started by this
    /// process.
    pub(super) fn bootstrap(&self) -> Bootstrap {
        *self.bootstrap.lock()
    }

    pub(super) fn set_bootstrap(&self, bootstrap: Bootstrap) {
        *self.bootstrap.lock() = bootstrap;
    }
}
