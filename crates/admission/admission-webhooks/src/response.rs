//! The response of a webhook: an AdmissionReview, which is decoded and validated as in kube-apiserver, with the same
//! messages.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_fields::FieldRef;
use binnacle_fields::admission::v1::{AdmissionResponse, AdmissionReview};
use binnacle_fields::types::{Map, Str};
use binnacle_meta::{GroupVersion, go_quote};
use binnacle_schema::{Limits, Value, decode};
use binnacle_scheme::Kinds;
use binnacle_webhook::ReviewKind;

use crate::review::ReviewVersion;

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";
/// The limits of a review, which may contain a copy of the request besides the response.
const LIMITS: Limits =
    Limits { max_bytes: 8 << 20, max_depth: 256, max_yaml_nodes: 500_000, max_memory: Limits::MAX_MEMORY };

/// A webhook's response to a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WebhookResponse {
    pub(crate) allowed: bool,
    /// `status`, the reason why the request is denied.
    pub(crate) status: Option<Value>,
    pub(crate) patch: Vec<u8>,
    pub(crate) patch_type: String,
    pub(crate) warnings: Vec<String>,
    pub(crate) audit_annotations: Vec<(String, String)>,
}

/// The error of an invalid response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResponseError {
    /// The body is not a review of the requested version.
    Unreadable(String),
    /// The review is not a response to the request.
    Invalid(String),
}

impl WebhookResponse {
    /// Decodes a review, whose kind is looked up in `kinds`. Only mutating webhooks may return patches.
    pub(crate) fn read(
        kinds: &dyn Kinds,
        body: &[u8],
        version: ReviewVersion,
        uid: &str,
        mutating: bool,
    ) -> Result<Self, ResponseError> {
        let review = review(kinds, body, version).map_err(ResponseError::Unreadable)?;
        // A v1beta1 review has the same fields.
        let review = FieldRef::<AdmissionReview>::root(&review);
        let response = review.at(AdmissionReview::RESPONSE).set();
        let invalid = |why: String| ResponseError::Invalid(why);
        let response = response.ok_or_else(|| invalid("webhook response was absent".to_owned()))?;
        let mut answer = Self {
            allowed: response.at(AdmissionResponse::ALLOWED).bool(),
            status: response.at(AdmissionResponse::STATUS).get().cloned(),
            warnings: response.at(AdmissionResponse::WARNINGS).strs().map(str::to_owned).collect(),
            audit_annotations: texts(response.at(AdmissionResponse::AUDIT_ANNOTATIONS)),
            // The decoder has validated the base64.
            patch: BASE64_STANDARD.decode(response.at(AdmissionResponse::PATCH).str()).unwrap_or_default(),
            patch_type: response.at(AdmissionResponse::PATCH_TYPE).str().to_owned(),
        };
        let has_type = response.at(AdmissionResponse::PATCH_TYPE).is_set();
        match version {
            ReviewVersion::V1 => {
                check_identity(review, response, uid).map_err(invalid)?;
                answer.check_patch(mutating, has_type).map_err(invalid)?;
            }
            // These are not validated in v1beta1.
            ReviewVersion::V1Beta1 if mutating => {
                answer.patch_type = if answer.patch.is_empty() { String::new() } else { "JSONPatch".to_owned() };
            }
            ReviewVersion::V1Beta1 => answer.patch.clear(),
        }
        Ok(answer)
    }

    fn check_patch(&self, mutating: bool, has_type: bool) -> Result<(), String> {
        let has_patch = !self.patch.is_empty();
        let problem = match (mutating, has_patch, has_type) {
            (true, true, false) => "webhook returned response.patch but not response.patchType",
            (true, false, true) => "webhook returned response.patchType but not response.patch",
            (true, true, true) if self.patch_type.is_empty() => "webhook returned invalid response.patchType of \"\"",
            (false, true, _) => "validating webhook may not return response.patch",
            (false, false, true) => "validating webhook may not return response.patchType",
            _ => return Ok(()),
        };
        Err(problem.to_owned())
    }
}

/// Checks the kind and UID of a response, which v1 requires.
fn check_identity(
    review: FieldRef<AdmissionReview>,
    response: FieldRef<AdmissionResponse>,
    uid: &str,
) -> Result<(), String> {
    let actual = response.at(AdmissionResponse::UID).str();
    if actual != uid {
        return Err(format!("expected response.uid={}, got {}", go_quote(uid), go_quote(actual)));
    }
    let (kind, api_version) = (review.at(AdmissionReview::KIND).str(), review.at(AdmissionReview::API_VERSION).str());
    let expected = format!("{GROUP}/{}", ReviewVersion::V1.as_str());
    if (kind, api_version) != (KIND, expected.as_str()) {
        let got = if api_version.is_empty() { "/" } else { api_version };
        return Err(format!("expected webhook response of {expected}, Kind={KIND}, got {got}, Kind={kind}"));
    }
    Ok(())
}

/// Decodes the review in a response body.
fn review(kinds: &dyn Kinds, body: &[u8], version: ReviewVersion) -> Result<Value, String> {
    let typed = |tree: Value, message| {
        decode::value_within(tree, message, &LIMITS).map(|decoded| decoded.value).map_err(|error| error.to_string())
    };
    let of_another_kind = |given: &GroupVersion, kind: &str, tree: &Value| {
        let message = kinds.kind(&given.group, &given.version, kind);
        message.map_or(Ok(()), |message| typed(tree.clone(), message).map(drop))
    };
    let expected = ReviewKind { group: GROUP, version: version.as_str(), kind: KIND };
    let tree = expected.read(body, &LIMITS, of_another_kind)?;
    typed(tree, kinds.kind(GROUP, version.as_str(), KIND).ok_or("AdmissionReview is not known")?)
}

