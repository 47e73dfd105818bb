//! Reading and decoding request bodies.

use binnacle_meta::{GroupVersion, Status, go_quote};
use binnacle_registry::{Context, Resource};
use binnacle_request::{BodyError, Request};
use binnacle_schema::decode::{self, DecodeError, DecodedObject, EmptyFields};
use binnacle_schema::json::TypeMeta;
use binnacle_schema::proto::ProtoError;
use binnacle_schema::{CborError, Finding, Findings, Limits, Message, Value, cbor, json, proto, yaml};
use binnacle_scheme::Kinds;
use bytes::Bytes;

use crate::negotiate::Encoding;
use crate::params::FieldValidation;

/// kube-apiserver's limit on request bodies, which is twice etcd's limit.
pub(crate) const MAX: usize = 3 * 1024 * 1024;
/// The number of bytes of an undecodable body that errors quote.
const SUMMARY: usize = 30;

pub async fn read(request: &mut Request) -> Result<Bytes, Status> {
    let body = request.read_body(MAX).await.map_err(|error| match error {
        BodyError::TooLarge { .. } => Status::request_entity_too_large(format_args!("limit is {MAX}")),
        BodyError::Unwaited(error) => Status::from(error),
        BodyError::Broken(error) => Status::bad_request(error.to_string()),
    })?;
    // Called here so that every handler is covered.
    binnacle_work::large(body.len()).await;
    binnacle_work::charge_bytes(4 * body.len())?;
    Ok(body)
}

/// The expected type of a body.
pub struct ExpectedKind<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    /// The known kinds of bodies.
    pub kinds: &'a dyn Kinds,
}

impl<'a> ExpectedKind<'a> {
    pub(crate) fn of(resource: &'a Resource) -> Self {
        let d = &resource.description;
        Self { group: &d.group, version: &d.version, kind: &d.kind, kinds: resource.collection.kinds() }
    }

    fn group_version(&self) -> GroupVersion {
        GroupVersion::new(self.group, self.version)
    }

    /// Sets the version and kind of an object.
    fn set_type_meta(&self, value: &mut Value) {
        let members = value.make_object();
        members.insert("kind", self.kind);
        members.insert("apiVersion", self.group_version().to_string());
    }
}

/// A body, and the treatment of its unknown and duplicate fields.
#[derive(Clone, Copy)]
struct Sent<'a> {
    context: &'a Context,
    encoding: Encoding,
    bytes: &'a [u8],
    validation: FieldValidation,
}

impl Sent<'_> {
    /// Decodes the body by a message. The text of an error is Go's.
    fn decode(&self, message: &Message) -> Result<DecodedObject, DecodeError> {
        let limits = Limits::default();
        match self.encoding {
            Encoding::Json => decode::json(self.bytes, message, &limits),
            Encoding::Yaml => decode::yaml(self.bytes, message, &limits),
            Encoding::Cbor => decode::cbor(self.bytes, message, &limits),
            Encoding::Protobuf => {
                let decode = |bytes| proto::decode_within(proto::unwrap(bytes)?.raw, message, &limits);
                let value = decode(self.bytes).map_err(|error| match error {
                    ProtoError::TooManyElements(error) => DecodeError::TooManyElements(error),
                    error => DecodeError::Value(error.to_string()),
                })?;
                Ok(DecodedObject { value, findings: Findings::default(), empty_fields: EmptyFields::default() })
            }
        }
    }
}

