//! TokenRequest: a token for a service account, bound to a lifetime, to audiences, and optionally to an object.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use binnacle_authn::service_account::username;
use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_fields::authentication::v1::{
    self, BoundObjectReference as Reference, TokenRequestSpec as Spec, TokenRequestStatus,
};
use binnacle_fields::core::v1::{Pod, PodSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_jwt::PrivateKey;
use binnacle_meta::{FieldErrors, GroupKind, GroupResource, Status, StatusReason, Text};
use binnacle_registry::admission::Admission;
use binnacle_registry::{Catalog, Context, Match, object, rfc3339};
use binnacle_request::{BoxFuture, Record};
use binnacle_schema::Value;
use serde_json::{Map, json};

use crate::posted_object::{PostedKind, PostedObject};

const KIND: PostedKind = PostedKind {
    keeps_uid: true,
    set_defaults: |request| {
        let mut request = FieldMut::<v1::TokenRequest>::root(request);
        request.entry(v1::TokenRequest::SPEC).default_nil(Spec::EXPIRATION_SECONDS, DEFAULT_SECONDS);
    },
    ..PostedKind::new("authentication.k8s.io", "v1", "TokenRequest")
};
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
/// The lifetime that kubelets request for pods whose tokens were mounted by admission. Old clients never reload the
/// file, so such tokens are valid for a year, and their use after this lifetime is reported.
pub const INJECTED_SECONDS: i64 = 3607;
/// The extended lifetime of such tokens.
pub const EXTENDED_SECONDS: i64 = 365 * 24 * 3600;
const UID_MISMATCH: &str = "authentication.kubernetes.io/token-request-uid-mismatch";
const UID_GATE: &str = "TokenRequestServiceAccountUIDValidation";
const ISSUED_ID: &str = "authentication.kubernetes.io/issued-credential-id";

/// The signer and the options of tokens.
#[derive(Clone)]
pub struct TokenIssuer {
    pub signer: Arc<dyn TokenSigner>,
    /// The first `--service-account-issuer`.
    pub issuer: Text,
    /// `--api-audiences`: the default audiences of requests.
    pub audiences: Vec<Text>,
    /// `--service-account-max-token-expiration`, in seconds; 0 for no limit.
    pub max_seconds: i64,
    /// `--service-account-extend-token-expiration`: the extended lifetime of pods' tokens, in seconds.
    pub extended: Option<i64>,
}

/// Signs claims as a compact token.
pub trait TokenSigner: Send + Sync {
    /// Returns the token.
    ///
    /// # Errors
    ///
    /// Returns the reason why it cannot be signed.
    fn sign<'a>(&'a self, claims: &'a serde_json::Value) -> BoxFuture<'a, Result<String, String>>;
}

impl TokenSigner for PrivateKey {
    fn sign<'a>(&'a self, claims: &'a serde_json::Value) -> BoxFuture<'a, Result<String, String>> {
        let token = Self::sign(self, claims).map_err(|error| error.to_string());
        Box::pin(async { token })
    }
}

pub(crate) struct TokenRequest {
    resources: Catalog,
    admission: Arc<dyn Admission>,
    issuer: TokenIssuer,
}

/// The objects to which a token is bound, besides its service account.
#[derive(Default)]
struct BoundObjects {
    pod: Option<(Text, Text)>,
    secret: Option<(Text, Text)>,
    /// The uid is empty if the pod's node does not exist.
    node: Option<(Text, Text)>,
}

impl TokenRequest {
    pub(crate) fn new(resources: Catalog, admission: Arc<dyn Admission>, issuer: TokenIssuer) -> Self {
        Self { resources, admission, issuer }
    }

    async fn issue(&self, call: SubresourceCall) -> HandlerResult {
        let record = call.request.record.clone();
        let mut posted = PostedObject::read(call, &KIND, &self.admission).await?;
        let name = Text::new(posted.name());
        let namespace = posted.context.namespace.clone();
        let account = self.get("serviceaccounts", &namespace, &name);
        check_identity(&posted.object, &name, &namespace)?;
        let account = account.await?;
        self.complete(&mut posted, &account, &record)?;
        posted.validate(&self.admission).await?;

        let bound = self.bound_objects(&posted.context, &posted.object, &name).await?;
        let request = FieldRef::<v1::TokenRequest>::root(&posted.object);
        let mut seconds = request.at(v1::TokenRequest::SPEC).at(Spec::EXPIRATION_SECONDS).int_or_zero();
        let max_seconds = self.issuer.max_seconds;
        if max_seconds > 0 && seconds > max_seconds {
            posted
                .context
                .warn(format!("requested expiration of {seconds} seconds shortened to {max_seconds} seconds"));
            seconds = max_seconds;
        }
        let audiences = audiences(&posted.object);
        let is_mounted = bound.pod.is_some()
            && seconds == INJECTED_SECONDS
            && audiences.iter().all(|audience| self.issuer.audiences.iter().any(|own| own == audience));
        let now = posted.context.now_seconds();
        let (lifetime, warn_after) = match self.issuer.extended {
            Some(extended) if is_mounted => (extended, Some(now + seconds)),
            _ => (seconds, None),
        };

        let id = uuid::Uuid::new_v4().to_string();
        let mut private_claims = Map::new();
        private_claims.insert("namespace".into(), json!(namespace.as_str()));
        private_claims.insert("serviceaccount".into(), reference(&name, object::uid(&account)));
        for (member, part) in [("pod", &bound.pod), ("secret", &bound.secret), ("node", &bound.node)] {
            if let Some((name, uid)) = part {
                private_claims.insert(member.into(), reference(name, uid));
            }
        }
        if let Some(at) = warn_after {
            private_claims.insert("warnafter".into(), json!(at));
        }
        let claims = json!({
            "iss": self.issuer.issuer.as_str(),
            "sub": username(&namespace, &name).as_str(),
            "aud": audiences,
            "iat": now,
            "nbf": now,
            "exp": now + lifetime,
            "jti": id,
            "kubernetes.io": private_claims,
        });
        let token = self.issuer.signer.sign(&claims).await;
        let token = token.map_err(|error| Status::internal(format!("failed to generate token: {error}")))?;
        record.annotate(ISSUED_ID, &format!("JTI={id}"));

        let expires = UNIX_EPOCH + Duration::from_secs(u64::try_from(now + seconds).unwrap_or_default());
        let mut response_object = Value::clone(&posted.object);
        let mut response = FieldMut::<v1::TokenRequest>::root(&mut response_object);
        response.entry(v1::TokenRequest::SPEC).set(Spec::EXPIRATION_SECONDS, seconds);
        let mut status = response.entry(v1::TokenRequest::STATUS);
        status.set(TokenRequestStatus::TOKEN, token);
        status.set(TokenRequestStatus::EXPIRATION_TIMESTAMP, rfc3339(expires));
        posted.respond(response_object)
    }

    /// Completes and validates the request.
    fn complete(&self, posted: &mut PostedObject, account: &Value, record: &Record) -> Result<(), Status> {
        let uid = object::uid(account);
        let requested_uid = object::uid(&posted.object);
        if !requested_uid.is_empty() && requested_uid != uid {
            let why = format!(
                "the UID in the token request ({requested_uid}) does not match the UID of the service account ({uid})"
            );
            if self.resources.features().enabled(UID_GATE) {
                return Err(Status::conflict(&GroupResource::new(KIND.group, KIND.kind), posted.name(), why));
            }
            posted
                .context
                .warn(format!("{why} but {UID_GATE} is not enabled. In the future, this will return a conflict error"));
            record.annotate(UID_MISMATCH, &why);
        }
        let requested_uid = if requested_uid.is_empty() { uid } else { requested_uid }.to_owned();
        let created = rfc3339(posted.context.now);
        let mut request = FieldMut::<v1::TokenRequest>::root(&mut posted.object);
        if request.read().at(v1::TokenRequest::SPEC).at(Spec::AUDIENCES).is_empty() {
            request.entry(v1::TokenRequest::SPEC).set(Spec::AUDIENCES, self.issuer.audiences.clone());
        }
        let mut metadata = request.entry(v1::TokenRequest::METADATA);
        metadata.set(ObjectMeta::NAME, object::name(account));
        metadata.set(ObjectMeta::NAMESPACE, object::namespace(account));
        metadata.set(ObjectMeta::UID, requested_uid);
        metadata.set(ObjectMeta::CREATION_TIMESTAMP, created);
        request.remove(v1::TokenRequest::STATUS);

        let mut errors = FieldErrors::new();
        let request = request.read();
        let spec = request.at(v1::TokenRequest::SPEC);
        let field = spec.at(Spec::EXPIRATION_SECONDS);
        let seconds = field.int_or_zero();
        if seconds < MIN_SECONDS {
            errors.push(field.invalid_as(seconds, "may not specify a duration less than 10 minutes"));
        }
        if seconds > 1 << 32 {
            errors.push(field.invalid_as(seconds, "may not specify a duration larger than 2^32 seconds"));
        }
        if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&group_kind(), "", &errors)) }
    }

    async fn bound_objects(&self, context: &Context, request: &Value, account: &str) -> Result<BoundObjects, Status> {
        let mut bound = BoundObjects::default();
        let request = FieldRef::<v1::TokenRequest>::root(request);
        let spec = request.at(v1::TokenRequest::SPEC);
        let Some(bound_ref) = spec.at(Spec::BOUND_OBJECT_REF).set() else { return Ok(bound) };
        let (name, kind) = (bound_ref.at(Reference::NAME).str(), bound_ref.at(Reference::KIND).str());
        let api_version = bound_ref.at(Reference::API_VERSION).str();
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let of = |object: &Value| (Text::new(name), Text::new(object::uid(object)));
        let uid = match (group, kind) {
            ("", "Pod") => {
                let pod = self.get("pods", &context.namespace, name).await?;
                let pod_ref = FieldRef::<Pod>::root(&pod);
                let pod_spec = pod_ref.at(Pod::SPEC);
                if pod_spec.at(PodSpec::SERVICE_ACCOUNT_NAME).str() != account {
                    return Err(Status::bad_request(format!(
                        "cannot bind token for serviceaccount {account:?} to pod running with different serviceaccount name."
                    )));
                }
                let node = pod_spec.at(PodSpec::NODE_NAME).str();
                if !node.is_empty() {
                    let uid = match self.get("nodes", "", node).await {
                        Ok(node) => object::uid(&node).into(),
                        Err(status) if status.is(StatusReason::NotFound) => Text::default(),
                        Err(status) => return Err(Status::internal(status.message())),
                    };
                    bound.node = Some((node.into(), uid));
                }
                &bound.pod.insert(of(&pod)).1
            }
            ("", "Node") => &bound.node.insert(of(&self.get("nodes", "", name).await?)).1,
            ("", "Secret") => &bound.secret.insert(of(&self.get("secrets", &context.namespace, name).await?)).1,
            _ => {
                let object_type = format!("{group}/{version}, Kind={kind}");
                return Err(Status::bad_request(format!("cannot bind token to object of type {object_type}")));
            }
        };
        let requested_uid = bound_ref.at(Reference::UID).str();
        if !requested_uid.is_empty() && requested_uid != uid {
            let why = format!(
                "the UID in the bound object reference ({requested_uid}) does not match the UID in record. The object might have \
                 been deleted and then recreated"
            );
            return Err(Status::conflict(&GroupResource::new(group, kind), name, why));
        }
        Ok(bound)
    }

    /// Returns an object of the core group, at least as new as all writes acknowledged before.
    async fn get(&self, plural: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        let resource = self.resources.require("", "v1", plural)?;
        resource.get_object(&Context::internal(namespace), name, Match::Consistent).await.map(|stored| stored.object)
    }
}

