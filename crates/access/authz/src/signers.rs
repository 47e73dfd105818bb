//! Authorization of actions on certificate signers.

use binnacle_request::{Decision, User};

use crate::{Attributes, Authorizer};

/// Returns true if the user may `approve`, `sign` or `attest` for a signer, or for all signers of its domain. Returns
/// false if the authorizer fails.
pub async fn is_allowed_for_signer(authorizer: &dyn Authorizer, user: &User, verb: &str, signer: &str) -> bool {
    let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
    for name in [signer, &format!("{domain}/*")] {
        let attributes = Attributes {
            verb,
            is_resource_request: true,
            api_group: "certificates.k8s.io",
            api_version: "*",
            resource: "signers",
            name,
            ..Attributes::nothing(user)
        };
        match authorizer.authorize(&attributes).await {
            Ok(Decision::Allow(_)) => return true,
            Ok(_) => {}
            Err(error) => tracing::warn!(user = %user.name, %error, "failed to authorize {verb} for signer {name}"),
        }
    }
    false
}
