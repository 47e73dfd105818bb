//! The parts of a host in the requests of a logical cluster.

use std::sync::Arc;

use binnacle_audit::Auditor;
use binnacle_meta::Text;
use binnacle_server::RequestQuota;

/// A logical cluster as its host distinguishes it from others.
pub(super) struct Tenant {
    /// The host's auditor.
    pub(super) auditor: Option<Arc<Auditor>>,
    /// The annotation of audit events with the name of the cluster.
    pub(super) audit_annotation: (Text, Text),
    /// The caller that all requests are charged to: the administrators of one cluster must not take what is reserved for
    /// those of the host, nor more than a cluster's share.
    pub(super) charged_to: Text,
    /// Limits on all requests of the cluster together.
    pub(super) quota: Arc<RequestQuota>,
}
