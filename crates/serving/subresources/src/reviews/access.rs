//! SubjectAccessReview and its variants: whether a user is allowed to perform an action.

use std::sync::Arc;

use binnacle_authz::Authorizer;
use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_fields::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview as Review, SubjectAccessReviewSpec as Spec,
    SubjectAccessReviewStatus as ReviewStatus,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{ErrorValue, FieldErrors, GroupKind, Status};
use binnacle_registry::admission::Admission;
use binnacle_registry::object;
use binnacle_request::{BoxFuture, Decision};
use binnacle_schema::{Value, canonical, json, value};

use super::{attributes, selectors, user};
use crate::posted_object::{PostedKind, PostedObject};

const GROUP: &str = "authorization.k8s.io";

/// The subject of a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The user in the spec.
    Named,
    /// The user in the spec, for actions in the review's namespace.
    NamedIn,
    /// The caller.
    Caller,
}

pub(crate) struct AccessReview {
    subject: Subject,
    admission: Arc<dyn Admission>,
    authorizer: Arc<dyn Authorizer>,
}

impl AccessReview {
    pub(crate) fn new(subject: Subject, admission: Arc<dyn Admission>, authorizer: Arc<dyn Authorizer>) -> Self {
        Self { subject, admission, authorizer }
    }

    fn kind(&self) -> PostedKind {
        PostedKind::new(
            GROUP,
            "v1",
            match self.subject {
                Subject::Named => "SubjectAccessReview",
                Subject::NamedIn => "LocalSubjectAccessReview",
                Subject::Caller => "SelfSubjectAccessReview",
            },
        )
    }

    async fn review(&self, call: SubresourceCall) -> HandlerResult {
        let mut posted = PostedObject::read(call, &self.kind(), &self.admission).await?;
        let errors = validate(self.subject, &posted.object, posted.message);
        if !errors.is_empty() {
            // kube-apiserver reads the kind from the object, where it was already removed.
            return Err(Status::invalid(&GroupKind::new(GROUP, ""), "", &errors));
        }
        let namespace = &posted.context.namespace;
        if self.subject == Subject::NamedIn && object::namespace(&posted.object) != namespace {
            return Err(Status::bad_request(format!(
                "spec.resourceAttributes.namespace must match namespace: {namespace}"
            )));
        }
        posted.validate(&self.admission).await?;
        let request = FieldRef::<Review>::root(&posted.object);
        let spec = request.at(Review::SPEC);
        let subject = match self.subject {
            Subject::Caller => posted.context.user.clone(),
            Subject::Named | Subject::NamedIn => user::from_spec(spec),
        };
        let status = self.status(spec, &subject).await;
        let mut review = std::mem::take(&mut *posted.object);
        FieldMut::root(&mut review).set(Review::STATUS, status);
        posted.respond(review)
    }

    async fn status(&self, spec: FieldRef<'_, '_, Spec>, subject: &binnacle_request::User) -> Value {
        let action = attributes::ReviewedAction::of(&spec);
        let decision = self.authorizer.authorize(&action.attributes(subject)).await;
        let failure = decision.as_ref().err().map(|error| error.message.clone());
        let errors: Vec<String> = failure.into_iter().chain(action.selector_errors().map(str::to_owned)).collect();
        let mut object = value!({"allowed": (decision.as_ref().is_ok_and(Decision::is_allow))});
        let mut status = FieldMut::<ReviewStatus>::root(&mut object);
        let (denied, reason) = match &decision {
            Ok(decision) => (matches!(decision, Decision::Deny(_)), decision.reason()),
            Err(error) => (error.denies, error.reason.as_str()),
        };
        if denied {
            status.set(ReviewStatus::DENIED, true);
        }
        if !reason.is_empty() {
            status.set(ReviewStatus::REASON, reason);
        }
        if !errors.is_empty() {
            status.set(ReviewStatus::EVALUATION_ERROR, errors.join("; "));
        }
        object
    }
}

impl SubresourceHandler for AccessReview {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(self.review(call))
    }
}

