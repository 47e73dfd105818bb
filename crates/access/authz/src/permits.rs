//! Issues permits: this is the only place where an allowed request gets one.

use binnacle_meta::Status;
use binnacle_request::{Action, CreatePermit, Decision, Permit, RequestInfo, User};

use crate::{Attributes, Authorizer, AuthzError, forbidden};

/// Authorizes a request, with a permit if it is allowed.
pub async fn authorize_with_permit(
    authorizer: &dyn Authorizer,
    attributes: &Attributes<'_>,
) -> Result<(Decision, Option<Permit>), AuthzError> {
    let decision = authorizer.authorize(attributes).await?;
    let permit = permit(&decision, attributes);
    Ok((decision, permit))
}

/// Authorizes an update or patch to create its object, which does not exist. The verbs `update` and `patch` do not
/// include `create`.
///
/// Returns 403 as for a `POST`, or 500 if the authorizers fail.
pub async fn permit_create(
    authorizer: &dyn Authorizer,
    info: &RequestInfo,
    user: &User,
) -> Result<CreatePermit, Status> {
    let attributes =
        Attributes { verb: "create", field_selector: "", label_selector: "", ..Attributes::of(info, user) };
    let (decision, permit) =
        authorize_with_permit(authorizer, &attributes).await.map_err(|error| Status::internal(error.to_string()))?;
    permit.and_then(|permit| permit.for_create()).ok_or_else(|| forbidden(&attributes, decision.reason()))
}

#[expect(clippy::disallowed_methods, reason = "the permit follows from the decision of the authorizers")]
fn permit(decision: &Decision, attributes: &Attributes<'_>) -> Option<Permit> {
    let action = || Action {
        verb: attributes.verb.into(),
        group: attributes.api_group.into(),
        resource: attributes.resource.into(),
        subresource: attributes.subresource.into(),
        namespace: attributes.namespace.into(),
        name: attributes.name.into(),
    };
    decision.is_allow().then(action).and_then(|action| Permit::from_decision(decision, action))
}
