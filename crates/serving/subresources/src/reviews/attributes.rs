//! The action of a review, as authorization attributes.

use binnacle_authz::Attributes;
use binnacle_fields::FieldRef;
use binnacle_fields::authorization::v1::{
    NonResourceAttributes, ResourceAttributes as Resource, SubjectAccessReviewSpec as Spec,
};
use binnacle_request::User;

use super::selectors::{self, ParsedSelector};

/// An action, with the errors of its selectors.
pub(super) struct ReviewedAction<'a> {
    resource: Option<FieldRef<'a, 'a, Resource>>,
    path: FieldRef<'a, 'a, NonResourceAttributes>,
    fields: ParsedSelector,
    labels: ParsedSelector,
}

impl<'a> ReviewedAction<'a> {
    pub(super) fn of(spec: &'a FieldRef<'_, 'a, Spec>) -> Self {
        let resource = spec.at(Spec::RESOURCE_ATTRIBUTES).set();
        Self {
            resource,
            path: spec.at(Spec::NON_RESOURCE_ATTRIBUTES),
            fields: resource.map(selectors::fields).unwrap_or_default(),
            labels: resource.map(selectors::labels).unwrap_or_default(),
        }
    }

    /// Returns the attributes for authorizing `user`.
    pub(super) fn attributes<'b>(&'b self, user: &'b User) -> Attributes<'b> {
        let of_resource = |field| self.resource.map_or("", |resource| resource.at(field).str());
        let of_path = |field| if self.resource.is_some() { "" } else { self.path.at(field).str() };
        // A review without a version applies to all versions.
        let version = match of_resource(Resource::VERSION) {
            "" if self.resource.is_some() => "*",
            version => version,
        };
        Attributes {
            user,
            verb: match self.resource {
                Some(_) => of_resource(Resource::VERB),
                None => of_path(NonResourceAttributes::VERB),
            },
            is_resource_request: self.resource.is_some(),
            path: of_path(NonResourceAttributes::PATH),
            api_group: of_resource(Resource::GROUP),
            api_version: version,
            namespace: of_resource(Resource::NAMESPACE),
            resource: of_resource(Resource::RESOURCE),
            subresource: of_resource(Resource::SUBRESOURCE),
            name: of_resource(Resource::NAME),
            field_selector: &self.fields.text,
            label_selector: &self.labels.text,
        }
    }

    /// Returns messages about ignored selectors and requirements. Ignoring one requires more permissions, never fewer.
    pub(super) fn selector_errors(&self) -> impl Iterator<Item = &'static str> {
        let fields = self.fields.failed.then_some(if self.fields.text.is_empty() {
            "spec.resourceAttributes.fieldSelector ignored due to parse error"
        } else {
            "spec.resourceAttributes.fieldSelector partially ignored due to parse error"
        });
        let labels = self.labels.failed.then_some(if self.labels.text.is_empty() {
            "spec.resourceAttributes.labelSelector ignored due to parse error"
        } else {
            "spec.resourceAttributes.labelSelector partially ignored due to parse error"
        });
        fields.into_iter().chain(labels)
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn converts_reviews_to_authorizer_attributes() {
        let user = User::new("x", &[]);
        let spec = value!({"resourceAttributes": {"verb": "list", "group": "apps", "resource": "deployments",
        "fieldSelector": {"rawSelector": "a=b"},
        "labelSelector": {"requirements": [
            {"key": "a", "operator": "In", "values": ["c", "b"]}, {"key": "b", "operator": "Near"},
            {"key": "c", "operator": "DoesNotExist"}
        ]}}});
        let spec = FieldRef::root(&spec);
        let action = ReviewedAction::of(&spec);
        let attributes = action.attributes(&user);
        assert_eq!(
            (attributes.verb, attributes.api_group, attributes.api_version, attributes.resource),
            ("list", "apps", "*", "deployments")
        );
        assert_eq!(attributes.label_selector, "a in (b,c),!c");
        assert_eq!(
            action.selector_errors().collect::<Vec<_>>(),
            ["spec.resourceAttributes.labelSelector partially ignored due to parse error"]
        );
        let spec = value!({"resourceAttributes": {"version": "v1", "fieldSelector": {"rawSelector": "nothing"}}});
        let spec = FieldRef::root(&spec);
        let action = ReviewedAction::of(&spec);
        assert_eq!((action.attributes(&user).api_version, action.attributes(&user).field_selector), ("v1", ""));
        assert_eq!(
            action.selector_errors().collect::<Vec<_>>(),
            ["spec.resourceAttributes.fieldSelector ignored due to parse error"]
        );
        let spec = value!({"nonResourceAttributes": {"verb": "get", "path": "/metrics"}});
        let spec = FieldRef::root(&spec);
        let action = ReviewedAction::of(&spec);
        let attributes = action.attributes(&user);
        assert_eq!(
            (attributes.is_resource_request, attributes.verb, attributes.path, attributes.api_version),
            (false, "get", "/metrics", "")
        );
    }
}
