//! ImageReview (`imagepolicy.k8s.io/v1alpha1`) as it travels: the question and the answer.

use std::collections::BTreeMap;

use binnacle_schema::{Object, Value, json, value};
use binnacle_webhook::WebhookError;
use bytes::Bytes;
use serde::Deserialize;

const API_VERSION: &str = "imagepolicy.k8s.io/v1alpha1";
const KIND: &str = "ImageReview";
/// Annotations of pods that are for the webhook have this in their keys.
const FOR_WEBHOOK: &str = ".image-policy.k8s.io/";

/// A question: the spec of a review.
pub(super) struct Review(Value);

impl Review {
    /// Asks about the ephemeral containers of a pod or about all others.
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

    /// The question as JSON, by which its answer is remembered.
    pub(super) fn spec(&self) -> Bytes {
        Bytes::from(json::to_string(&self.0))
    }

    /// What is posted.
    pub(super) fn document(&self) -> Bytes {
        let spec = self.0.clone();
        let review = value!({
            "kind": KIND, "apiVersion": API_VERSION, "metadata": {}, "spec": spec, "status": {"allowed": false}
        });
        Bytes::from(json::to_string(&review) + "\n")
    }
}

/// An answer: the status of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) allowed: bool,
    pub(super) reason: String,
    #[serde(rename = "auditAnnotations")]
    pub(super) annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answered {
    #[serde(default)]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    status: Option<Answer>,
}

impl Answer {
    /// Reads an answer, which may leave out what kind of document it is, but not say that it is another.
    pub(super) fn read(body: &[u8]) -> Result<Self, WebhookError> {
        let malformed = |why: String| WebhookError::Malformed(why);
        let answered: Answered = serde_json::from_slice(body).map_err(|error| malformed(error.to_string()))?;
        let kind = answered.kind.as_deref().unwrap_or(KIND);
        let api_version = answered.api_version.as_deref().unwrap_or(API_VERSION);
        if (kind, api_version) != (KIND, API_VERSION) {
            return Err(malformed(format!("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme")));
        }
        Ok(answered.status.unwrap_or_default())
    }
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