impl SubresourceHandler for TokenRequest {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(self.issue(call))
    }
}

/// Checks that name and namespace in the body, if set, match those in the path.
fn check_identity(request: &Value, name: &str, namespace: &str) -> Result<(), Status> {
    let request = FieldRef::<v1::TokenRequest>::root(request);
    let metadata = request.at(v1::TokenRequest::METADATA);
    for (field, expected) in [(ObjectMeta::NAME, name), (ObjectMeta::NAMESPACE, namespace)] {
        let requested_uid = metadata.at(field);
        if !requested_uid.is_empty() && requested_uid.str() != expected {
            let why = format!("must match the service account {} if specified", field.name());
            let errors = FieldErrors::from([requested_uid.invalid(why)]);
            return Err(Status::invalid(&group_kind(), name, &errors));
        }
    }
    Ok(())
}

fn group_kind() -> GroupKind {
    GroupKind::new(KIND.group, KIND.kind)
}

fn audiences(request: &Value) -> Vec<&str> {
    let request = FieldRef::<v1::TokenRequest>::root(request);
    request.at(v1::TokenRequest::SPEC).at(Spec::AUDIENCES).strs().collect()
}

fn reference(name: &str, uid: &str) -> serde_json::Value {
    if uid.is_empty() { json!({"name": name}) } else { json!({"name": name, "uid": uid}) }
}
