//! Responses with objects: encoding, transformation, headers.

use binnacle_meta::Status;
use binnacle_registry::{Resource, StoredObject, Warnings};
use binnacle_request::latency::{Part, measure};
use binnacle_request::{Body, Response};
use binnacle_schema::{Message, Value, canonical, cbor, json, proto, yaml};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use crate::negotiate::{Encoding, Output, Transform};
use crate::object_view::ObjectView;
use crate::table;

/// Returns an object of the resource (canonical, in its stored version) in the negotiated output.
pub fn object(
    resource: &Resource,
    output: Output,
    include: table::Include,
    code: u16,
    stored: StoredObject,
) -> Result<Response, Status> {
    if output.transform == Transform::None
        && output.encoding == Encoding::Protobuf
        && let Some(message) = measure(Part::Serialize, || resource.protobuf_of_written(&stored)).transpose()?
    {
        return Ok(protobuf(resource, code, &message));
    }
    let mut object = stored.object;
    let view = ObjectView::of(resource);
    let go_type = || resource.collection.go_type("");
    let transformed = match output.transform {
        Transform::None => None,
        other => measure(Part::Transform, || view.object(other, include, &object, go_type))?,
    };
    if let Some(value) = transformed {
        let body = encode(&value, output.transform.message(), output.encoding, output.pretty);
        return Ok(bytes(code, output.encoding.media_type(), body));
    }
    if resource.conversion.is_some() {
        measure(Part::Transform, || {
            resource.from_stored(&mut object);
            canonical::canonicalize(&mut object, &resource.message);
        });
    }
    debug_assert!(
        resource.collection.kind.custom.is_some() || canonical::is_canonical(&object, &resource.message),
        "{object:?}"
    );
    let body = encode(&object, resource.schema(), output.encoding, output.pretty);
    Ok(bytes(code, output.encoding.media_type(), body))
}

/// Returns an encoded object of the resource in its envelope.
pub(crate) fn protobuf(resource: &Resource, code: u16, message: &[u8]) -> Response {
    let kind = &resource.description.kind;
    let body = proto::wrap(resource.api_version(), kind, |raw| raw.extend_from_slice(message));
    bytes(code, Encoding::Protobuf.media_type(), body)
}

/// Returns an object without a resource (scales, reviews), with its own schema.
pub fn plain(output: Output, code: u16, value: &Value, message: &Message) -> Response {
    let body = encode(value, Some(message), output.encoding, output.pretty);
    bytes(code, output.encoding.media_type(), body)
}

/// Encodes a value. Protobuf needs the schema, and wraps the object in an envelope.
pub(crate) fn encode(value: &Value, message: Option<&Message>, encoding: Encoding, pretty: bool) -> Vec<u8> {
    measure(Part::Serialize, || encoded(value, message, encoding, pretty))
}

fn encoded(value: &Value, message: Option<&Message>, encoding: Encoding, pretty: bool) -> Vec<u8> {
    let mut body = Vec::with_capacity(1024);
    match encoding {
        // As in kube-apiserver, indented JSON ends without a line break.
        Encoding::Json if pretty => json::write_pretty(value, &mut body),
        Encoding::Json => {
            json::write(value, &mut body);
            body.push(b'\n');
        }
        Encoding::Yaml => yaml::write(value, &mut body),
        Encoding::Cbor => cbor::write(value, message, &mut body),
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

pub(crate) fn bytes(code: u16, media_type: &'static str, bytes: Vec<u8>) -> Response {
    body(code, media_type, Body::full(bytes))
}

pub(crate) fn body(code: u16, media_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Adds warnings as headers: `299 - "text"`.
pub(crate) fn with_warnings(warnings: &Warnings, mut response: Response) -> Response {
    for text in truncate_warnings(&warnings.take()) {
        if let Some(value) = warning_header(text) {
            response.headers_mut().append(HeaderName::from_static("warning"), value);
        }
    }
    response
}

/// Limits long warnings as kube-apiserver does, so that clients can parse the headers: if their total exceeds the
/// limit, each is truncated, and later ones are dropped when there is no space left.
fn truncate_warnings(texts: &[String]) -> Vec<&str> {
    let length = |text: &str| text.chars().count();
    let end_of = |text: &'_ str| text.char_indices().nth(Warnings::CUT).map_or(text.len(), |(end, _)| end);
    let mut written = 0;
    let mut truncated: Vec<&str> = Vec::with_capacity(texts.len());
    let mut is_truncating = false;
    for text in texts {
        if is_truncating && written >= Warnings::MAX_LENGTH {
            break;
        }
        truncated.push(text);
        written += length(text);
        if is_truncating || written > Warnings::MAX_LENGTH {
            is_truncating = true;
            truncated.iter_mut().for_each(|text| *text = &text[..end_of(text)]);
            written = truncated.iter().map(|text| length(text)).sum();
        }
    }
    truncated
}

/// Returns the header of a warning; `None` for texts with control characters, which are not sent.
fn warning_header(text: &str) -> Option<HeaderValue> {
    if text.contains(char::is_control) {
        return None;
    }
    let mut quoted = String::with_capacity(text.len() + 10);
    quoted.push_str("299 - \"");
    for c in text.chars() {
        if c == '"' || c == '\\' {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    HeaderValue::from_bytes(quoted.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncates_long_warnings() {
        let texts = |length: usize, count: usize| vec!["x".repeat(length); count];
        for (length, count, truncated, each) in
            [(300, 13, 13, 300), (300, 14, 14, 256), (300, 40, 16, 256), (5000, 1, 1, 256), (60, 100, 69, 60)]
        {
            let texts = texts(length, count);
            let got = truncate_warnings(&texts);
            assert_eq!((got.len(), got[0].len()), (truncated, each), "{count} texts of {length}");
        }
    }
}
