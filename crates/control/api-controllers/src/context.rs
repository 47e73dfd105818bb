//! What the controllers of one cluster share.

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_controllers::{Objects, Queues, WriteAuditor};
use binnacle_meta::Status;
use binnacle_registry::{Catalog, Resource};
use binnacle_request::{Shutdown, User};

use crate::leadership::LeadershipHandle;
use crate::remote_contents::RemoteContents;

/// The manager of fields that controllers set.
const MANAGER: &str = "kube-controller-manager";
/// The namespace of the controllers' service accounts.
const NAMESPACE: &str = "kube-system";

/// The shared state of the controllers of one cluster.
#[derive(Clone)]
pub(crate) struct ClusterContext {
    pub(crate) resources: Catalog,
    pub(crate) leadership: LeadershipHandle,
    pub(crate) queues: Queues,
    /// The file with the authorities of the server's certificate.
    pub(crate) authorities: PathBuf,
    /// The extension API servers.
    pub(crate) remote: Option<Arc<dyn RemoteContents>>,
    pub(crate) auditor: Option<Arc<WriteAuditor>>,
    pub(crate) shutdown: Shutdown,
}

impl ClusterContext {
    /// Returns a client of a resource that acts as the service account of a controller. Its roles are among those that
    /// every cluster has.
    pub(crate) fn objects(
        &self,
        account: &str,
        (group, version, plural): (&str, &str, &str),
    ) -> Result<Objects, Status> {
        Ok(self.objects_of(account, self.resources.require(group, version, plural)?))
    }

    /// Returns the authorities of the server's certificate, as PEM. The file changes when the authority is renewed.
    pub(crate) async fn read_authorities(&self) -> Result<String, Status> {
        let file = &self.authorities;
        let bundle = tokio::fs::read_to_string(file).await;
        bundle.map_err(|error| Status::internal(format!("{}: {error}", file.display())))
    }

    /// Returns a client that acts as a user.
    pub(crate) fn objects_in_name_of(
        &self,
        user: &Arc<User>,
        (group, version, plural): (&str, &str, &str),
    ) -> Result<Objects, Status> {
        Ok(self.client(self.resources.require(group, version, plural)?, user.clone()))
    }

    /// Returns a client like [`ClusterContext::objects`].
    pub(crate) fn objects_of(&self, account: &str, resource: Arc<Resource>) -> Objects {
        self.client(resource, Arc::new(account_user(account)))
    }

    fn client(&self, resource: Arc<Resource>, user: Arc<User>) -> Objects {
        Objects::of(resource).managed_by(MANAGER).in_name_of(user).audited_by(self.auditor.clone())
    }
}

/// Returns the user of a controller's service account.
pub(crate) fn account_user(name: &str) -> User {
    let groups = ["system:serviceaccounts", "system:serviceaccounts:kube-system", User::AUTHENTICATED];
    User::new(User::service_account_name(NAMESPACE, name), &groups)
}
