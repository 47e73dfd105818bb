//! ImageReviews (`imagepolicy.k8s.io/v1alpha1`): requests to the webhook and its responses.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use binnacle_fields::core::v1::{Container, PodSpec};
use binnacle_fields::imagepolicy::v1alpha1::{ImageReview, ImageReviewSpec, ImageReviewStatus};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_schema::{Field, Limits, Message, MessageRef, Object, Ty, Value, decode, json, value};
use binnacle_webhook::WebhookError;
use bytes::Bytes;

use crate::lookup::Lookup;
use crate::plugins::pod;

const API_VERSION: &str = "imagepolicy.k8s.io/v1alpha1";
const KIND: &str = "ImageReview";
/// The name of kube-apiserver's scheme in errors.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";
/// The suffix of the domain of pod annotations that are sent to the webhook.
const FOR_WEBHOOK: &str = ".image-policy.k8s.io/";

/// The spec of a review, which is sent to the webhook.
pub(super) struct Review(Value);

impl Review {
    /// Returns the review of a pod's ephemeral containers, or of all other containers.
    pub(super) fn of(pod: &Value, namespace: &str, ephemeral: bool) -> Self {
        let spec = pod::spec(pod);
        let image = |container: FieldRef<Container>| match container.at(Container::IMAGE).str() {
            "" => value!({}),
            image => value!({"image": image}),
        };
        let images: Vec<Value> = if ephemeral {
            pod::ephemeral_containers(spec).map(image).collect()
        } else {
            let lists = [PodSpec::CONTAINERS, PodSpec::INIT_CONTAINERS].into_iter();
            lists.flat_map(|list| spec.at(list).values()).map(image).collect()
        };
        let annotations = metadata(pod).at(ObjectMeta::ANNOTATIONS).object();
        let annotations: Object = annotations
            .into_iter()
            .flat_map(Object::iter)
            .filter(|(key, _)| key.contains(FOR_WEBHOOK))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect();
        let mut review = Value::Object(Object::new());
        let mut spec = FieldMut::<ImageReviewSpec>::root(&mut review);
        if !images.is_empty() {
            spec.set(ImageReviewSpec::CONTAINERS, images);
        }
        if !annotations.is_empty() {
            spec.set(ImageReviewSpec::ANNOTATIONS, Value::Object(annotations));
        }
        if !namespace.is_empty() {
            spec.set(ImageReviewSpec::NAMESPACE, namespace);
        }
        Self(review)
    }

    /// Returns the spec as JSON, which is the cache key of its response.
    pub(super) fn spec(&self) -> Bytes {
        Bytes::from(json::to_string(&self.0))
    }

    /// Encodes the review as the request body.
    pub(super) fn to_json(&self) -> Bytes {
        let spec = self.0.clone();
        let review = value!({
            "kind": KIND, "apiVersion": API_VERSION, "metadata": {}, "spec": spec, "status": {"allowed": false}
        });
        Bytes::from(json::to_string(&review) + "\n")
    }
}

/// The status of a review, which the webhook returns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReviewResponse {
    pub(super) allowed: bool,
    pub(super) reason: String,
    pub(super) annotations: BTreeMap<String, String>,
}

/// The schema of a response, an ImageReview with its status. The type names are part of kube-apiserver's messages.
static REVIEW: LazyLock<Message> = LazyLock::new(|| {
    let status = Message::new(
        "ImageReviewStatus",
        vec![
            Field::new(ImageReviewStatus::ALLOWED.name(), Ty::Bool),
            Field::new(ImageReviewStatus::REASON.name(), Ty::String),
            Field::new(ImageReviewStatus::AUDIT_ANNOTATIONS.name(), Ty::Map(Box::new(Ty::String))),
        ],
    );
    let status = Field::new(ImageReview::STATUS.name(), Ty::Message(MessageRef::Shared(Arc::new(status))));
    let [kind, api_version] =
        [ImageReview::KIND, ImageReview::API_VERSION].map(|field| Field::new(field.name(), Ty::String));
    Message::new(KIND, vec![kind, api_version, status])
});

impl ReviewResponse {
    /// Decodes a response, which may omit its kind and version but must not have different ones.
    pub(super) fn read(response: &binnacle_webhook::Answer, kinds: &dyn Lookup) -> Result<Self, WebhookError> {
        let malformed = |why: String| WebhookError::Malformed(why);
        if response.body.is_empty() {
            let media = response.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
            let code = response.code;
            return Err(malformed(format!("0-length response with status code: {code} and content type: {media}")));
        }
        let unread = |error: &dyn ToString| {
            malformed(format!("couldn't get version/kind; json parse error: {}", error.to_string()))
        };
        let tree = json::parse(&response.body, &Limits::default()).map_err(|error| unread(&error))?;
        let review = FieldRef::<ImageReview>::root(&tree);
        let or = |field, default: &'static str| match review.at(field).str() {
            "" => default.to_owned(),
            text => text.to_owned(),
        };
        let (kind, api_version) = (or(ImageReview::KIND, KIND), or(ImageReview::API_VERSION, API_VERSION));
        if (kind.as_str(), api_version.as_str()) != (KIND, API_VERSION) {
            return Err(response.failure().unwrap_or_else(|| malformed(kind_error(kinds, &kind, &api_version))));
        }
        let review = decode::value(tree, &REVIEW).map_err(|error| malformed(error.to_string()))?.value;
        let status = FieldRef::<ImageReview>::root(&review).at(ImageReview::STATUS).detached();
        let annotations = status.at(ImageReviewStatus::AUDIT_ANNOTATIONS);
        Ok(Self {
            allowed: status.at(ImageReviewStatus::ALLOWED).bool(),
            reason: status.at(ImageReviewStatus::REASON).str().to_owned(),
            annotations: annotations.entries().map(|(key, value)| (key.to_owned(), value.str().to_owned())).collect(),
        })
    }
}

/// Returns the error for a response of another kind.
fn kind_error(kinds: &dyn Lookup, kind: &str, api_version: &str) -> String {
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
    fn sends_containers_and_matching_annotations() {
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
        assert_eq!(review.to_json(), format!("{head}{spec},\"status\":{{\"allowed\":false}}}}\n"));
    }
}
