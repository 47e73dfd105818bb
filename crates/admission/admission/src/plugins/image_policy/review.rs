//! ImageReview (`imagepolicy.k8s.io/v1alpha1`) in requests to the webhook and in its answers.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use binnacle_schema::{Field, Limits, Message, MessageRef, Object, Ty, Value, decode, json, value};
use binnacle_webhook::WebhookError;
use bytes::Bytes;

use crate::lookup::Lookup;

const API_VERSION: &str = "imagepolicy.k8s.io/v1alpha1";
const KIND: &str = "ImageReview";
/// The place where kube-apiserver registers its kinds, which is part of messages.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";
/// Part of the keys of pod annotations that are passed to the webhook.
const FOR_WEBHOOK: &str = ".image-policy.k8s.io/";

/// The spec of a review: the request to the webhook.
pub(super) struct Review(Value);

impl Review {
    /// Returns the review of a pod's ephemeral containers, or of all other containers.
    pub(super) fn of(pod: &Value, namespace: &str, ephemeral: bool) -> Self {
        let lists: &[&str] = if ephemeral { &["ephemeralContainers"] } else { &["containers", "initContainers"] };
        let containers = lists.iter().flat_map(|list| pod.list_at(&["spec", list]));
        let images: Vec<Value> = containers
            .map(|container| match container.str_at(&["image"]) {
                "" => value!({}),
                image => value!({"image": image}),
            })
            .collect();
        let annotations = pod.object_at(&["metadata", "annotations"]);
        let annotations: Object = annotations
            .into_iter()
            .flat_map(Object::iter)
            .filter(|(key, _)| key.contains(FOR_WEBHOOK))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut spec = Object::new();
        if !images.is_empty() {
            spec.insert("containers", images);
        }
        if !annotations.is_empty() {
            spec.insert("annotations", annotations);
        }
        if !namespace.is_empty() {
            spec.insert("namespace", namespace);
        }
        Self(Value::Object(spec))
    }

    /// Returns the spec as JSON, the key under which its answer is cached.
    pub(super) fn spec(&self) -> Bytes {
        Bytes::from(json::to_string(&self.0))
    }

    /// Returns the body of the request to the webhook.
    pub(super) fn document(&self) -> Bytes {
        let spec = self.0.clone();
        let review = value!({
            "kind": KIND, "apiVersion": API_VERSION, "metadata": {}, "spec": spec, "status": {"allowed": false}
        });
        Bytes::from(json::to_string(&review) + "\n")
    }
}

/// The status of a review: the answer of the webhook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) reason: String,
    pub(super) annotations: BTreeMap<String, String>,
}

/// The schema of an answer: the status of an ImageReview, with kube-apiserver's names, which are part of messages.
static REVIEW: LazyLock<Message> = LazyLock::new(|| {
    let status = Message::new(
        "ImageReviewStatus",
        vec![
            Field::new("allowed", Ty::Bool),
            Field::new("reason", Ty::String),
            Field::new("auditAnnotations", Ty::Map(Box::new(Ty::String))),
        ],
    );
    let status = Field::new("status", Ty::Message(MessageRef::Shared(Arc::new(status))));
    Message::new(KIND, vec![Field::new("kind", Ty::String), Field::new("apiVersion", Ty::String), status])
});

impl Answer {
    /// Reads an answer. It may omit kind and version, but other values are an error.
    pub(super) fn read(answer: &binnacle_webhook::Answer, kinds: &dyn Lookup) -> Result<Self, WebhookError> {
        let malformed = |why: String| WebhookError::Malformed(why);
        if answer.body.is_empty() {
            let media = answer.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
            let code = answer.code;
            return Err(malformed(format!("0-length response with status code: {code} and content type: {media}")));
        }
        let unread = |error: &dyn ToString| {
            malformed(format!("couldn't get version/kind; json parse error: {}", error.to_string()))
        };
        let tree = json::parse(&answer.body, &Limits::default()).map_err(|error| unread(&error))?;
        let or = |member: &str, default: &'static str| match tree.str_at(&[member]) {
            "" => default.to_owned(),
            said => said.to_owned(),
        };
        let (kind, api_version) = (or("kind", KIND), or("apiVersion", API_VERSION));
        if (kind.as_str(), api_version.as_str()) != (KIND, API_VERSION) {
            return Err(answer.failure().unwrap_or_else(|| malformed(other(kinds, &kind, &api_version))));
        }
        let review = decode::value(tree, &REVIEW).map_err(|error| malformed(error.to_string()))?.value;
        let annotations = review.object_at(&["status", "auditAnnotations"]).into_iter().flat_map(Object::iter);
        Ok(Self {
            allowed: review.bool_at(&["status", "allowed"]),
            reason: review.str_at(&["status", "reason"]).to_owned(),
            annotations: annotations
                .map(|(key, value)| (key.to_string(), value.as_str().unwrap_or("").to_owned()))
                .collect(),
        })
    }
}

/// Returns the error for an answer of another kind.
fn other(kinds: &dyn Lookup, kind: &str, api_version: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if kind == "Status" || kinds.is_known(group, version, kind) {
        return format!("converting ({version}.{kind}) to (v1alpha1.{KIND}): unknown conversion");
    }
    format!("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"{SCHEME}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions() {
        let pod = value!({
            "metadata": {"annotations": {"a.image-policy.k8s.io/ticket": "7", "other": "x"}},
            "spec": {
                "containers": [{"image": "a"}, {"image": "b"}], "initContainers": [{"image": "i"}],
                "ephemeralContainers": [{"image": "e"}]
            }
        });
        let annotations = r#""annotations":{"a.image-policy.k8s.io/ticket":"7"},"namespace":"ns""#;
        let images = r#""containers":[{"image":"a"},{"image":"b"},{"image":"i"}]"#;
        assert_eq!(Review::of(&pod, "ns", false).spec(), format!("{{{images},{annotations}}}"));
        let review = Review::of(&pod, "ns", true);
        assert_eq!(review.spec(), format!(r#"{{"containers":[{{"image":"e"}}],{annotations}}}"#));
        let head = r#"{"kind":"ImageReview","apiVersion":"imagepolicy.k8s.io/v1alpha1","metadata":{},"spec":"#;
        let spec = review.spec();
        let spec = String::from_utf8_lossy(&spec);
        assert_eq!(review.document(), format!("{head}{spec},\"status\":{{\"allowed\":false}}}}\n"));
    }
}
