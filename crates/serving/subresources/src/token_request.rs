//! TokenRequest: a token for a service account, bound to a time, to audiences, and perhaps to an object.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use binnacle_authn::service_account::username;
use binnacle_endpoints::{Answer, UnstoredCall, UnstoredHandler};
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

use crate::posted::{ExpectedKind, PostedObject};

const KIND: ExpectedKind = ExpectedKind {
    keeps_uid: true,
    set_defaults: |request| {
        let mut request = FieldMut::<v1::TokenRequest>::root(request);
        request.entry(v1::TokenRequest::SPEC).default_nil(Spec::EXPIRATION_SECONDS, DEFAULT_SECONDS);
    },
    ..ExpectedKind::new("authentication.k8s.io", "v1", "TokenRequest")
};
const DEFAULT_SECONDS: i64 = 3600;
const MIN_SECONDS: i64 = 600;
/// The lifetime that kubelets request for pods whose tokens were mounted by admission. Old clients in them never read
/// the file again, so such tokens are valid for a year, and their use after this time is reported.
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
    /// `--service-account-issuer`, the first.
    pub issuer: Text,
    /// `--api-audiences`: the audiences of requests without any.
    pub audiences: Vec<Text>,
    /// `--service-account-max-token-expiration`, in seconds; 0 for no limit.
    pub max_seconds: i64,
    /// `--service-account-extend-token-expiration`: the extended lifetime of pods' tokens, in seconds.
    pub extended: Option<i64>,
}

/// Signs claims as a compact token.
pub trait TokenSigner: Send + Sync {
    /// Returns the token, or the reason why there is none.
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

/// The object of a bound token, besides its account.
#[derive(Default)]
struct Bound {
    pod: Option<(Text, Text)>,
    secret: Option<(Text, Text)>,
    /// The uid is empty if a pod's node does not exist.
    node: Option<(Text, Text)>,
}

impl TokenRequest {
    pub(crate) fn new(resources: Catalog, admission: Arc<dyn Admission>, issuer: TokenIssuer) -> Self {
        Self { resources, admission, issuer }
    }

    async fn issue(&self, call: UnstoredCall) -> Answer {
        let record = call.request.record.clone();
        let mut posted = PostedObject::read(call, &KIND, &self.admission).await?;
        let name = Text::new(posted.name());
        let namespace = posted.context.namespace.clone();
        let account = self.get("serviceaccounts", &namespace, &name);
        agree(&posted.object, &name, &namespace)?;
        let account = account.await?;
        self.complete(&mut posted, &account, &record)?;
        posted.validate(&self.admission).await?;

        let bound = self.bound(&posted.context, &posted.object, &name).await?;
        let request = FieldRef::<v1::TokenRequest>::root(&posted.object);
        let mut seconds = request.at(v1::TokenRequest::SPEC).at(Spec::EXPIRATION_SECONDS).int_or_zero();
        let longest = self.issuer.max_seconds;
        if longest > 0 && seconds > longest {
            posted.context.warn(format!("requested expiration of {seconds} seconds shortened to {longest} seconds"));
            seconds = longest;
        }
        let audiences = audiences(&posted.object);
        let is_mounted = bound.pod.is_some()
            && seconds == INJECTED_SECONDS
            && audiences.iter().all(|audience| self.issuer.audiences.iter().any(|own| own == audience));
        let now = posted.context.now_seconds();
        let (life, warn_after) = match self.issuer.extended {
            Some(extended) if is_mounted => (extended, Some(now + seconds)),
            _ => (seconds, None),
        };

        let id = uuid::Uuid::new_v4().to_string();
        let mut own = Map::new();
        own.insert("namespace".into(), json!(namespace.as_str()));
        own.insert("serviceaccount".into(), reference(&name, object::uid(&account)));
        for (member, part) in [("pod", &bound.pod), ("secret", &bound.secret), ("node", &bound.node)] {
            if let Some((name, uid)) = part {
                own.insert(member.into(), reference(name, uid));
            }
        }
        if let Some(at) = warn_after {
            own.insert("warnafter".into(), json!(at));
        }
        let claims = json!({
            "iss": self.issuer.issuer.as_str(),
            "sub": username(&namespace, &name).as_str(),
            "aud": audiences,
            "iat": now,
            "nbf": now,
            "exp": now + life,
            "jti": id,
            "kubernetes.io": own,
        });
        let token = self.issuer.signer.sign(&claims).await;
        let token = token.map_err(|error| Status::internal(format!("failed to generate token: {error}")))?;
        record.annotate(ISSUED_ID, &format!("JTI={id}"));

        let expires = UNIX_EPOCH + Duration::from_secs(u64::try_from(now + seconds).unwrap_or_default());
        let mut answer = Value::clone(&posted.object);
        let mut response = FieldMut::<v1::TokenRequest>::root(&mut answer);
        response.entry(v1::TokenRequest::SPEC).set(Spec::EXPIRATION_SECONDS, seconds);
        let mut status = response.entry(v1::TokenRequest::STATUS);
        status.set(TokenRequestStatus::TOKEN, token);
        status.set(TokenRequestStatus::EXPIRATION_TIMESTAMP, rfc3339(expires));
        posted.respond(answer)
    }

