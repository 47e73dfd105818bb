//! Conversion of custom resources by the webhook in their definition.

mod metrics;
mod response;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crate::Definition;
use binnacle_fields::apiextensions::v1::{
    ConversionResponse, ConversionReview, ServiceReference, WebhookClientConfig, WebhookConversion,
};
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata as AnyKind, Status as ResultStatus};
use binnacle_fields::types::{Map, Str};
use binnacle_fields::{Field, FieldMut, FieldRef, metadata, route};
use binnacle_meta::{FieldErrors, GroupVersion, Text, aggregate, go_quote};
use binnacle_schema::{Limits, Object, TooManyElements, Value, json, value};
use binnacle_scheme::{ConversionFuture, Converter, ReadFailure, within_object_limits};
use binnacle_validation::metadata as validation;
use binnacle_webhook::{Answer, Client, ReviewKind, Service, ServiceResolver, Target, WebhookError};
use bytes::Bytes;
use tokio::sync::Semaphore;

pub use self::metrics::ConversionMetrics;
use self::metrics::Failure;

/// The timeout of a conversion in kube-apiserver.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum number of requests to a server that responds with `Retry-After`.
const ATTEMPTS: u32 = 11;
const GROUP: &str = "apiextensions.k8s.io";
const REVIEW: &str = "ConversionReview";
/// The limits of a response. Callers split objects whose conversion would exceed them into several requests.
const LIMITS: Limits = Limits { max_bytes: 64 << 20, max_depth: 256, max_yaml_nodes: 4 << 20, max_memory: MAX_TREE };
/// The maximum memory of the tree of a response, without its strings.
const MAX_TREE: usize = 64 << 20;
/// The number of responses that are decoded concurrently.
const DECODED_AT_ONCE: usize = 4;

static DECODERS: Semaphore = Semaphore::const_new(DECODED_AT_ONCE);

/// The webhook of one definition.
pub(super) struct ConversionWebhook {
    /// The name of the definition.
    definition: Text,
    /// `spec.conversion.webhook`.
    webhook: Value,
    metrics: ConversionMetrics,
    resolver: Arc<dyn ServiceResolver>,
    client: OnceLock<Client>,
}

impl ConversionWebhook {
    /// Returns the converter of a definition, or `None` if no webhook converts its objects.
    pub(super) fn of(
        definition: &Definition,
        resolver: &Arc<dyn ServiceResolver>,
        metrics: &ConversionMetrics,
    ) -> Option<Arc<dyn Converter>> {
        let webhook = definition.webhook.clone()?;
        let (definition, metrics) = (definition.name.clone(), metrics.clone());
        Some(Arc::new(Self { definition, webhook, metrics, resolver: resolver.clone(), client: OnceLock::new() }))
    }

    fn client(&self) -> Result<&Client, String> {
        match self.client.get() {
            Some(client) => Ok(client),
            None => self.build_client().map(|client| self.client.get_or_init(|| client)),
        }
    }

    fn build_client(&self) -> Result<Client, String> {
        let webhook = FieldRef::<WebhookConversion>::root(&self.webhook);
        let config = webhook.at(WebhookConversion::CLIENT_CONFIG);
        let service = config.at(WebhookClientConfig::SERVICE).detached().set();
        let target = match service {
            Some(service) => Target::rest(&service_url(service)),
            None => Target::rest(config.at(WebhookClientConfig::URL).str()),
        }
        .map_err(|error| error.to_string())?;
        let service = service.map(|service| Service {
            resolver: self.resolver.clone(),
            namespace: service.at(ServiceReference::NAMESPACE).str().to_owned(),
            name: service.at(ServiceReference::NAME).str().to_owned(),
            port: service_port(service),
        });
        let mut target = target.at(service, &self.resolver);
        if !target.is_loopback() {
            target.trust(config.at(WebhookClientConfig::CA_BUNDLE).str()).map_err(|error| error.to_string())?;
        }
        Client::new(target, TIMEOUT).map_err(|error| error.to_string())
    }

    /// Returns the first review version that both sides support.
    fn review_version(&self) -> Result<&str, String> {
        let webhook = FieldRef::<WebhookConversion>::root(&self.webhook);
        let versions = webhook.at(WebhookConversion::CONVERSION_REVIEW_VERSIONS).strs();
        let mut supported = versions.filter(|version| matches!(*version, "v1" | "v1beta1"));
        supported.next().ok_or_else(|| "no supported conversion review versions".to_owned())
    }

