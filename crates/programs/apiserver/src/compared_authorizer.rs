//! An authorizer whose refusals are compared with those of another server (`--compare-with`).

use std::sync::Arc;

use binnacle_authz::{Attributes, Authorizer, AuthzError, Rules, access_review};
use binnacle_comparison::{Refusal, Shadow};
use binnacle_request::{BoxFuture, Decision, RequestInfo, User};

pub(crate) struct ComparedAuthorizer {
    pub(crate) inner: Arc<dyn Authorizer>,
    pub(crate) shadow: Arc<Shadow>,
}

impl Authorizer for ComparedAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async move {
            let decision = self.inner.authorize(attributes).await?;
            if !decision.is_allow() && self.shadow.is_chosen() {
                self.shadow.refused(self.refusal(attributes));
            }
            Ok(decision)
        })
    }

    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        self.inner.rules_for(user, namespace)
    }
}

impl ComparedAuthorizer {
    fn refusal(&self, attributes: &Attributes<'_>) -> Refusal {
        let info = Arc::new(info(attributes));
        let (refused, authorizer) = (Arc::new((info.clone(), attributes.user.clone())), self.inner.clone());
        Refusal {
            info,
            review: access_review(attributes),
            is_refused: Box::new(move || {
                let (refused, authorizer) = (refused.clone(), authorizer.clone());
                Box::pin(async move {
                    let (info, user) = &*refused;
                    let decision = authorizer.authorize(&Attributes::of(info, user)).await;
                    decision.is_ok_and(|decision| !decision.is_allow())
                })
            }),
        }
    }
}

/// Returns the request with these attributes, without its user.
fn info(attributes: &Attributes<'_>) -> RequestInfo {
    RequestInfo {
        is_resource_request: attributes.is_resource_request,
        path: attributes.path.into(),
        verb: attributes.verb.into(),
        api_group: attributes.api_group.into(),
        api_version: attributes.api_version.into(),
        namespace: attributes.namespace.into(),
        resource: attributes.resource.into(),
        subresource: attributes.subresource.into(),
        name: attributes.name.into(),
        field_selector: attributes.field_selector.into(),
        label_selector: attributes.label_selector.into(),
        ..RequestInfo::default()
    }
}