fn texts(map: FieldRef<Map<Str>>) -> Vec<(String, String)> {
    map.entries().map(|(key, value)| (key.to_owned(), value.str().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use binnacle_kinds::BuiltInKinds;

    use super::*;

    const SCHEME: &str = "pkg/util/webhook/client.go:71";

    /// The version of reviews, and whether the webhook is a mutating one.
    type Review = (ReviewVersion, bool);
    const MUTATING: Review = (ReviewVersion::V1, true);
    const VALIDATING: Review = (ReviewVersion::V1, false);
    const BETA_MUTATING: Review = (ReviewVersion::V1Beta1, true);
    const BETA_VALIDATING: Review = (ReviewVersion::V1Beta1, false);

    /// Checks whether a response to the request `u` allows it, and its patch.
    fn check(body: &str, (version, mutating): Review, want: Result<(bool, &str), ResponseError>) {
        let got = WebhookResponse::read(&BuiltInKinds, body.as_bytes(), version, "u", mutating);
        let got = got.map(|answer| (answer.allowed, String::from_utf8(answer.patch).unwrap()));
        assert_eq!(got, want.map(|(allowed, patch)| (allowed, patch.to_owned())), "{body}");
    }

    fn v1(response: &str) -> String {
        format!(r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{response}}}"#)
    }

    fn beta(response: &str) -> String {
        format!(r#"{{"response":{response}}}"#)
    }

    fn invalid<T>(why: &str) -> Result<T, ResponseError> {
        Err(ResponseError::Invalid(why.to_owned()))
    }

    fn unreadable<T>(why: &str) -> Result<T, ResponseError> {
        Err(ResponseError::Unreadable(why.to_owned()))
    }

    #[test]
    fn validates_reviews() {
        for (body, review, want) in [
            (v1(r#"{"uid":"u","allowed":true}"#), MUTATING, Ok((true, ""))),
            (v1(r#"{"uid":"u","patch":"W10=","patchType":"JSONPatch"}"#), MUTATING, Ok((false, "[]"))),
            (v1(r#"{"uid":"x"}"#), MUTATING, invalid("expected response.uid=\"u\", got \"x\"")),
            (v1("null"), VALIDATING, invalid("webhook response was absent")),
            ("null".to_owned(), VALIDATING, invalid("webhook response was absent")),
            ("  ".to_owned(), VALIDATING, invalid("webhook response was absent")),
            (
                beta(r#"{"uid":"u"}"#),
                MUTATING,
                invalid("expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="),
            ),
            (
                v1(r#"{"uid":"u","patch":"W10="}"#),
                MUTATING,
                invalid("webhook returned response.patch but not response.patchType"),
            ),
            (
                v1(r#"{"uid":"u","patchType":"JSONPatch"}"#),
                MUTATING,
                invalid("webhook returned response.patchType but not response.patch"),
            ),
            (
                v1(r#"{"uid":"u","patch":"W10=","patchType":""}"#),
                MUTATING,
                invalid("webhook returned invalid response.patchType of \"\""),
            ),
            (
                v1(r#"{"uid":"u","patch":"W10=","patchType":"JSONPatch"}"#),
                VALIDATING,
                invalid("validating webhook may not return response.patch"),
            ),
            (
                v1(r#"{"uid":"u","patchType":"JSONPatch"}"#),
                VALIDATING,
                invalid("validating webhook may not return response.patchType"),
            ),
            (beta(r#"{"uid":"other","allowed":true,"patch":"W10="}"#), BETA_MUTATING, Ok((true, "[]"))),
            (beta(r#"{"allowed":true,"patch":"W10="}"#), BETA_VALIDATING, Ok((true, ""))),
            (
                v1("{}"),
                BETA_VALIDATING,
                unreadable("converting (v1.AdmissionReview) to (v1beta1.AdmissionReview): unknown conversion"),
            ),
            (
                v1(r#"{"allowed":"yes"}"#),
                BETA_VALIDATING,
                unreadable(
                    "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
                ),
            ),
        ] {
            check(&body, review, want);
        }
    }

    #[test]
    fn rejects_responses_of_other_kinds_and_types() {
        let no_kind = |kind: &str, version: &str| {
            unreadable(&format!("no kind \"{kind}\" is registered for version \"{version}\" in scheme \"{SCHEME}\""))
        };
        for (body, review, want) in [
            (
                r#"{"kind":"Status","apiVersion":"v1"}"#.to_owned(),
                VALIDATING,
                unreadable("converting (v1.Status) to (v1.AdmissionReview): unknown conversion"),
            ),
            (r#"{"kind":"Pod","apiVersion":"v1"}"#.to_owned(), VALIDATING, no_kind("Pod", "v1")),
            (
                r#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v2"}"#.to_owned(),
                VALIDATING,
                no_kind("AdmissionReview", "admission.k8s.io/v2"),
            ),
            (
                "kind: AdmissionReview\napiVersion: admission.k8s.io/v1\nresponse: {uid: u, allowed: true}".to_owned(),
                VALIDATING,
                Ok((true, "")),
            ),
            (
                v1(r#"{"uid":"u","allowed":"yes"}"#),
                VALIDATING,
                unreadable(
                    "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
                ),
            ),
            (
                "[]".to_owned(),
                VALIDATING,
                unreadable(
                    "couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }",
                ),
            ),
            (
                "{".to_owned(),
                VALIDATING,
                unreadable("couldn't get version/kind; json parse error: unexpected end of JSON input"),
            ),
        ] {
            check(&body, review, want);
        }
    }
}