    async fn call(&self, version: &str, objects: &[Value], desired: &str) -> Result<Vec<Value>, (Failure, String)> {
        let failed = |why: String| (Failure::Call, why);
        let uid = Text::from(uuid::Uuid::new_v4().to_string());
        let review = value!({
            "kind": REVIEW,
            "apiVersion": (format!("{GROUP}/{version}")),
            "request": {
                "uid": (uid.clone()),
                "desiredAPIVersion": desired,
                "objects": (Value::List(objects.to_vec())),
            },
            "response": {"uid": "", "convertedObjects": null, "result": {"metadata": {}}},
        });
        let mut body = Vec::new();
        json::write(&review, &mut body);
        let client = self.client().map_err(failed)?;
        let response = post(client, body.into()).await.map_err(|error| match error {
            WebhookError::TooLarge { message } => (Failure::TooLarge, message),
            error => failed(error.to_string()),
        })?;
        if response.body.is_empty() {
            let media = response.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
            let code = response.code;
            return Err(failed(format!("0-length response with status code: {code} and content type: {media}")));
        }
        let of_another_kind = |given: &GroupVersion, kind: &str, tree: &Value| match kind {
            REVIEW => response::check_types(tree, &given.version),
            _ => Ok(()),
        };
        let expected = ReviewKind { group: GROUP, version, kind: REVIEW };
        // The semaphore is never closed.
        let _turn = DECODERS.acquire().await;
        binnacle_work::large(response.body.len()).await;
        let review = within_object_limits(|| expected.read(&response.body, &LIMITS, of_another_kind));
        let review = review.map_err(|failure| match failure {
            ReadFailure::Invalid(why) if !has_too_many_elements(&why) => failed(why),
            failure => (Failure::TooLarge, failure.into_text()),
        })?;
        response::check_types(&review, version).map_err(failed)?;
        converted_objects(review, version, &uid).map_err(|why| (Failure::MalformedResponse, why))
    }

    /// Converts all objects in one request. If the response does not convert all of them, converts one object per
    /// request, as kube-apiserver always does: its errors are about one object, and a webhook may support only one
    /// object per review.
    async fn convert_all(&self, version: &str, objects: &[Value], desired: &str) -> Result<Vec<Value>, ReadFailure> {
        match self.convert_counted(version, objects, desired).await {
            Err((failure, _)) if objects.len() > 1 && !matches!(failure, Failure::Call | Failure::TooLarge) => {}
            result => return result.map_err(read_failure),
        }
        let mut converted = Vec::with_capacity(objects.len());
        for object in objects {
            let one = self.convert_counted(version, std::slice::from_ref(object), desired).await;
            converted.extend(one.map_err(read_failure)?);
        }
        Ok(converted)
    }

    /// Calls the webhook, and counts the call.
    async fn convert_counted(
        &self,
        version: &str,
        objects: &[Value],
        desired: &str,
    ) -> Result<Vec<Value>, (Failure, String)> {
        let start = Instant::now();
        let result = self.convert_checked(version, objects, desired).await;
        self.metrics.called(result.as_ref().err().map(|(failure, _)| *failure), start.elapsed());
        result
    }

    /// Calls the webhook, and compares its objects with the originals.
    async fn convert_checked(
        &self,
        version: &str,
        objects: &[Value],
        desired: &str,
    ) -> Result<Vec<Value>, (Failure, String)> {
        let webhook = format!("conversion webhook for {}", objects.first().map(kind_of).unwrap_or_default());
        let result = self.call(version, objects, desired).await;
        let converted = result.map_err(|(failure, why)| (failure, format!("{webhook} failed: {why}")))?;
        let (received, expected) = (converted.len(), objects.len());
        if received != expected {
            return Err((
                Failure::PartialResponse,
                format!("{webhook} returned {received} objects, expected {expected}"),
            ));
        }
        let invalid = |why: String| (Failure::InvalidConvertedObject, format!("{webhook} {why}"));
        let mut done = Vec::with_capacity(expected);
        for (i, (original, mut converted)) in objects.iter().zip(converted).enumerate() {
            // Only this failure's message does not name the webhook.
            response::check_object(&converted).map_err(|why| (Failure::InvalidConvertedObject, why))?;
            check(original, &converted, desired, i).map_err(invalid)?;
            let restored = restore_metadata(original, &mut converted);
            restored.map_err(|why| invalid(format!("returned invalid metadata: {why}")))?;
            done.push(converted);
        }
        Ok(done)
    }
}

