//! SubjectAccessReviews of webhooks: requests in two versions, and responses.

use binnacle_meta::{FieldSelector, LabelSelector, Operator, Text};
use binnacle_schema::{Object, Value, json, value};
use binnacle_webhook::WebhookError;
use binnacle_work::pace;
use bytes::Bytes;
use serde::Deserialize;

use super::{MAX_REASON, MAX_RESPONSE};
use crate::Attributes;

/// The bytes of a response that are parsed in ten nanoseconds.
const BYTES_PER_STEP: usize = 2;

/// The version of the API group `authorization.k8s.io` that a webhook supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewVersion {
    V1,
    V1beta1,
}

impl ReviewVersion {
    /// Parses a version; `None` if it is unknown.
    pub fn parse(version: &str) -> Option<Self> {
        match version {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1beta1),
            _ => None,
        }
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "authorization.k8s.io/v1",
            Self::V1beta1 => "authorization.k8s.io/v1beta1",
        }
    }
}

/// A `v1` SubjectAccessReviewSpec.
pub(crate) struct Review {
    pub(crate) spec: Object,
}

/// Encodes a `v1` SubjectAccessReview with these attributes.
pub fn access_review(attributes: &Attributes<'_>) -> Bytes {
    Review::of(attributes).to_json(ReviewVersion::V1)
}

impl Review {
    pub(crate) fn of(attributes: &Attributes<'_>) -> Self {
        let mut spec = Object::new();
        if attributes.is_resource_request {
            spec.insert("resourceAttributes", resource(attributes));
        } else {
            let mut path = Object::new();
            put(&mut path, "path", attributes.path);
            put(&mut path, "verb", attributes.verb);
            spec.insert("nonResourceAttributes", path);
        }
        let user = attributes.user;
        pace(10 * (user.groups.len() + user.extra.values().map(Vec::len).sum::<usize>()) as u64);
        put(&mut spec, "user", &user.name);
        if !user.groups.is_empty() {
            spec.insert("groups", user.groups.clone());
        }
        if !user.extra.is_empty() {
            let extra: Object = user.extra.iter().map(|(key, values)| (key.clone(), values.clone())).collect();
            spec.insert("extra", extra);
        }
        put(&mut spec, "uid", &user.uid);
        Self { spec }
    }

    /// Returns the cache key. It is a hash, since a review may have any number of groups.
    pub(super) fn key(&self, version: ReviewVersion) -> Bytes {
        let spec = json::to_string(&self.value(version));
        pace(spec.len() as u64);
        Bytes::copy_from_slice(&binnacle_crypto::sha256(spec))
    }

    /// Encodes the review as the request body.
    pub(super) fn to_json(&self, version: ReviewVersion) -> Bytes {
        let spec = self.value(version);
        let review = value!({
            "kind": "SubjectAccessReview", "apiVersion": (version.api_version()), "metadata": {}, "spec": spec,
            "status": {"allowed": false}
        });
        Bytes::from(json::to_string(&review))
    }

    /// Converts the spec: the groups have another name in `v1beta1`.
    fn value(&self, version: ReviewVersion) -> Value {
        let name = |member: &Text| match (version, member.as_str()) {
            (ReviewVersion::V1beta1, "groups") => Text::new_static("group"),
            _ => member.clone(),
        };
        Value::Object(self.spec.iter().map(|(member, value)| (name(member), value.clone())).collect())
    }
}

fn resource(attributes: &Attributes<'_>) -> Object {
    let mut resource = Object::new();
    for (member, text) in [
        ("namespace", attributes.namespace),
        ("verb", attributes.verb),
        ("group", attributes.api_group),
        ("version", attributes.api_version),
        ("resource", attributes.resource),
        ("subresource", attributes.subresource),
        ("name", attributes.name),
    ] {
        put(&mut resource, member, text);
    }
    // An invalid selector is omitted, so that the request is for broader access, never for narrower (KEP-4601).
    let fields = FieldSelector::parse(attributes.field_selector).unwrap_or_default();
    let labels = LabelSelector::parse(attributes.label_selector).unwrap_or_default();
    let field_requirements: Vec<Value> = fields
        .terms()
        .iter()
        .map(|term| {
            let operator = if term.negated { "NotIn" } else { "In" };
            value!({"key": (term.field.clone()), "operator": operator, "values": [(term.value.clone())]})
        })
        .collect();
    let label_requirements: Vec<Value> = labels.requirements().iter().filter_map(label).collect();
    for (member, requirements) in [("fieldSelector", field_requirements), ("labelSelector", label_requirements)] {
        if !requirements.is_empty() {
            resource.insert(member, value!({"requirements": requirements}));
        }
    }
    resource
}

fn label(requirement: &binnacle_meta::Requirement) -> Option<Value> {
    let operator = match requirement.operator() {
        Operator::In | Operator::Equals | Operator::DoubleEquals => "In",
        Operator::NotIn | Operator::NotEquals => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        _ => return None,
    };
    let mut shown = Object::new();
    shown.insert("key", requirement.key().clone());
    shown.insert("operator", operator);
    if !requirement.values().is_empty() {
        shown.insert("values", requirement.values().to_vec());
    }
    Some(Value::Object(shown))
}

fn put(object: &mut Object, member: &str, text: &str) {
    if !text.is_empty() {
        object.insert(member, text);
    }
}

/// The status in a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) allowed: bool,
    pub(super) denied: bool,
    pub(super) reason: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewResponse {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    status: Option<ReviewStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReviewStatus {
    allowed: bool,
    denied: bool,
    reason: String,
}

impl Status {
    /// Parses a response, which may omit its kind and version but must not have different ones.
    pub(super) fn read(body: &[u8], version: ReviewVersion) -> Result<Self, WebhookError> {
        let malformed = |why: String| WebhookError::Malformed(why);
        if body.len() > MAX_RESPONSE {
            return Err(malformed(format!(
                "the answer of the authorization webhook is longer than {MAX_RESPONSE} bytes"
            )));
        }
        pace((body.len() / BYTES_PER_STEP) as u64);
        let response: ReviewResponse = serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
        let kind = response.kind.as_deref().unwrap_or("SubjectAccessReview");
        let api_version = response.api_version.as_deref().unwrap_or(version.api_version());
        if (kind, api_version) != ("SubjectAccessReview", version.api_version()) {
            return Err(malformed(format!("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme")));
        }
        let mut status = response.status.unwrap_or_default();
        status.reason.truncate(status.reason.floor_char_boundary(MAX_REASON));
        Ok(Self { allowed: status.allowed, denied: status.denied, reason: status.reason.into() })
    }
}
