//! Objects as answers: encoding, transformation, headers.

use binnacle_meta::Status;
use binnacle_registry::{Resource, Warnings};
use binnacle_request::latency::{Part, measure};
use binnacle_request::{Body, Response};
use binnacle_schema::{Message, Value, canonical, json, proto, yaml};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use crate::negotiate::{Encoding, Output, Transform};
use crate::{partial, table};

/// An object of the resource (in its stored version) in the negotiated form.
pub fn object(
    resource: &Resource,
    output: Output,
    include: table::Include,
    code: u16,
    mut object: Value,
) -> Result<Response, Status> {
    let value = match output.transform {
        Transform::None => {
            measure(Part::Transform, || {
                resource.from_stored(&mut object);
                canonical::canonicalize(&mut object, resource.message);
            });
            let body = encode(&object, Some(resource.message), output.encoding, output.pretty);
            return Ok(bytes(code, output.encoding.media_type(), body));
        }
        Transform::Table(version) => measure(Part::Transform, || table::of_object(resource, &object, include, version)),
        Transform::PartialMetadata(version) => {
            measure(Part::Transform, || partial::of_object(resource, &object, version))
        }
        Transform::PartialMetadataList(_) => {
            return Err(Status::not_acceptable_text(
                "you requested PartialObjectMetadataList, but the requested object is not a list",
            ));
        }
    };
    let message = partial::message(output.transform);
    Ok(bytes(code, output.encoding.media_type(), encode(&value, message, output.encoding, output.pretty)))
}

/// An object that belongs to no resource (scales, reviews), with its own schema.
pub fn plain(output: Output, code: u16, value: &Value, message: &Message) -> Response {
    let body = encode(value, Some(message), output.encoding, output.pretty);
    bytes(code, output.encoding.media_type(), body)
}

/// A Status in the negotiated encoding: what deletes answer.
pub fn status(output: Output, code: u16, status: &Status) -> Response {
    let mut response = crate::failure::of_encoding(status, output.encoding);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
    response
}

/// The bytes of a value. Protobuf needs the schema and wraps the object in its envelope.
pub(crate) fn encode(value: &Value, message: Option<&Message>, encoding: Encoding, pretty: bool) -> Vec<u8> {
    measure(Part::Serialize, || encoded(value, message, encoding, pretty))
}

fn encoded(value: &Value, message: Option<&Message>, encoding: Encoding, pretty: bool) -> Vec<u8> {
    let mut body = Vec::with_capacity(1024);
    match encoding {
        Encoding::Json if pretty => {
            json::write_pretty(value, &mut body);
            body.push(b'\n');
        }
        Encoding::Json => {
            json::write(value, &mut body);
            body.push(b'\n');
        }
        Encoding::Yaml => yaml::write(value, &mut body),
        Encoding::Protobuf => {
            let Some(message) = message else { return body };
            let mut canonical = value.clone();
            canonical::canonicalize(&mut canonical, message);
            body = proto::wrap(value.str_at(&["apiVersion"]), value.str_at(&["kind"]), |raw| {
                proto::encode(&canonical, message, raw);
            });
        }
    }
    body
}

pub(crate) fn bytes(code: u16, media_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Adds warnings as headers: `299 - "text"`.
pub(crate) fn with_warnings(warnings: &Warnings, mut response: Response) -> Response {
    for text in warnings.take() {
        if let Some(value) = warning_header(&text) {
            response.headers_mut().append(HeaderName::from_static("warning"), value);
        }
    }
    response
}

/// All warnings together may take so much of a header (the reference cuts there, too).
const WARNING_MAX: usize = 4 * 1024;

fn warning_header(text: &str) -> Option<HeaderValue> {
    let mut quoted = String::with_capacity(text.len() + 10);
    quoted.push_str("299 - \"");
    for c in text.chars().filter(|c| !c.is_control()) {
        if c == '"' || c == '\\' {
            quoted.push('\\');
        }
        quoted.push(c);
        if quoted.len() >= WARNING_MAX {
            break;
        }
    }
    quoted.push('"');
    HeaderValue::from_bytes(quoted.as_bytes()).ok()
}
