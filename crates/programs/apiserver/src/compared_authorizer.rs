//! An authorizer whose refusals are compared with those of another server (`--compare-with`).

use std::sync::Arc;

use binnacle_authz::{Attributes, Authorizer, AuthzError, Rules, access_review};
use binnacle_comparison::{Refusal, Shadow};
use binnacle_request::{BoxFuture, Decision, User};

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
        let (refused, authorizer) = (Arc::new(OwnedAttributes::of(attributes)), self.inner.clone());
        Refusal {
            verb: attributes.verb.to_owned(),
            resource: refused.place(),
            review: access_review(attributes),
            is_refused: Box::new(move || {
                let (refused, authorizer) = (refused.clone(), authorizer.clone());
                Box::pin(async move {
                    let decision = authorizer.authorize(&refused.attributes()).await;
                    decision.is_ok_and(|decision| !decision.is_allow())
                })
            }),
        }
    }
}

/// The attributes of a refused request, which outlive it.
struct OwnedAttributes {
    user: User,
    is_resource_request: bool,
    /// All other attributes, in the order of [`OwnedAttributes::attributes`].
    texts: [String; 10],
}

impl OwnedAttributes {
    fn of(attributes: &Attributes<'_>) -> Self {
        let Attributes { user, verb, is_resource_request, path, api_group, api_version, .. } = *attributes;
        let Attributes { namespace, resource, subresource, name, field_selector, label_selector, .. } = *attributes;
        let texts = [
            verb,
            path,
            api_group,
            api_version,
            namespace,
            resource,
            subresource,
            name,
            field_selector,
            label_selector,
        ];
        Self { user: user.clone(), is_resource_request, texts: texts.map(str::to_owned) }
    }

    fn attributes(&self) -> Attributes<'_> {
        let [
            verb,
            path,
            api_group,
            api_version,
            namespace,
            resource,
            subresource,
            name,
            field_selector,
            label_selector,
        ] = self.texts.each_ref().map(String::as_str);
        Attributes {
            user: &self.user,
            is_resource_request: self.is_resource_request,
            verb,
            path,
            api_group,
            api_version,
            namespace,
            resource,
            subresource,
            name,
            field_selector,
            label_selector,
        }
    }

    /// Returns `resource.group/subresource`, or the first part of another path.
    fn place(&self) -> String {
        let attributes = self.attributes();
        if !attributes.is_resource_request {
            return format!("/{}", attributes.path.trim_start_matches('/').split('/').next().unwrap_or_default());
        }
        let resource = attributes.group_resource();
        match attributes.subresource {
            "" => resource.to_string(),
            subresource => format!("{resource}/{subresource}"),
        }
    }
}
