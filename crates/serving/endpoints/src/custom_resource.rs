//! Bodies, patches and apply configurations of custom resources: untyped trees, which are pruned by their schema.

use binnacle_meta::{GroupVersion, Status};
use binnacle_registry::{Context, Resource};
use binnacle_schema::decode::{DecodeError, DecodedObject, EmptyFields};
use binnacle_schema::{Finding, Findings, JsonError, Limits, Value, cbor, json, yaml};
use binnacle_scheme::{CustomSchema, CustomSource, PruneResult};

use crate::body::{self, ExpectedKind};
use crate::negotiate::Encoding;
use crate::params::FieldValidation;

/// Decodes an object that a client sent, with its defaults.
pub(crate) fn decode_object(
    context: &Context,
    resource: &Resource,
    custom: &dyn CustomSchema,
    encoding: Encoding,
    body: &[u8],
    validation: FieldValidation,
) -> Result<Value, Status> {
    let expected = ExpectedKind::of(resource);
    let unrecognized = |why: String| body::unrecognized(&expected, &why, body);
    let limits = Limits::default();
    let decode_failure = |error: DecodeError| match (error.too_many_elements(), &error) {
        (Some(error), _) => Status::request_entity_too_large(error),
        // Go detects such a number only after the type, when it decodes the object.
        (None, DecodeError::Json(error @ JsonError::Number(_))) => match type_meta_of(body) {
            Ok(type_meta) => body::cannot_be_handled(&expected, &type_meta, &error.to_string()),
            Err(why) => unrecognized(why),
        },
        (None, DecodeError::Json(error)) => {
            unrecognized(format!("couldn't get version/kind; json parse error: {error}"))
        }
        (None, error) => unrecognized(error.to_string()),
    };
    let (value, findings) = match encoding {
        Encoding::Json => {
            json::parse_strict(body, &limits).map_err(|error| decode_failure(DecodeError::Json(error)))?
        }
        Encoding::Yaml => {
            let (value, found) =
                yaml::parse(body, &limits).map_err(|error| decode_failure(DecodeError::Yaml(error)))?;
            let mut findings = Findings::default();
            findings.extend(found);
            (value, findings)
        }
        Encoding::Cbor => (decode_cbor(&expected, body)?, Findings::default()),
        Encoding::Protobuf => return Err(Status::unsupported_media_type(&TEXT_MEDIA_TYPES)),
    };
    // If a JSON text has several names for the type, their order matters, which the tree does not preserve.
    if encoding == Encoding::Json
        && value.as_object().is_some_and(|members| members.keys().any(|name| json::is_type_meta_in_other_case(name)))
    {
        json::type_meta(body, &limits)
            .map_err(|error| unrecognized(format!("couldn't get version/kind; json parse error: {error}")))?;
    }
    json::interpret(&value).map_err(unrecognized)?;
    if value.str_at(&["kind"]).is_empty() {
        return Err(missing_kind_error(&expected, encoding, value, body, validation));
    }
    // kube-apiserver does not report unknown fields for CBOR.
    let report_unknown = validation != FieldValidation::Ignore && encoding != Encoding::Cbor;
    // The error contains the version that was sent, if any, because Go has already decoded it.
    let sent = ExpectedKind { version: "", ..ExpectedKind::of(resource) };
    let decoded = prune(resource, custom, value, findings, report_unknown)
        .map_err(|(value, why)| body::cannot_be_handled(&sent, &value, &why))?;
    body::apply_field_validation(context, &decoded.findings, validation, |why| {
        // Go decodes into an object without a version and kind, which then has those that were sent. A slash is no version.
        if matches!(decoded.value.str_at(&["apiVersion"]), "" | "/") {
            return Status::bad_request(NO_VERSION);
        }
        let sent = ExpectedKind { kind: decoded.value.str_at(&["kind"]), ..ExpectedKind::of(resource) };
        body::cannot_be_handled(&sent, &decoded.value, why)
    })?;
    let mut value = decoded.value;
    let given = value.str_at(&["apiVersion"]);
    let expected_version = GroupVersion::new(expected.group, expected.version);
    if given != expected_version.to_string() {
        // A version with a leading slash has no group.
        let given = GroupVersion::parse(given).unwrap_or_else(|| GroupVersion::new("", given));
        return Err(Status::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({expected_version})"
        )));
    }
    resource.set_defaults(&mut value);
    // The following steps copy the object, which the work budget does not count.
    binnacle_work::check()?;
    Ok(value)
}