impl Converter for ConversionWebhook {
    fn convert(&self, objects: Vec<Value>, api_version: &str) -> ConversionFuture<'_> {
        let desired = Text::from(api_version);
        Box::pin(async move {
            let Some(first) = objects.first() else { return Ok(objects) };
            let (from, to) = (version_of(api_version_of(first)).to_owned(), version_of(&desired));
            let start = Instant::now();
            let converted = match self.review_version() {
                Ok(version) => self.convert_all(version, &objects, &desired).await,
                Err(why) => Err(ReadFailure::Invalid(why)),
            };
            self.metrics.converted(&self.definition, [&from, to], converted.is_ok(), start.elapsed());
            converted
        })
    }
}

/// Returns true for the error of a document whose tree would take too much memory.
fn has_too_many_elements(why: &str) -> bool {
    why.contains(&TooManyElements { limit: MAX_TREE }.to_string())
}

fn read_failure((failure, why): (Failure, String)) -> ReadFailure {
    match failure {
        Failure::TooLarge => ReadFailure::TooLarge(why),
        _ => ReadFailure::Invalid(why),
    }
}

/// Posts a review, and repeats it if the server responds with `Retry-After`.
async fn post(client: &Client, document: Bytes) -> Result<Answer, WebhookError> {
    let start = Instant::now();
    let mut attempts = 1;
    loop {
        let response = client.post(document.clone()).await;
        match &response {
            Err(WebhookError::Status { code, retry_after: Some(seconds), .. }) if *code == 429 || *code >= 500 => {
                let pause = Duration::from_secs(u64::from(*seconds));
                if attempts == ATTEMPTS || start.elapsed() + pause >= TIMEOUT {
                    return response;
                }
                tokio::time::sleep(pause).await;
            }
            _ => return response,
        }
        attempts += 1;
    }
}

fn api_version_of(object: &Value) -> &str {
    FieldRef::root(object).at(AnyKind::API_VERSION).str()
}

fn version_of(api_version: &str) -> &str {
    api_version.rsplit('/').next().unwrap_or_default()
}

/// Returns the port, which validation limits to 16 bits.
fn service_port(service: FieldRef<ServiceReference>) -> u16 {
    service.at(ServiceReference::PORT).int().and_then(|port| u16::try_from(port).ok()).unwrap_or(443)
}

fn service_url(service: FieldRef<ServiceReference>) -> String {
    let [namespace, name, path] = [ServiceReference::NAMESPACE, ServiceReference::NAME, ServiceReference::PATH]
        .map(|field| service.at(field).str());
    let path = path.strip_prefix('/').unwrap_or(path);
    format!("https://{name}.{namespace}.svc:{}/{path}", service_port(service))
}

/// Returns `group/version, Kind=kind`.
fn kind_of(object: &Value) -> String {
    let object = FieldRef::<AnyKind>::root(object);
    let api_version = object.at(AnyKind::API_VERSION).str();
    let api_version = if api_version.is_empty() { "/" } else { api_version };
    format!("{api_version}, Kind={}", object.at(AnyKind::KIND).str())
}