fn validate(subject: Subject, review: &Value, message: &binnacle_schema::Message) -> FieldErrors {
    let mut errors = FieldErrors::new();
    // Reviews of other kinds have the same fields, or a subset.
    let fields = FieldRef::<Review>::root(review);
    let (metadata, spec) = (fields.at(Review::METADATA), fields.at(Review::SPEC));
    let (resource, path) = (spec.at(Spec::RESOURCE_ATTRIBUTES), spec.at(Spec::NON_RESOURCE_ATTRIBUTES));
    if resource.is_set() && path.is_set() {
        let detail = "cannot be specified in combination with resourceAttributes";
        errors.push(path.invalid_as(path_error_value(path), detail));
    }
    if !resource.is_set() && !path.is_set() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(resource.invalid_as(path_error_value(path), detail));
    }
    let user = spec.at(Spec::USER);
    if subject != Subject::Caller && user.is_empty() && spec.at(Spec::GROUPS).is_empty() {
        errors.push(user.invalid_as("", "at least one of user or group must be specified"));
    }
    selectors::validate(resource, &mut errors);
    let allowed_members: &[&str] = match subject {
        Subject::NamedIn => &[ObjectMeta::MANAGED_FIELDS.name(), ObjectMeta::NAMESPACE.name()],
        Subject::Named | Subject::Caller => &[ObjectMeta::MANAGED_FIELDS.name()],
    };
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Str(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let has_other_members = metadata.object().is_some_and(|members| {
        members.iter().any(|(name, value)| !allowed_members.contains(&name.as_str()) && !is_empty(value))
    });
    if has_other_members {
        let detail = if subject == Subject::NamedIn { "must be empty except for namespace" } else { "must be empty" };
        errors.push(metadata.invalid_as(metadata_error_value(review, message), detail));
    }
    if subject == Subject::NamedIn {
        let namespace = resource.at(ResourceAttributes::NAMESPACE);
        if resource.is_set() && namespace.str() != object::namespace(review) {
            errors.push(namespace.invalid_as(namespace.str(), "must match metadata.namespace"));
        }
        if path.is_set() {
            errors.push(path.invalid_as(path_error_value(path), "disallowed on this kind of request"));
        }
    }
    errors
}

/// Returns the attributes of a path in the format of kube-apiserver's internal type.
fn path_error_value(attributes: FieldRef<NonResourceAttributes>) -> ErrorValue {
    let Some(attributes) = attributes.set() else { return ErrorValue::raw("null") };
    let path = attributes.at(NonResourceAttributes::PATH).str();
    let verb = attributes.at(NonResourceAttributes::VERB).str();
    ErrorValue::raw(json::to_string(&value!({"Path": path, "Verb": verb})))
}

fn metadata_error_value(review: &Value, message: &binnacle_schema::Message) -> ErrorValue {
    let mut shown = value!({"metadata": (object::metadata(review).clone())});
    canonical::canonicalize(&mut shown, message);
    ErrorValue::raw(json::to_string(object::metadata(&shown)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_access_reviews() {
        let pods = || value!({"verb": "get", "resource": "pods", "namespace": "a"});
        let path = || value!({"verb": "get", "path": "/"});
        let cases = [
            (Subject::Named, value!({"spec": {"user": "x", "resourceAttributes": (pods())}}), vec![]),
            (
                Subject::Named,
                value!({"spec": {}}),
                vec![
                    "spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
                    "spec.user: Invalid value: \"\": at least one of user or group must be specified",
                ],
            ),
            (
                Subject::Caller,
                value!({"spec": {"resourceAttributes": (pods()), "nonResourceAttributes": (path())}}),
                vec![
                    "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes",
                ],
            ),
            (
                Subject::Named,
                value!({"metadata": {"name": "x", "managedFields": [{"manager": "m"}]}, "spec": {"groups": ["g"], "nonResourceAttributes": (path())}}),
                vec![
                    "metadata: Invalid value: {\"name\":\"x\",\"managedFields\":[{\"manager\":\"m\"}]}: must be empty",
                ],
            ),
            (
                Subject::NamedIn,
                value!({"metadata": {"namespace": "b"}, "spec": {"user": "x", "resourceAttributes": (pods())}}),
                vec!["spec.resourceAttributes.namespace: Invalid value: \"a\": must match metadata.namespace"],
            ),
            (
                Subject::NamedIn,
                value!({"metadata": {"namespace": "b", "labels": {"a": "b"}}, "spec": {"user": "x", "nonResourceAttributes": (path())}}),
                vec![
                    "metadata: Invalid value: {\"namespace\":\"b\",\"labels\":{\"a\":\"b\"}}: must be empty except for namespace",
                    "spec.nonResourceAttributes: Invalid value: {\"Path\":\"/\",\"Verb\":\"get\"}: disallowed on this kind of request",
                ],
            ),
        ];
        let message = PostedKind::new(GROUP, "v1", "SubjectAccessReview").message().unwrap();
        for (subject, review, want) in cases {
            let errors: Vec<_> = validate(subject, &review, message).iter().map(ToString::to_string).collect();
            assert_eq!(errors, want);
        }
    }
}