/// Returns a tree with only the type of a JSON body.
fn type_meta_of(body: &[u8]) -> Result<Value, String> {
    let meta = json::type_meta(body, &Limits::default())
        .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    let type_meta = body::type_meta_tree(meta);
    json::interpret(&type_meta)?;
    Ok(type_meta)
}

/// Returns the error for an object without a kind. Go's strict decoder drops the kind of the resource; the other
/// decoder quotes its input, which is JSON even for YAML bodies.
fn missing_kind_error(
    expected: &ExpectedKind<'_>,
    encoding: Encoding,
    mut value: Value,
    body: &[u8],
    validation: FieldValidation,
) -> Status {
    let missing = |sent: &str| format!("Object 'Kind' is missing in '{sent}'");
    let sent = String::from_utf8_lossy(body);
    match validation {
        FieldValidation::Warn | FieldValidation::Strict => body::unrecognized(expected, &missing(&sent), body),
        FieldValidation::Ignore => {
            binnacle_schema::sort_free_form(&mut value);
            let why = match encoding {
                Encoding::Yaml => missing(&json::to_string(&value)),
                _ => missing(sent.trim_matches([' ', '\t', '\n', '\r'])),
            };
            body::cannot_be_handled(expected, &value, &why)
        }
    }
}

/// Decodes a document in CBOR, which must have a version and kind.
fn decode_cbor(expected: &ExpectedKind<'_>, body: &[u8]) -> Result<Value, Status> {
    let refuse = |why: String| match body::cbor_type_meta_tree(expected, body) {
        Ok(type_meta) => body::cannot_be_handled(expected, &type_meta, &why),
        Err(status) => status,
    };
    let object = cbor::parse_object(body, &Limits::default());
    let value = Value::Object(object.map_err(|error| body::cbor_failure(error, refuse))?);
    let kind = value.str_at(&["kind"]);
    if kind.is_empty() {
        let why = format!("Object 'Kind' is missing in '{}'", cbor::diagnose(body));
        return Err(body::unrecognized(expected, &why, body));
    }
    if value.str_at(&["apiVersion"]).is_empty() {
        let (expected, sent) = (expected.kind, cbor::diagnose(body));
        return Err(Status::bad_request(format!(
            "{kind} in version \"\" cannot be handled as a {expected}: Object 'apiVersion' is missing in '{sent}'"
        )));
    }
    Ok(value)
}

/// Converts a tree to an object of the resource, without defaults, and adds unknown fields to the findings. An error is
/// returned with the tree.
pub(crate) fn prune(
    resource: &Resource,
    custom: &dyn CustomSchema,
    mut value: Value,
    mut findings: Findings,
    report_unknown: bool,
) -> Result<DecodedObject, (Value, String)> {
    debug_assert!(resource.collection.kind.custom.is_some());
    if value.get("apiVersion").is_some_and(Value::is_null) {
        return Err((value, NULL_VERSION.to_owned()));
    }
    // Objects of other kinds are rejected later.
    let source = match is_of(resource, &value) {
        true => CustomSource::Request { report_unknown },
        false => CustomSource::RequestOfOtherKind { report_unknown },
    };
    match custom.prune(&mut value, source) {
        Ok(PruneResult { unknown, .. }) => {
            findings.extend(unknown.into_iter().map(Finding::PrunedField));
            Ok(DecodedObject { value, findings, empty_fields: EmptyFields::default() })
        }
        Err(why) => Err((value, why)),
    }
}

/// Returns true for an object of the resource's group and kind, in any version.
fn is_of(resource: &Resource, object: &Value) -> bool {
    let description = &resource.description;
    let group = GroupVersion::parse(object.str_at(&["apiVersion"])).map(|version| version.group);
    group.as_deref() == Some(description.group.as_str()) && object.str_at(&["kind"]) == description.kind
}

/// Go's error for an object without a version.
pub(crate) const NO_VERSION: &str = "Object 'apiVersion' is missing in 'object has no apiVersion field'";
/// Go's error for an object whose version is null.
const NULL_VERSION: &str = ".apiVersion accessor error: <nil> is of the type <nil>, expected string";
/// The media types of bodies of custom resources.
const TEXT_MEDIA_TYPES: [&str; 2] = ["application/json", "application/yaml"];