    /// Completes and validates the request.
    fn complete(&self, posted: &mut PostedObject, account: &Value, record: &Record) -> Result<(), Status> {
        let uid = object::uid(account);
        let said = object::uid(&posted.object);
        if !said.is_empty() && said != uid {
            let why =
                format!("the UID in the token request ({said}) does not match the UID of the service account ({uid})");
            if self.resources.features().enabled(UID_GATE) {
                return Err(Status::conflict(&GroupResource::new(KIND.group, KIND.kind), posted.name(), why));
            }
            posted
                .context
                .warn(format!("{why} but {UID_GATE} is not enabled. In the future, this will return a conflict error"));
            record.annotate(UID_MISMATCH, &why);
        }
        let said = if said.is_empty() { uid } else { said }.to_owned();
        let created = rfc3339(posted.context.now);
        let mut request = FieldMut::<v1::TokenRequest>::root(&mut posted.object);
        if request.read().at(v1::TokenRequest::SPEC).at(Spec::AUDIENCES).is_empty() {
            request.entry(v1::TokenRequest::SPEC).set(Spec::AUDIENCES, self.issuer.audiences.clone());
        }
        let mut metadata = request.entry(v1::TokenRequest::METADATA);
        metadata.set(ObjectMeta::NAME, object::name(account));
        metadata.set(ObjectMeta::NAMESPACE, object::namespace(account));
        metadata.set(ObjectMeta::UID, said);
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

    async fn bound(&self, context: &Context, request: &Value, account: &str) -> Result<Bound, Status> {
        let mut bound = Bound::default();
        let request = FieldRef::<v1::TokenRequest>::root(request);
        let spec = request.at(v1::TokenRequest::SPEC);
        let Some(wanted) = spec.at(Spec::BOUND_OBJECT_REF).set() else { return Ok(bound) };
        let (name, kind) = (wanted.at(Reference::NAME).str(), wanted.at(Reference::KIND).str());
        let api_version = wanted.at(Reference::API_VERSION).str();
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
                let what = format!("{group}/{version}, Kind={kind}");
                return Err(Status::bad_request(format!("cannot bind token to object of type {what}")));
            }
        };
        let said = wanted.at(Reference::UID).str();
        if !said.is_empty() && said != uid {
            let why = format!(
                "the UID in the bound object reference ({said}) does not match the UID in record. The object might have \
                 been deleted and then recreated"
            );
            return Err(Status::conflict(&GroupResource::new(group, kind), name, why));
        }
        Ok(bound)
    }

    /// An object of the core group, with all that was acknowledged before.
    async fn get(&self, plural: &str, namespace: &str, name: &str) -> Result<Value, Status> {
        let resource = self.resources.require("", "v1", plural)?;
        resource.get_object(&Context::internal(namespace), name, Match::Consistent).await.map(|stored| stored.object)
    }
}

impl UnstoredHandler for TokenRequest {
    fn handle(&self, call: UnstoredCall) -> BoxFuture<'_, Answer> {
        Box::pin(self.issue(call))
    }
}

/// Checks that name and namespace in the body, if set, are those of the path.
fn agree(request: &Value, name: &str, namespace: &str) -> Result<(), Status> {
    let request = FieldRef::<v1::TokenRequest>::root(request);
    let metadata = request.at(v1::TokenRequest::METADATA);
    for (field, wanted) in [(ObjectMeta::NAME, name), (ObjectMeta::NAMESPACE, namespace)] {
        let said = metadata.at(field);
        if !said.is_empty() && said.str() != wanted {
            let why = format!("must match the service account {} if specified", field.name());
            let errors = FieldErrors::from([said.invalid(why)]);
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
