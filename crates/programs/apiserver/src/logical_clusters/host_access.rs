//! Access of the host's users to a logical cluster.
//!
//! They are unknown in it, except those with the verb `impersonate` on `logicalclusters/access` of the cluster in the
//! host: these are its administrators.

use std::sync::Arc;

use binnacle_authn::{AuthenticationResponse, Authenticator, AuthnError, Credentials, Notes};
use binnacle_authz::{Attributes, Authorizer, Decision};
use binnacle_meta::Text;
use binnacle_request::{BoxFuture, User};

use super::definition::{GROUP, PLURAL, VERSION};

/// The prefix of names that could be names of the cluster's own users.
const RESERVED: &str = "system:";

/// The users of a host, and their permissions.
#[derive(Clone)]
pub(crate) struct HostUsers {
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) audiences: Arc<[Text]>,
    pub(crate) authorizer: Arc<dyn Authorizer>,
}

/// Accepts the users of a cluster, and the host's users with access to it.
pub(crate) struct HostAccess {
    pub(crate) own: Arc<dyn Authenticator>,
    pub(crate) host: HostUsers,
    /// The name of the cluster.
    pub(crate) cluster: Text,
}

impl HostAccess {
    /// Returns the user of the host that has these credentials and access to the cluster.
    async fn host_user(&self, credentials: Credentials<'_>) -> Option<Arc<User>> {
        let credentials = Credentials { audiences: &self.host.audiences, ..credentials };
        // Errors are the cluster's own: those of the host would reveal which of its users exist.
        let user = self.host.authenticator.authenticate(credentials).await.ok()??.user;
        if user.name == User::ANONYMOUS {
            return None;
        }
        let attributes = Attributes {
            verb: "impersonate",
            is_resource_request: true,
            api_group: GROUP,
            api_version: VERSION,
            resource: PLURAL,
            subresource: "access",
            name: &self.cluster,
            ..Attributes::nothing(&user)
        };
        match self.host.authorizer.authorize(&attributes).await {
            Ok(Decision::Allow(_)) => Some(user),
            Ok(_) | Err(_) => None,
        }
    }
}

impl Authenticator for HostAccess {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(async move {
            let own = self.own.authenticate(credentials).await;
            if let Ok(Some(_)) = own {
                return own;
            }
            match self.host_user(credentials).await {
                Some(user) => Ok(Some(AuthenticationResponse {
                    user: administrator(&user),
                    audiences: Vec::new(),
                    notes: Notes::default(),
                    live: true,
                })),
                None => own,
            }
        })
    }
}

/// Returns the user in the cluster for a user of the host.
fn administrator(user: &User) -> Arc<User> {
    let name = match user.name.starts_with(RESERVED) {
        true => Text::from(format!("host:{}", user.name)),
        false => user.name.clone(),
    };
    let groups = [User::MASTERS, User::AUTHENTICATED];
    Arc::new(User { uid: user.uid.clone(), ..User::new(name, &groups) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_the_host_are_no_users_of_the_cluster() {
        for (name, want) in [("jane", "jane"), ("system:node:a", "host:system:node:a")] {
            let user = User { uid: "7".into(), ..User::new(name, &["system:nodes", "ops"]) };
            let administrator = administrator(&user);
            assert_eq!((&*administrator.name, &*administrator.uid), (want, "7"));
            assert_eq!(administrator.groups, [User::MASTERS, User::AUTHENTICATED]);
        }
    }
}
