//! Impersonation without the constrained modes (`ConstrainedImpersonation=false`): one verb, independent of the
//! request. Nearly the same as the legacy mode, with differences that are visible to clients.

use binnacle_authn::service_account::{groups as account_groups, split_username};
use binnacle_authz::{Attributes, Authorizer, forbidden};
use binnacle_meta::{Status, Text};
use binnacle_request::{Decision, User};
use binnacle_work::charge;

use super::mode::Mode;
use super::modes::{AUTHENTICATION, STEPS_PER_CHECK, complete_groups};

/// Returns the user that the caller becomes.
pub(super) async fn check(authorizer: &dyn Authorizer, target: &User, requestor: &User) -> Result<User, Status> {
    let mut user = target.clone();
    let base = Attributes { verb: Mode::Legacy.verb(), is_resource_request: true, ..Attributes::nothing(requestor) };
    let in_core_group = |resource: &'static str, name| Attributes { resource, name, ..base };
    let in_authentication_group =
        |attributes| Attributes { api_group: AUTHENTICATION, api_version: "v1", ..attributes };
    let name = match split_username(&target.name) {
        Some((namespace, name)) => {
            if target.groups.is_empty() {
                user.groups = account_groups(namespace);
            }
            Attributes { namespace, ..in_core_group("serviceaccounts", name) }
        }
        None => in_core_group("users", &target.name),
    };
    authorize(authorizer, &name).await?;
    for group in &target.groups {
        authorize(authorizer, &in_core_group("groups", group)).await?;
    }
    for (key, values) in &target.extra {
        for value in values {
            authorize(
                authorizer,
                &Attributes { subresource: key, ..in_authentication_group(in_core_group("userextras", value)) },
            )
            .await?;
        }
    }
    if !target.uid.is_empty() {
        authorize(authorizer, &in_authentication_group(in_core_group("uids", &target.uid))).await?;
    }
    complete_groups(&mut user);
    Ok(user)
}

/// Returns the error for a user without a name: all its parts, as Go prints them.
pub(super) fn missing_name_error(target: &User) -> Status {
    let part = |kind: &str, name: &Text, version: &str, key: &str| format!("{{{kind}  {name}  {version}  {key}}}");
    let groups = target.groups.iter().map(|group| part("Group", group, "", ""));
    let extra = target.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    let version = format!("{AUTHENTICATION}/v1");
    let extra = extra.map(|(key, value)| part("UserExtra", value, &version, key));
    let uid = Some(&target.uid).filter(|uid| !uid.is_empty()).map(|uid| part("UID", uid, &version, ""));
    let parts: Vec<String> = groups.chain(extra).chain(uid).collect();
    Status::bad_request(format!("requested [{}] without impersonating a user", parts.join(" ")))
}

async fn authorize(authorizer: &dyn Authorizer, attributes: &Attributes<'_>) -> Result<(), Status> {
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
