//! SubjectAccessReview and its variants: whether a user may do an action.

use std::sync::Arc;

use binnacle_authz::Authorizer;
use binnacle_endpoints::{Answer, UnstoredCall, UnstoredHandler};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath, GroupKind, Status};
use binnacle_registry::admission::Admission;
use binnacle_registry::object;
use binnacle_request::{BoxFuture, Decision};
use binnacle_schema::{Object, Value, canonical, json};

use super::{attributes, selectors, user};
use crate::posted::{ExpectedKind, PostedObject};

const GROUP: &str = "authorization.k8s.io";

/// The user that a review is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The user of the spec.
    Named,
    /// The user of the spec, for actions in the review's namespace.
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

    fn kind(&self) -> ExpectedKind {
        ExpectedKind::new(
            GROUP,
            "v1",
            match self.subject {
                Subject::Named => "SubjectAccessReview",
                Subject::NamedIn => "LocalSubjectAccessReview",
                Subject::Caller => "SelfSubjectAccessReview",
            },
        )
    }

    async fn review(&self, call: UnstoredCall) -> Answer {
        let mut posted = PostedObject::read(call, &self.kind(), &self.admission).await?;
        let errors = validate(self.subject, &posted.object, posted.message);
        if !errors.is_empty() {
            // kube-apiserver reads the kind from the object, where it is already empty.
            return Err(Status::invalid(&GroupKind::new(GROUP, ""), "", &errors));
        }
        let namespace = &posted.context.namespace;
        if self.subject == Subject::NamedIn && object::namespace(&posted.object) != namespace {
            return Err(Status::bad_request(format!(
                "spec.resourceAttributes.namespace must match namespace: {namespace}"
            )));
        }
        posted.validate(&self.admission).await?;
        let spec = posted.object.get("spec").unwrap_or(&Value::Null);
        let subject = match self.subject {
            Subject::Caller => posted.context.user.clone(),
            Subject::Named | Subject::NamedIn => user::named(spec),
        };
        let status = self.status(spec, &subject).await;
        let mut review = std::mem::take(&mut *posted.object);
        review.make_object().insert("status", status);
        posted.respond(review)
    }

    async fn status(&self, spec: &Value, subject: &binnacle_request::User) -> Object {
        let asked = attributes::ReviewedAction::of(spec);
        let decision = self.authorizer.authorize(&asked.attributes(subject)).await;
        let failure = decision.as_ref().err().map(|error| error.message.clone());
        let errors: Vec<String> = failure.into_iter().chain(asked.ignored().map(str::to_owned)).collect();
        let mut status = Object::new();
        status.insert("allowed", decision.as_ref().is_ok_and(Decision::is_allow));
        let (denied, reason) = match &decision {
            Ok(decision) => (matches!(decision, Decision::Deny(_)), decision.reason()),
            Err(error) => (error.denies, error.reason.as_str()),
        };
        if denied {
            status.insert("denied", true);
        }
        if !reason.is_empty() {
            status.insert("reason", reason);
        }
        if !errors.is_empty() {
            status.insert("evaluationError", errors.join("; "));
        }
        status
    }
}

impl UnstoredHandler for AccessReview {
    fn handle(&self, call: UnstoredCall) -> BoxFuture<'_, Answer> {
        Box::pin(self.review(call))
    }
}

fn validate(subject: Subject, review: &Value, message: &binnacle_schema::Message) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = review.get("spec").unwrap_or(&Value::Null);
    let is_set = |member: &str| spec.get(member).filter(|value| !value.is_null());
    let (resource, path) = (is_set("resourceAttributes"), is_set("nonResourceAttributes"));
    let at = |field: &str| FieldPath::new("spec").child(field);
    if resource.is_some() && path.is_some() {
        let detail = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid(&at("nonResourceAttributes"), shown_path(path), detail));
    }
    if resource.is_none() && path.is_none() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid(&at("resourceAttributes"), shown_path(path), detail));
    }
    let nobody = spec.str_at(&["user"]).is_empty() && spec.list_at(&["groups"]).is_empty();
    if subject != Subject::Caller && nobody {
        errors.push(FieldError::invalid(&at("user"), "", "at least one of user or group must be specified"));
    }
    if let Some(resource) = resource {
        selectors::validate(resource, &at("resourceAttributes"), &mut errors);
    }
    let may_have: &[&str] =
        if subject == Subject::NamedIn { &["managedFields", "namespace"] } else { &["managedFields"] };
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Str(text) => text.is_empty(),
        Value::List(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        _ => false,
    };
    let metadata = object::metadata(review).as_object();
    let more = metadata.is_some_and(|metadata| {
        metadata.iter().any(|(name, value)| !may_have.contains(&name.as_str()) && !is_empty(value))
    });
    if more {
        let detail = if subject == Subject::NamedIn { "must be empty except for namespace" } else { "must be empty" };
        errors.push(FieldError::invalid(&FieldPath::new("metadata"), shown_metadata(review, message), detail));
    }
    if subject == Subject::NamedIn {
        if let Some(resource) = resource {
            let namespace = resource.str_at(&["namespace"]);
            if namespace != object::namespace(review) {
                let path = at("resourceAttributes").child("namespace");
                errors.push(FieldError::invalid(&path, namespace, "must match metadata.namespace"));
            }
        }
        if path.is_some() {
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid(&at("nonResourceAttributes"), shown_path(path), detail));
        }
    }
    errors
}

/// Returns the attributes of a path as kube-apiserver's internal type prints them.
fn shown_path(attributes: Option<&Value>) -> ErrorValue {
    let Some(attributes) = attributes else { return ErrorValue::raw("null") };
    let mut shown = Object::new();
    shown.insert("Path", attributes.str_at(&["path"]));
    shown.insert("Verb", attributes.str_at(&["verb"]));
    ErrorValue::raw(json::to_string(&Value::Object(shown)))
}

fn shown_metadata(review: &Value, message: &binnacle_schema::Message) -> ErrorValue {
    let mut shown = Object::new();
    shown.insert("metadata", object::metadata(review).clone());
    let mut shown = Value::Object(shown);
    canonical::canonicalize(&mut shown, message);
    ErrorValue::raw(json::to_string(object::metadata(&shown)))
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn refusals() {
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
        let message = ExpectedKind::new(GROUP, "v1", "SubjectAccessReview").message().unwrap();
        for (subject, review, want) in cases {
            let errors: Vec<_> = validate(subject, &review, message).iter().map(ToString::to_string).collect();
            assert_eq!(errors, want);
        }
    }
}