/// Returns the converted objects of a review, if it is the response to this request.
fn converted_objects(mut review: Value, version: &str, uid: &str) -> Result<Vec<Value>, String> {
    // Neither is checked for v1beta1.
    let strict = version == "v1";
    let (expected, received) = (format!("{GROUP}/{version}, Kind={REVIEW}"), kind_of(&review));
    if strict && received != expected {
        return Err(format!("expected webhook response of {expected}, got {received}"));
    }
    let mut review = FieldMut::<ConversionReview>::root(&mut review);
    let read = review.read();
    let Some(response) = read.at(ConversionReview::RESPONSE).set() else {
        return Err("no response provided".to_owned());
    };
    let received = response.at(ConversionResponse::UID).str();
    if strict && received != uid {
        return Err(format!("expected response.uid={}, got {}", go_quote(uid), go_quote(received)));
    }
    let result = response.at(ConversionResponse::RESULT);
    let (status, message) = (result.at(ResultStatus::STATUS).str(), result.at(ResultStatus::MESSAGE).str());
    if status != "Success" {
        return Err(match message {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            message => message.to_owned(),
        });
    }
    match review.entry(ConversionReview::RESPONSE).take(ConversionResponse::CONVERTED_OBJECTS) {
        Some(Value::List(objects)) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// Fails unless a converted object has the desired version and the identity of the original.
fn check(original: &Value, converted: &Value, desired: &str, i: usize) -> Result<(), String> {
    let [original, converted] = [original, converted].map(FieldRef::<AnyKind>::root);
    let received = converted.at(AnyKind::API_VERSION).str();
    if received != desired {
        return Err(format!(
            "returned invalid object at index {i}: invalid groupVersion (expected {desired}, received {received})"
        ));
    }
    let (expected, received) = (original.at(AnyKind::KIND).str(), converted.at(AnyKind::KIND).str());
    if received != expected {
        return Err(format!(
            "returned invalid object at index {i}: invalid kind (expected {expected}, received {received})"
        ));
    }
    let [original, converted] = [original.at(AnyKind::METADATA), converted.at(AnyKind::METADATA)];
    for (field, what) in [(ObjectMeta::NAME, "name"), (ObjectMeta::NAMESPACE, "namespace"), (ObjectMeta::UID, "UID")] {
        let (expected, received) = (original.at(field).str(), converted.at(field).str());
        if received != expected {
            return Err(format!("returned invalid object: must have the same {what}: {expected} != {received}"));
        }
    }
    Ok(())
}

/// Replaces the metadata of a converted object by those of the original, except for labels and annotations, which a
/// conversion may change.
fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    let given = converted.get(AnyKind::METADATA.name()).ok_or("missing metadata in converted object")?;
    if given.as_object().is_none() {
        return Err(format!("invalid metadata of type {} in converted object", go_type(given)));
    }
    let given = FieldRef::<AnyKind>::root(converted).at(AnyKind::METADATA).detached();
    let mut restored = metadata(original).object().cloned().unwrap_or_default();
    for field in [ObjectMeta::LABELS, ObjectMeta::ANNOTATIONS] {
        let name = field.name();
        let Some(value) = given.at(field).get() else {
            restored.remove(name);
            continue;
        };
        let texts = value
            .as_object()
            .ok_or_else(|| format!("invalid metadata.{name} of type {} in converted object", go_type(value)))?;
        if let Some((key, value)) = texts.iter().find(|(_, value)| value.as_str().is_none()) {
            let found = go_type(value);
            return Err(format!("metadata.{name}[{key}] must be a string, but is {found} in converted object"));
        }
        if !same_texts(texts, restored.get(name).and_then(Value::as_object)) {
            check_texts(field, value)?;
        }
        restored.insert(name, value.clone());
    }
    converted.make_object().insert(AnyKind::METADATA.name(), Value::Object(restored));
    Ok(())
}

/// Validates changed labels or annotations.
fn check_texts(field: Field<ObjectMeta, Map<Str>>, texts: &Value) -> Result<(), String> {
    let mut errors = FieldErrors::new();
    if field.name() == ObjectMeta::LABELS.name() {
        let path = route![AnyKind::METADATA, ObjectMeta::LABELS].path();
        validation::validate_labels(FieldRef::located(texts, &path), &mut errors);
    } else {
        // As in kube-apiserver, the path is in the singular.
        let path = route![AnyKind::METADATA].path().child("annotation");
        validation::validate_annotations(FieldRef::located(texts, &path), &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(aggregate(errors.iter())) }
}

/// Returns true if both have the same members, in any order.
fn same_texts(texts: &Object, original: Option<&Object>) -> bool {
    texts.len() == original.map_or(0, Object::len)
        && texts.iter().all(|(key, value)| {
            original.and_then(|original| original.get(key)).and_then(Value::as_str) == value.as_str()
        })
}

/// Returns Go's name for the type of a value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Str(_) | Value::Raw(_) => "string",
        Value::List(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Int(_) => "int64",
        Value::Float(_) => "float64",
    }
}

#[cfg(test)]
mod tests;