/// Decodes a body as an object of a kind, and returns it with explicitly empty fields; unknown and duplicate fields
/// become errors or warnings.
pub fn decode(
    context: &Context,
    expected: &ExpectedKind<'_>,
    message: &Message,
    encoding: Encoding,
    body: &[u8],
    validation: FieldValidation,
) -> Result<(Value, EmptyFields), Status> {
    let sent = Sent { context, encoding, bytes: body, validation };
    match encoding {
        Encoding::Json | Encoding::Yaml => {}
        Encoding::Protobuf => return Ok((decode_protobuf(expected, message, &sent)?, EmptyFields::default())),
        // The kind is checked first.
        Encoding::Cbor => check_kind(expected, &mut cbor_type_meta_tree(expected, body)?, &sent)?,
    }
    let decoded = sent.decode(message);
    let DecodedObject { mut value, findings, empty_fields } = match decoded {
        Ok(decoded) => decoded,
        Err(error) => return Err(decode_failure(expected, &sent, &error)),
    };
    match type_meta_in_other_case(expected, encoding, body, &findings)? {
        Some(mut type_meta) => {
            check_kind(expected, &mut type_meta, &sent)?;
            expected.set_type_meta(&mut value);
        }
        None => check_kind(expected, &mut value, &sent)?,
    }
    apply_field_validation(context, &findings, validation, |why| cannot_be_handled(expected, &value, why))?;
    Ok((value, empty_fields))
}

/// Returns the version and kind of a JSON text in which their names have a different case. To the decoder of objects
/// these fields are unknown, but Go first decodes the type separately, ignoring case.
fn type_meta_in_other_case(
    expected: &ExpectedKind<'_>,
    encoding: Encoding,
    body: &[u8],
    findings: &Findings,
) -> Result<Option<Value>, Status> {
    let is_type_meta = |finding: &Finding| match finding {
        Finding::UnknownField(name) => json::is_type_meta_in_other_case(name),
        _ => false,
    };
    if !findings.iter().any(is_type_meta) {
        return Ok(None);
    }
    let limits = Limits::default();
    let meta = match encoding {
        Encoding::Json => json::type_meta(body, &limits).map_err(|error| error.to_string()),
        Encoding::Yaml => match yaml::parse(body, &limits) {
            Ok((tree, _)) => json::tree_type_meta(&tree),
            Err(error) => Err(error.to_string()),
        },
        Encoding::Protobuf | Encoding::Cbor => return Ok(None),
    };
    let refuse =
        |why: String| unrecognized(expected, &format!("couldn't get version/kind; json parse error: {why}"), body);
    meta.map(|meta| Some(type_meta_tree(meta))).map_err(refuse)
}

/// Ignores unknown and duplicate fields, adds warnings about them, or rejects them, depending on `fieldValidation`.
pub(crate) fn apply_field_validation(
    context: &Context,
    findings: &Findings,
    validation: FieldValidation,
    refuse: impl FnOnce(&str) -> Status,
) -> Result<(), Status> {
    match validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => findings.warnings().into_iter().for_each(|warning| context.warn(warning)),
        FieldValidation::Strict => {
            if let Some(why) = findings.strict_error() {
                return Err(refuse(&why));
            }
        }
    }
    Ok(())
}

/// Returns the error for a body that could not be decoded. It depends on the body's kind, which is parsed again.
fn decode_failure(expected: &ExpectedKind<'_>, sent: &Sent<'_>, error: &DecodeError) -> Status {
    if let Some(error) = error.too_many_elements() {
        return Status::request_entity_too_large(error);
    }
    let (limits, body) = (Limits::default(), sent.bytes);
    let unrecognized = |why: String| unrecognized(expected, &why, body);
    let no_type_meta = |why: String| unrecognized(format!("couldn't get version/kind; json parse error: {why}"));
    let mut type_meta = match sent.encoding {
        Encoding::Yaml => match yaml::parse(body, &limits) {
            Ok((value, _)) => match json::check_type_meta(&value) {
                Ok(()) => value,
                Err(why) => return no_type_meta(why),
            },
            Err(error) => return unrecognized(error.to_string()),
        },
        Encoding::Cbor => match cbor_type_meta_tree(expected, body) {
            Ok(type_meta) => type_meta,
            Err(status) => return status,
        },
        _ => match json::type_meta(body, &limits) {
            Ok(meta) => type_meta_tree(meta),
            Err(error) => return no_type_meta(error.to_string()),
        },
    };
    if let Err(status) = check_kind(expected, &mut type_meta, sent) {
        return status;
    }
    cannot_be_handled(expected, &type_meta, &error.to_string())
}

