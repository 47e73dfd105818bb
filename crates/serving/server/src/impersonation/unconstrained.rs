//! Impersonation without the constrained modes (`ConstrainedImpersonation=false`): one verb, independent of the
//! request. Nearly the same as the legacy mode, with differences that clients can see.

use binnacle_authn::service_account::{groups as account_groups, split_username};
use binnacle_authz::{Attributes, Authorizer, forbidden};
use binnacle_meta::{Status, Text};
use binnacle_request::{Decision, User};
use binnacle_work::charge;

use super::modes::{AUTHENTICATION, Mode, STEPS_PER_CHECK, complete_groups};

/// Returns the user that the caller becomes.
pub(super) async fn check(authorizer: &dyn Authorizer, wanted: &User, requestor: &User) -> Result<User, Status> {
    let mut user = wanted.clone();
    let asked = Attributes { verb: Mode::Legacy.verb(), is_resource_request: true, ..Attributes::nothing(requestor) };
    let core = |resource: &'static str, name| Attributes { resource, name, ..asked };
    let ours = |attributes| Attributes { api_group: AUTHENTICATION, api_version: "v1", ..attributes };
    let name = match split_username(&wanted.name) {
        Some((namespace, name)) => {
            if wanted.groups.is_empty() {
                user.groups = account_groups(namespace);
            }
            Attributes { namespace, ..core("serviceaccounts", name) }
        }
        None => core("users", &wanted.name),
    };
    allowed(authorizer, &name).await?;
    for group in &wanted.groups {
        allowed(authorizer, &core("groups", group)).await?;
    }
    for (key, values) in &wanted.extra {
        for value in values {
            allowed(authorizer, &Attributes { subresource: key, ..ours(core("userextras", value)) }).await?;
        }
    }
    if !wanted.uid.is_empty() {
        allowed(authorizer, &ours(core("uids", &wanted.uid))).await?;
    }
    complete_groups(&mut user);
    Ok(user)
}

/// Returns the error for a user without a name: all its parts, as Go prints them.
pub(super) fn nameless(wanted: &User) -> Status {
    let part = |kind: &str, name: &Text, version: &str, key: &str| format!("{{{kind}  {name}  {version}  {key}}}");
    let groups = wanted.groups.iter().map(|group| part("Group", group, "", ""));
    let extra = wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    let version = format!("{AUTHENTICATION}/v1");
    let extra = extra.map(|(key, value)| part("UserExtra", value, &version, key));
    let uid = Some(&wanted.uid).filter(|uid| !uid.is_empty()).map(|uid| part("UID", uid, &version, ""));
    let parts: Vec<String> = groups.chain(extra).chain(uid).collect();
    Status::bad_request(format!("requested [{}] without impersonating a user", parts.join(" ")))
}

async fn allowed(authorizer: &dyn Authorizer, attributes: &Attributes<'_>) -> Result<(), Status> {
    charge(STEPS_PER_CHECK)?;
    match authorizer.authorize(attributes).await {
        Ok(Decision::Allow(_)) => Ok(()),
        Ok(decision) => Err(forbidden(attributes, decision.reason())),
        Err(error) => {
            tracing::debug!("impersonation could not be authorized: {error}");
            Err(forbidden(attributes, &error.reason))
        }
    }
}