/// Returns the error for a body whose kind cannot be decoded.
pub(crate) fn unrecognized(expected: &ExpectedKind<'_>, why: &str, body: &[u8]) -> Status {
    let (kind, summary) = (expected.kind, summarize(body));
    Status::bad_request(format!("the object provided is unrecognized (must be of type {kind}): {why} ({summary})"))
}

/// Returns a tree of the version and kind only.
pub(crate) fn type_meta_tree(meta: TypeMeta) -> Value {
    let mut value = Value::default();
    value.make_object().insert("apiVersion", meta.api_version);
    value.make_object().insert("kind", meta.kind);
    value
}

/// Reads the version and kind of a body in CBOR.
pub(crate) fn cbor_type_meta_tree(expected: &ExpectedKind<'_>, body: &[u8]) -> Result<Value, Status> {
    let unknown = |why: String| unrecognized(expected, &format!("unable to determine group/version/kind: {why}"), body);
    decode::cbor_type_meta(body, &Limits::default()).map(type_meta_tree).map_err(|error| cbor_failure(error, unknown))
}

/// Returns the error for a body in CBOR: 413 for too many elements, otherwise the result of `refuse`.
pub(crate) fn cbor_failure(error: CborError, refuse: impl FnOnce(String) -> Status) -> Status {
    match error {
        CborError::TooManyElements(error) => Status::request_entity_too_large(error),
        error => refuse(error.to_string()),
    }
}

pub(crate) fn cannot_be_handled(expected: &ExpectedKind<'_>, value: &Value, why: &str) -> Status {
    let api_version = value.str_at(&["apiVersion"]);
    let version = api_version.rsplit('/').next().filter(|v| !v.is_empty()).unwrap_or(expected.version);
    let kind = Some(value.str_at(&["kind"])).filter(|k| !k.is_empty()).unwrap_or(expected.kind);
    let (version, expected) = (go_quote(version), expected.kind);
    Status::bad_request(format!("{kind} in version {version} cannot be handled as a {expected}: {why}"))
}

/// Returns the error for a body with a group but no version.
pub(crate) fn missing_version(body: &[u8]) -> String {
    // The initial bytes of CBOR maps (up to 0xbf) and tags cannot start a text.
    let shown = match body.first() {
        Some(0xa0..=0xdb) => cbor::diagnose(body),
        _ => String::from_utf8_lossy(body).into_owned(),
    };
    format!("Object 'apiVersion' is missing in '{shown}'")
}

/// Checks the kind of a body: omitted fields are filled in, others must match.
///
/// kube-apiserver first decodes a body of another kind or version as what it is, which may fail, and reports unknown fields
/// of another version.
fn check_kind(expected: &ExpectedKind<'_>, value: &mut Value, sent: &Sent<'_>) -> Result<(), Status> {
    let body = sent.bytes;
    let api_version = value.str_at(&["apiVersion"]).to_owned();
    let kind = value.str_at(&["kind"]).to_owned();
    let expected_version = expected.group_version();
    let mut given = if api_version.is_empty() {
        expected_version.clone()
    } else {
        GroupVersion::parse(&api_version)
            .ok_or_else(|| unrecognized(expected, &format!("unexpected GroupVersion string: {api_version}"), body))?
    };
    if given.version.is_empty() {
        if !given.group.is_empty() && given.group != expected_version.group {
            let kind = if kind.is_empty() { expected.kind } else { &kind };
            let (why, expected) = (missing_version(body), expected.kind);
            return Err(Status::bad_request(format!(
                "{kind} in version \"\" cannot be handled as a {expected}: {why}"
            )));
        }
        given = expected_version.clone();
    }
    let kind = if kind.is_empty() { expected.kind.to_owned() } else { kind };
    if kind == expected.kind && given == expected_version {
        expected.set_type_meta(value);
        return Ok(());
    }
    let Some(message) = registered_message(expected.kinds, expected.group, &given, &kind) else {
        let why = format!(
            "no kind {} is registered for version {} in scheme \"{}\"",
            go_quote(&kind),
            go_quote(&given.to_string()),
            scheme_location(expected.group)
        );
        return Err(cannot_be_handled(expected, value, &why));
    };
    let decoded = sent.decode(message).map_err(|error| match error.too_many_elements() {
        Some(error) => Status::request_entity_too_large(error),
        None => cannot_be_handled(expected, value, &error.to_string()),
    })?;
    if kind != expected.kind {
        let why = unknown_conversion(&given, &kind, expected.group, expected.kind);
        return Err(cannot_be_handled(expected, value, &why));
    }
    let refuse = |why: &str| cannot_be_handled(expected, value, why);
    apply_field_validation(sent.context, &decoded.findings, sent.validation, refuse)?;
    Err(Status::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected_version})"
    )))
}

/// Returns the location in kube-apiserver's sources at which the scheme of a group is defined.
pub(crate) fn scheme_location(group: &str) -> &'static str {
    match group {
        "apiextensions.k8s.io" => "pkg/apiserver/apiserver.go:55",
        "apiregistration.k8s.io" => "pkg/apiserver/scheme/scheme.go:28",
        _ => "pkg/api/legacyscheme/scheme.go:30",
    }
}

/// Returns the schema of a kind, if kube-apiserver would decode it in the expected group's scheme.
pub(crate) fn registered_message<'k>(
    kinds: &'k dyn Kinds,
    expected_group: &str,
    given: &GroupVersion,
    kind: &str,
) -> Option<&'k Message> {
    let together = scheme_location(expected_group) == scheme_location(&given.group) || is_shared_kind(kind);
    // The kinds of request options are registered in every group except their own.
    kinds.kind(&given.group, &given.version, kind).filter(|_| together && given.group != "meta.k8s.io")
}

/// Returns true for kinds that are a single type in all groups and versions.
fn is_shared_kind(kind: &str) -> bool {
    kind.ends_with("Options") || matches!(kind, "WatchEvent" | "Status")
}

/// Returns the error for an object of another kind, with the names of Go's types.
pub(crate) fn unknown_conversion(given: &GroupVersion, kind: &str, group: &str, expected: &str) -> String {
    let package = internal_package(group);
    let version = if is_shared_kind(kind) { "v1" } else { given.version.as_str() };
    format!("converting ({version}.{kind}) to ({package}.{expected}): unknown conversion")
}

/// Returns the name of the Go package with the internal types of a group.
pub(crate) fn internal_package(group: &str) -> &str {
    match group {
        // Both groups of events have the type of the older one.
        "" | "events.k8s.io" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        _ => group.split('.').next().unwrap_or(group),
    }
}

fn decode_protobuf(expected: &ExpectedKind<'_>, message: &Message, sent: &Sent<'_>) -> Result<Value, Status> {
    let body = sent.bytes;
    let envelope = proto::unwrap(body).map_err(|error| unrecognized(expected, &error.to_string(), body))?;
    let mut type_meta = Value::default();
    if !envelope.api_version.is_empty() {
        type_meta.make_object().insert("apiVersion", &*envelope.api_version);
    }
    if !envelope.kind.is_empty() {
        type_meta.make_object().insert("kind", &*envelope.kind);
    }
    check_kind(expected, &mut type_meta, sent)?;
    let mut value = proto::decode_within(envelope.raw, message, &Limits::default()).map_err(|error| match error {
        ProtoError::TooManyElements(error) => Status::request_entity_too_large(error),
        error => cannot_be_handled(expected, &type_meta, &error.to_string()),
    })?;
    check_kind(expected, &mut value, sent)?;
    Ok(value)
}

/// Returns the start of a body: as text if it looks like JSON, otherwise in hexadecimal.
fn summarize(body: &[u8]) -> String {
    let (shown, more) = if body.len() > SUMMARY { (&body[..SUMMARY], " ...") } else { (body, "") };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}
